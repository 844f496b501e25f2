"""Commands of other distributions, found by their entry points, loaded when they are asked for."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from patternmark.errors import PatternmarkError

GROUP = "patternmark.commands"  # of the entry points: the name of a command, and its Typer
LAB = ("bench", "train")  # what patternmark-lab brings


class CommandsWithPlugins(TyperGroup):
    """The commands of this distribution, and behind them those of others."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names."""
        return [*super().list_commands(ctx), *sorted(_plugins().keys() - self.commands.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or say where it is to be had."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        plugin = _plugins().get(cmd_name)
        if plugin is not None:
            command = typer.main.get_group(plugin.load())
            command.name = cmd_name  # lists of commands say it
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
