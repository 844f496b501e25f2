"""What all commands share: the two consoles, progress, and options of one meaning."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

STOPPED = 130  # the status of a run that Ctrl-C ended, as a shell reports it
# A pipe has no width: nothing may be cut to fit one.
results = Console(width=None if sys.stdout.isatty() else 400, emoji=False)
errors = Console(stderr=True, emoji=False)


def warn(message: object) -> None:
    """Say something on standard error that does not stop the run."""
    errors.print(
        f"[yellow]warning:[/yellow] {escape(str(message))}", soft_wrap=True, highlight=False
    )


def fail(message: object) -> None:
    """Say on standard error what could not be done."""
    errors.print(f"[red]error:[/red] {escape(str(message))}", soft_wrap=True, highlight=False)


def say(message: str) -> None:
    """Tell a person what was done, on standard error, so that results stay clean."""
    errors.print(escape(message), soft_wrap=True, highlight=False)


def progress(unit: str) -> Progress:
    """Return a progress bar on standard error that leaves no trace; silent where nobody looks."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,}} {unit}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def progress_of_bytes() -> Progress:
    """Return a progress bar with the rate of bytes and the time that is left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not sys.stderr.isatty(),
    )


class _Spoken(logging.Handler):
    """Sends log records where all other messages go."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.name}: {record.getMessage()}")


def _set_verbose(wanted: bool) -> None:
    logger = logging.getLogger("patternmark")
    if wanted and not logger.handlers:
        logger.addHandler(_Spoken())
        logger.setLevel(logging.DEBUG)


Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=_set_verbose, help="Log each step to standard error."),
]
AllowOpenKey = Annotated[
    bool,
    typer.Option(
        "--allow-open-key",
        envvar="PATTERNMARK_ALLOW_OPEN_KEY",
        help="Accept a key file that others may read.",
    ),
]
