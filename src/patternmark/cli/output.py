"""Output of all commands: the two consoles, messages and progress bars."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from typing import Annotated

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from patternmark.cli.options import OUTPUT, option

STOPPED = 130  # exit status of a run that Ctrl-C ended, as in a shell
# A pipe has no width, so give it room: nothing may be cut.
results = Console(width=None if sys.stdout.isatty() else 400, emoji=False)
errors = Console(stderr=True, emoji=False)


# Messages of the library name Python's parameters, such as overwrite=True, format='lines' or
# weights=FILE; on the command line these are options.
_SWITCH = re.compile(r"\b(overwrite|resume|exact|strict|count_repeats|homo_oligomer|dna)=True\b")
_PARAMETER = re.compile(
    r"\b(format|tokenizer|weights|chains|null_keys|draws|seed|m|null|detector|backbone|fpr|fdr|tpr|"
    r"output|delta|length|payload|passes|temperature|iterations|length_beam|count|batch|engine|"
    r"workers|orders|reference|against|model|plddt|key|kind|host|wordnet|fixed|epsilon|answers|"
    r"queries|scheme|tries|budget)=(?:'([^']*)'|([A-Z]+)\b)"
)
_OTHER_NAMES = {  # names in Python, and on the command line
    "rank=True": "--null keys",
    "tool=NAME": "--for",
    "patternmark.combine": "patternmark detect --combine",
    "patternmark.alphabet": "keygen --alphabet",
}


def _as_option(found: re.Match[str]) -> str:
    name, *value = found.groups()
    return " ".join(filter(None, [f"--{name.replace('_', '-')}", *value]))


def for_command_line(message: object) -> str:
    """Return a message of the library with options in place of Python's parameters.

    >>> for_command_line("x.fa: not FASTA: if it has one sequence per line, say format='lines'")
    'x.fa: not FASTA: if it has one sequence per line, say --format lines'
    >>> for_command_line("exists: pass overwrite=True, or give weights=FILE")
    'exists: pass --overwrite, or give --weights FILE'
    >>> for_command_line("judge the file with 'patternmark.combine', or choose another output=FILE")
    "judge the file with 'patternmark detect --combine', or choose another --output FILE"
    """
    text = str(message)
    for in_python, here in _OTHER_NAMES.items():
        text = text.replace(in_python, here)
    return _PARAMETER.sub(_as_option, _SWITCH.sub(_as_option, text))


def warn(message: object) -> None:
    """Print a warning on standard error."""
    errors.print(
        f"[yellow]warning:[/yellow] {escape(for_command_line(message))}",
        soft_wrap=True,
        highlight=False,
    )


def fail(message: object) -> None:
    """Print an error on standard error."""
    errors.print(
        f"[red]error:[/red] {escape(for_command_line(message))}", soft_wrap=True, highlight=False
    )


def say(message: object) -> None:
    """Print a message for people on standard error; standard output is for results."""
    errors.print(escape(for_command_line(message)), soft_wrap=True, highlight=False)


def progress(unit: str) -> Progress:
    """Return a progress bar on standard error that disappears; silent without a terminal."""
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


def shown_in(bar: Progress) -> Callable[[str, int, int | None], None]:
    """Return a progress function for the library; it shows each step as a line of a bar."""
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int | None) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
        bar.update(tasks[what], completed=done, total=total)
        if done == total:
            bar.remove_task(tasks.pop(what))

    return show


def progress_of_bytes() -> Progress:
    """Return a progress bar with bytes per second and the remaining time."""
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


class _LogHandler(logging.Handler):
    """Prints log records like other messages."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.name}: {record.getMessage()}")


def _set_verbose(wanted: bool) -> None:
    logger = logging.getLogger("patternmark")
    if wanted and not logger.handlers:
        logger.addHandler(_LogHandler())
        logger.setLevel(logging.DEBUG)


Verbose = Annotated[
    bool,
    option(
        OUTPUT, "--verbose", "-v", callback=_set_verbose, help="Log each step to standard error."
    ),
]
