"""What all commands share: the two consoles, messages and progress.

Whatever is printed goes through `shown`: a name of a file or a record cannot write to the terminal.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
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
from rich.text import Text

from patternmark.cli.options import OUTPUT, option
from patternmark.io.items import Item, manifests_in_words
from patternmark.io.shown import shown

STOPPED = 130  # exit status of a run that Ctrl-C ended, as in a shell
# A pipe has no width, so give it room: nothing may be cut.
results = Console(width=None if sys.stdout.isatty() else 400, emoji=False)
errors = Console(stderr=True, emoji=False)


# The library speaks of Python's parameters, such as overwrite=True, format='lines' or weights=FILE;
# here they are options.
_SWITCH = re.compile(
    r"\b(overwrite|resume|exact|strict|count_repeats|verdict_only|homo_oligomer|dna)=True\b"
)
_PARAMETER = re.compile(
    r"\b(format|manifest|tokenizer|weights|chains|null_keys|draws|seed|m|null|detector|backbone|"
    r"fpr|fdr|tpr|"
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
    """Say something on standard error that does not stop the run."""
    _print_error(Text.assemble(("warning:", "yellow"), " ", shown(for_command_line(message))))


def fail(message: object) -> None:
    """Say on standard error what could not be done."""
    _print_error(Text.assemble(("error:", "red"), " ", shown(for_command_line(message))))


def say(message: object) -> None:
    """Tell a person what was done, on standard error, so that results stay clean."""
    _print_error(Text(shown(for_command_line(message))))


def _print_error(text: Text) -> None:
    errors.print(text, soft_wrap=True, highlight=False)


def tell(line: object) -> None:
    """Print one line of a result for people."""
    results.print(Text(shown(line)), soft_wrap=True, highlight=False)


def cell(text: object) -> str:
    """Return a text for a table: nothing in it is read as markup or by the terminal."""
    return escape(shown(text))


def print_manifests(items: Iterable[Item]) -> None:
    """Print below a table which manifests were used, and what they did."""
    for line in manifests_in_words(items):
        results.print()
        tell(line)


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
            tasks[what] = bar.add_task(cell(what), total=total)
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
