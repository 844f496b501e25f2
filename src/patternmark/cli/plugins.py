"""Commands of other distributions, found by their entry points and loaded when they are used."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from patternmark import __version__
from patternmark.errors import PatternmarkError

GROUP = "patternmark.commands"  # entry points that name a command and its Typer
LAB = ("bench", "train")  # the commands of patternmark-lab


class CommandsWithPlugins(TyperGroup):
    """The commands of this distribution, followed by those of others."""

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
            command.name = cmd_name  # as lists of commands show it
            return command
        if cmd_name in LAB:
            raise PatternmarkError(
                f"'{cmd_name}' is a command of patternmark-lab, which is not installed: 'pip "
                "install patternmark-lab', or from a clone of patternmark 'pip install ./lab'"
            )
        return None


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
