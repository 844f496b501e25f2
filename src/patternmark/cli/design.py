"""`patternmark design`: ProteinMPNN, with and without a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from patternmark.api.designing import Designing, DesignRequest
from patternmark.cli.options import (
    EXPERT,
    INPUT,
    OUTPUT,
    AllowOpenKey,
    Chains,
    Delta,
    Device,
    Fixed,
    FreshSeed,
    HomoOligomer,
    KeyFileIfMarked,
    Model,
    NoWatermark,
    Overwrite,
    Payload,
    Temperature,
    Tied,
    Weights,
    option,
    output_file,
)
from patternmark.cli.output import STOPPED, Verbose, errors, fail, say, shown_in, warn
from patternmark.core.alphabet import PROTEIN
from patternmark.core.keyfile import load_key
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError
from patternmark.io.files import held

SOME_FAILED = 3  # exit status if some of the structures could not be designed


def design(
    structures: Annotated[
        list[Path],
        typer.Argument(metavar="STRUCTURE", help="PDB or mmCIF files (.gz too), or folders."),
    ],
    output: Annotated[Path, output_file("The FASTA file to write.")],
    key: KeyFileIfMarked = None,
    chains: Chains = None,
    fixed: Fixed = "",
    tied: Tied = "",
    homo_oligomer: HomoOligomer = False,
    omit: Annotated[
        str, option(INPUT, metavar="LIST", help="Amino acids that are never used, such as CM.")
    ] = "",
    bias: Annotated[
        str, option(INPUT, metavar="LIST", help='Added to all logits: "A=-0.5,K=1".')
    ] = "",
    residue_bias: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help='The same by residue, as JSON: {"A10": {"P": 2}}.'),
    ] = None,
    delta: Delta = None,
    payload: Payload = None,
    no_watermark: NoWatermark = False,
    temperature: Temperature = 0.1,
    model: Model = "v_48_020",
    weights: Weights = None,
    count: Annotated[
        int, option(OUTPUT, "--count", "-n", metavar="N", min=1, help="Designs per structure.")
    ] = 1,
    overwrite: Overwrite = False,
    seed: FreshSeed = None,
    batch: Annotated[
        str, option(EXPERT, metavar="N", help="Sequences at a time, or auto.")
    ] = "auto",
    device: Device = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Design marked sequences on backbones with ProteinMPNN.

    A run that was interrupted continues where it stopped.

    Example: patternmark design backbone.pdb --key lab.key -n 8 -o designs.fa
    """
    marker = None if no_watermark else _marker(key, delta, payload, allow_open_key)
    request = DesignRequest(
        count=count,
        chains=chains,
        fixed=fixed,
        tied=tied,
        homo_oligomer=homo_oligomer,
        omit=omit,
        bias=_parse_bias(bias),
        residue_bias=residue_bias,
        temperature=temperature,
        model=model,
        weights=weights,
        seed=seed,
        batch=_batch(batch),
        device=device,
    )
    with held(output):
        job = Designing(
            structures,
            marker,
            request,
            key_file=key,
            output=output,
            overwrite=overwrite,
            warn=warn,
            report=say,
        )
        try:
            with _progress() as bar:
                failed = job.run(lambda _, reason: fail(reason), shown_in(bar))
        except KeyboardInterrupt:
            say(f"stopped: {output}: {job.kept}")
            raise typer.Exit(STOPPED) from None
    done = len(job.files) - failed
    if done:
        mark = f"marked with key {marker.key.key_id}" if marker else "without a mark"
        say(f"wrote {output}: {count} design(s) on each of {done} structure(s), {mark}")
    if failed:
        say(f"{failed} of {len(job.files)} structures could not be designed (see above)")
        raise typer.Exit(SOME_FAILED if done else 2)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


def _marker(key: Path | None, delta: float | None, payload: int | None, allow_open: bool) -> Marker:
    if key is None:
        raise ParameterError("give --key FILE to mark the designs, or --no-watermark")
    loaded = load_key(key, allow_open=allow_open, with_secret=True)
    return Marker(loaded, delta=delta, payload=payload)


def _batch(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"--batch must be auto or a whole number from 1, not {text!r}")
    return int(text)


def _parse_bias(text: str) -> dict[str, float]:
    bias = {}
    for item in filter(None, text.split(",")):
        letter, _, value = item.partition("=")
        try:
            PROTEIN.encode(letter)
            bias[letter.strip().upper()] = float(value)
        except ValueError:
            raise ParameterError(
                f"--bias: {item!r} is not a letter and a number, such as A=-0.5"
            ) from None
    return bias
