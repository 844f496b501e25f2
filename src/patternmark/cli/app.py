"""The `patternmark` command and its subcommands."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from patternmark import __version__
from patternmark.cli.attack import attack
from patternmark.cli.audit import audit
from patternmark.cli.bias import bias
from patternmark.cli.calibrate import calibrate
from patternmark.cli.design import design
from patternmark.cli.detect import detect
from patternmark.cli.identify import identify
from patternmark.cli.keys import key_app, keygen
from patternmark.cli.locate import locate
from patternmark.cli.options import TO_MARK, TO_SEARCH, TO_STUDY, TO_VERIFY, App
from patternmark.cli.output import fail
from patternmark.cli.plugins import CommandsWithPlugins
from patternmark.cli.power import power
from patternmark.cli.quality import quality
from patternmark.cli.report import report
from patternmark.cli.scan import scan
from patternmark.cli.score import score
from patternmark.cli.translate import translate
from patternmark.errors import PatternmarkError

_NAME_SHOWN = 300  # characters of the name of a file: one that is too long must not fill a screen

app = App(
    help="Watermark what order-agnostic models generate; prove it with a p-value that holds.",
    cls=CommandsWithPlugins,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its tracebacks print local variables
)
app.command(rich_help_panel=TO_MARK)(keygen)
app.add_typer(key_app, name="key", rich_help_panel=TO_MARK)
app.command(rich_help_panel=TO_MARK)(design)
app.command(rich_help_panel=TO_MARK)(translate)
app.command(rich_help_panel=TO_VERIFY)(detect)
app.command(rich_help_panel=TO_SEARCH)(identify)
app.command(rich_help_panel=TO_SEARCH)(scan)
app.command(rich_help_panel=TO_VERIFY)(locate)
app.command(rich_help_panel=TO_VERIFY)(calibrate)
app.command(rich_help_panel=TO_STUDY)(power)
app.command(rich_help_panel=TO_VERIFY)(report)
app.command(rich_help_panel=TO_MARK)(bias)
app.command(rich_help_panel=TO_STUDY)(score)
app.command(rich_help_panel=TO_STUDY)(attack)
app.command(rich_help_panel=TO_STUDY)(quality)
app.command(rich_help_panel=TO_STUDY)(audit)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"patternmark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Watermark what order-agnostic models generate; prove it with a p-value that holds."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an expected error prints one line on stderr and exits with 2."""
    if arguments is None and hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly if `| head` closes the pipe
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="patternmark")
    except PatternmarkError as error:
        fail(error)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{str(error.filename)[:_NAME_SHOWN]}: {error.strerror}")
        sys.exit(2)
    except MemoryError:
        fail("there is not enough memory: give fewer or shorter records at once")
        sys.exit(2)
