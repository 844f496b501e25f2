"""A group of commands that reports a missing package as an error with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from patternmark.errors import PatternmarkError
from patternmark.fast.compiled import force_loops
from patternmark.io.files import held, make_folder


def hold(context: typer.Context, target: Path | None) -> Path | None:
    """Lock what an option names, until the command ends: a run that continues must be alone."""
    if target is not None:
        make_folder(target.parent)
        context.with_resource(held(target))
    return target


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
