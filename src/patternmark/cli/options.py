"""The options that several commands share, and the panels in which help shows them.

An option has one name, one meaning and one panel in all commands. Options of a single command are
defined with that command, in one of these panels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from patternmark.core.profile import TEXT_DELTA
from patternmark.io.records import FORMATS
from patternmark.statistics import STATISTICS

# Panels of options, in the order in which help shows them.
INPUT, MARK, DETECTION, ATTACK = "Input", "Mark", "Detection", "Attack"
MODEL, OUTPUT, EXPERT = "Model", "Output", "Expert"
PANELS = (INPUT, MARK, DETECTION, ATTACK, MODEL, OUTPUT, EXPERT)

# Panels of commands, by reader.
TO_MARK, TO_VERIFY, TO_SEARCH, TO_STUDY = "Mark", "Verify", "Search", "Study"

HELP_NAMES = ["--help", "-h"]
_PANEL = "rich_help_panel"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def option(panel: str, *names: str, **more: Any) -> Any:
    """Return a typer option that is shown in a panel."""
    return typer.Option(*names, rich_help_panel=panel, **more)


class Command(TyperCommand):
    """A command whose help shows options in panels and joins the lines of paragraphs."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        for parameter in self.params:
            if parameter.param_type_name == "option":
                _place(parameter, EXPERT)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, in the panel of output options."""
        found = super().get_help_option(ctx)
        if found is not None:
            _place(found, OUTPUT)
        return found

    def get_params(self, ctx: Any) -> Any:
        """Return arguments, then options panel by panel."""
        return sorted(super().get_params(ctx), key=_panel_number)


class App(typer.Typer):
    """A group of commands of this class; -h is short for --help."""

    def __init__(self, **more: Any) -> None:
        super().__init__(context_settings={"help_option_names": HELP_NAMES}, **more)

    def command(self, *names: str, **more: Any) -> Callable[[_Function], _Function]:  # type: ignore[override]
        """Return a decorator that adds a function as a command."""
        return super().command(*names, cls=Command, **more)


def _place(parameter: Any, panel: str) -> None:
    """Put an option without a panel into this one; hide the type of a switch."""
    if getattr(parameter, _PANEL, None) is None:
        setattr(parameter, _PANEL, panel)
    if parameter.is_flag and parameter.metavar is None:
        parameter.metavar = ""


def _panel_number(parameter: Any) -> int:
    if parameter.param_type_name != "option":
        return -1
    return PANELS.index(getattr(parameter, _PANEL))


# --- input -----------------------------------------------------------------------------------

SequenceFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="FASTA, one sequence or text per line, or JSON lines; .gz too; - for stdin.",
    ),
]
ProteinFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="FASTA, one sequence per line, or JSON lines; .gz too; - for stdin.",
    ),
]
KeyFile = Annotated[Path, option(INPUT, "--key", metavar="FILE", help="The key file.")]
KeyFileIfMarked = Annotated[
    Path | None,
    option(INPUT, "--key", metavar="FILE", help="The key file; not with --no-watermark."),
]
KeyFolder = Annotated[
    Path, option(INPUT, "--keys", metavar="FOLDER", help="A folder of key files (*.key).")
]
KeyFolderIfAny = Annotated[
    Path | None, option(INPUT, "--keys", metavar="FOLDER", help="A folder of key files (*.key).")
]
InputFormat = Annotated[
    str,
    option(
        INPUT,
        "--format",
        metavar="NAME",
        help=f"{', '.join(FORMATS)}. In 'paragraphs' blank lines separate the records, and 'text' "
        "is a single record; both are for text.",
    ),
]
TokenizerFile = Annotated[
    Path | None,
    option(
        INPUT,
        "--tokenizer",
        metavar="FILE",
        help="Splits text into the key's tokens; default: the built-in one, or the one next to "
        "the key file.",
    ),
]
ManifestUsed = Annotated[
    str,
    option(
        INPUT,
        "--manifest",
        metavar="NAME",
        help="verify: use the manifest next to a file if the key signed both; trust: use any; "
        "ignore: use none.",
    ),
]
_BACKBONE = "The structure that the sequences were designed on: PDB or mmCIF (.gz)."
Backbone = Annotated[Path, option(INPUT, "--backbone", metavar="FILE", help=_BACKBONE)]
BackboneIfAny = Annotated[Path | None, option(INPUT, "--backbone", metavar="FILE", help=_BACKBONE)]
Chains = Annotated[
    str | None,
    option(INPUT, metavar="LIST", help="The designed chains, such as A,B; the others are context."),
]
Fixed = Annotated[
    str, option(INPUT, metavar="LIST", help='Residues that keep their letter: "A10-20 B5".')
]
Tied = Annotated[
    str,
    option(INPUT, metavar="LIST", help='Residues that share a letter: "A10,B10 A12-20,B12-20".'),
]
HomoOligomer = Annotated[
    bool, option(INPUT, "--homo-oligomer", help="Tie residues of the same number in all chains.")
]

# --- the mark --------------------------------------------------------------------------------

Delta = Annotated[
    float | None,
    option(MARK, metavar="X", help="Strength of the mark; default: the key's."),
]
NewDelta = Annotated[
    float | None,
    option(
        MARK,
        "--delta",
        metavar="X",
        help=f"Strength of the mark; default: 1 ({TEXT_DELTA:g} for text).",
    ),
]
Payload = Annotated[
    int | None,
    option(
        MARK,
        metavar="N",
        help="A number that the mark carries: from 0, less than the key's number of nonces.",
    ),
]
NoWatermark = Annotated[bool, option(MARK, "--no-watermark", help="Work without a mark.")]

# --- detection -------------------------------------------------------------------------------

StatisticName = Annotated[
    str,
    option(
        DETECTION,
        "--detector",
        metavar="NAME",
        help=f"What to measure: {', '.join(STATISTICS)}. Block keys take auto and lr.",
    ),
]
NullKeys = Annotated[
    int | None,
    option(
        DETECTION,
        "--null-keys",
        metavar="N",
        min=1,
        help="Number of fresh keys to compare with; default with --null keys: 999.",
    ),
]
Fpr = Annotated[
    float, option(DETECTION, "--fpr", metavar="P", help="Call a sequence marked at p <= P.")
]

# --- models ----------------------------------------------------------------------------------

Model = Annotated[
    str,
    option(MODEL, metavar="NAME", help="Published weights: v_48_020, soluble_v_48_020, ..."),
]
Weights = Annotated[
    Path | None,
    option(MODEL, metavar="FILE", help="Your own checkpoint instead of published weights."),
]
Temperature = Annotated[float, option(MODEL, metavar="T", help="Sampling temperature.")]
MAX_ORDERS = 256  # all orders of a sequence are in memory at once
Orders = Annotated[
    int,
    option(
        MODEL, metavar="N", min=1, max=MAX_ORDERS, help="Random decoding orders to average over."
    ),
]

# --- output ----------------------------------------------------------------------------------

JsonLines = Annotated[bool, option(OUTPUT, "--json", help="Print one JSON object per sequence.")]
Json = Annotated[bool, option(OUTPUT, "--json", help="Print JSON.")]
Overwrite = Annotated[
    bool, option(OUTPUT, "--overwrite", help="Replace the output file if it exists.")
]
Resume = Annotated[
    bool, option(OUTPUT, "--resume", help="Continue an earlier run that was interrupted.")
]


def output_file(help: str) -> Any:
    """Return the option for the file that a command writes."""
    return option(OUTPUT, "--output", "-o", metavar="FILE", help=help)


def plot_file(what: str) -> Any:
    """Return the option for a picture."""
    return option(OUTPUT, "--plot", metavar="FILE", help=f"Draw {what} (.png, .svg or .pdf).")


# --- for experts -----------------------------------------------------------------------------

Device = Annotated[
    str,
    option(EXPERT, metavar="NAME", help="cpu, cuda, or auto: a GPU if there is one."),
]
Workers = Annotated[int, option(EXPERT, metavar="N", min=1, help="Parallel threads or processes.")]
FreshSeed = Annotated[
    int | None,
    option(
        EXPERT,
        "--seed",
        metavar="N",
        min=0,
        help="The same seed gives the same result; default: fresh randomness.",
    ),
]
FixedSeed = Annotated[
    int,
    option(EXPERT, "--seed", metavar="N", min=0, help="The same seed gives the same result."),
]
Block = Annotated[
    int | None,
    option(EXPERT, metavar="N", help="blocks, turns: consecutive positions that share a coin."),
]
Nonces = Annotated[
    int | None,
    option(
        MARK,
        metavar="N",
        help="blocks, turns: number of independent schedules; each sequence uses one. With 65536 "
        "a text carries a payload of 16 bits.",
    ),
]
AllowOpenKey = Annotated[
    bool,
    option(
        EXPERT,
        "--allow-open-key",
        envvar="PATTERNMARK_ALLOW_OPEN_KEY",
        help="Accept a key file that other users can read.",
    ),
]
