"""`patternmark quality`: what a mark costs, measured on designs or on translations."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from patternmark.api.measuring import Quality, measure_quality
from patternmark.cli.options import (
    INPUT,
    MODEL,
    BackboneIfAny,
    Chains,
    Device,
    FixedSeed,
    Json,
    Orders,
    option,
)
from patternmark.cli.output import Verbose, cell, progress, results, say, tell, warn
from patternmark.quality.measured import Measured


def quality(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Designs (FASTA, lines), or text.")],
    backbone: BackboneIfAny = None,
    chains: Chains = None,
    against: Annotated[
        str | None,
        option(INPUT, metavar="FILE", help="Unmarked designs: print the differences to them."),
    ] = None,
    reference: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="For text: the correct translations, line by line."),
    ] = None,
    orders: Orders = 1,
    model: Annotated[
        list[str] | None,
        option(
            MODEL,
            metavar="NAME",
            help="Published weights, v_48_020 by default; repeat it to measure with several.",
        ),
    ] = None,
    weights: Annotated[
        list[Path] | None,
        option(
            MODEL,
            metavar="FILE",
            help="Your own checkpoint instead of published weights, or beside --model; may be "
            "repeated.",
        ),
    ] = None,
    plddt: Annotated[
        Path | None,
        option(MODEL, metavar="FOLDER", help="ESMFold, as saved by transformers: adds its pLDDT."),
    ] = None,
    as_json: Json = False,
    seed: FixedSeed = 0,
    device: Device = "auto",
    verbose: Verbose = False,
) -> None:
    """Measure the quality of designs or translations, with 95 % intervals.

    Designs: n-gram entropies; with --backbone also their likelihood, the recovery of the native
    sequence, and (with --plddt) whether the structure predicted from them is the backbone. Native
    sequences in the file are not counted. Text, with --reference: BLEU and chrF.

    Example: patternmark quality designs.fa --backbone backbone.pdb
    """
    with progress("") as bar:
        bar.add_task("measuring", total=None)
        found = measure_quality(
            Path(file),
            backbone=backbone,
            against=None if against is None else Path(against),
            reference=reference,
            chains=chains,
            orders=orders,
            model=model,
            weights=weights,
            plddt=plddt,
            seed=seed,
            device=device,
            warn=warn,
            report=say,
        )
    _show(found, as_json)


def _show(found: Quality, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    native, apart = found.native or {}, {m.name: m for m in found.differences or ()}
    table = Table(box=None, pad_edge=False)
    table.add_column("measure")
    heads = ["value", "95 %", "n"] + ["native"] * bool(native) + ["difference"] * bool(apart)
    for head in heads:
        table.add_column(head, justify="right")
    for measure in found.measures:
        cells = [f"{measure.value:.4f}", _interval(measure), f"{measure.n:,} {measure.unit}"]
        if native:
            cells.append(f"{native[measure.name]:.4f}" if measure.name in native else "")
        if apart:
            other = apart.get(measure.name)
            cells.append(f"{other.value:+.4f}, {_interval(other)}" if other else "")
        table.add_row(cell(measure.name), *cells)
    results.print(table)
    for name, signature in (found.signatures or {}).items():
        tell(f"{name}: {signature}")


def _interval(measure: Measured) -> str:
    return "" if isnan(measure.low) else f"{measure.low:.4f} to {measure.high:.4f}"
