"""A group of commands that reports a missing package as an error with a remedy."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from patternmark.errors import PatternmarkError
from patternmark.fast.compiled import force_loops


class Group(TyperGroup):
    """Commands of the lab, which need more packages than patternmark."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a missing package is an error with its remedy."""
        try:
            with force_loops(True):  # they take long
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise PatternmarkError(
                f"this needs {error.name}, which is not installed. To install all that the lab "
                "needs: 'pip install patternmark-lab[all]', or from a clone 'pip install . "
                "./lab[all]'"
            ) from error
