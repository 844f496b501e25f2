"""Commands of other distributions, found by their entry points and loaded when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from patternmark import __version__
from patternmark.cli.options import TO_STUDY
from patternmark.errors import PatternmarkError
from patternmark.io.shown import shown

GROUP = "patternmark.commands"  # entry points that name a command and its Typer
LAB = ("bench", "train")  # the commands of patternmark-lab


class CommandsWithPlugins(TyperGroup):
    """The commands of this distribution, followed by those of others."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options; a switch has no type to show."""
        found = super().get_params(ctx)
        for parameter in found:
            parameter.metavar = ""
        return found

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Read the arguments of the group; a word that is wrong is shown without its escapes."""
        with _shown_errors():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a word that is wrong is shown without its escapes."""
        with _shown_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands that can be loaded."""
        others = sorted(_plugins().keys() - self.commands.keys())
        return [*super().list_commands(ctx), *filter(_can_be_loaded, others)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; if it is one of patternmark-lab, say how to install that."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in _plugins():
            command = typer.main.get_group(_load(cmd_name))
            command.name = cmd_name  # lists of commands say it
            command.rich_help_panel = TO_STUDY
            return command
        if cmd_name in LAB:
            raise PatternmarkError(
                f"'{cmd_name}' is a command of patternmark-lab, which is not installed: 'pip "
                "install patternmark-lab', or from a clone of patternmark 'pip install ./lab'"
            )
        return None


@contextmanager
def _shown_errors() -> Iterator[None]:
    """Escape what cannot be printed in the messages of the parser, which quote what was typed."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):
            error.message = shown(error.message)
        raise


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(name: str) -> Any:
    plugin = _plugins()[name]
    try:
        return plugin.load()
    except ImportError as error:
        whose = plugin.dist.name if plugin.dist else plugin.module
        raise PatternmarkError(
            f"'{name}' is a command of {whose}, which cannot be loaded: {error}. Install the "
            f"version that fits patternmark {__version__}"
        ) from None


def _can_be_loaded(name: str) -> bool:
    try:
        _load(name)
    except PatternmarkError:
        return False
    return True
