"""`patternmark score`: how well sequences fit a backbone, according to ProteinMPNN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer
from rich.table import Table

from patternmark.api.scoring import Score, ScoreRequest, Scoring
from patternmark.cli.options import (
    Backbone,
    Chains,
    Device,
    Fixed,
    FixedSeed,
    JsonLines,
    Model,
    Orders,
    ProteinFiles,
    Tied,
    Weights,
)
from patternmark.cli.output import Verbose, cell, progress, results, say, shown_in, tell, warn
from patternmark.errors import InputError

if TYPE_CHECKING:
    from patternmark.designing.fitting import Fitted


def score(
    files: ProteinFiles,
    backbone: Backbone,
    chains: Chains = None,
    fixed: Fixed = "",
    tied: Tied = "",
    orders: Orders = 1,
    model: Model = "v_48_020",
    weights: Weights = None,
    as_json: JsonLines = False,
    seed: FixedSeed = 0,
    device: Device = "auto",
    verbose: Verbose = False,
) -> None:
    """Score sequences on a backbone: likelihood, perplexity, recovery.

    Only designed residues count: those of --chains that are not --fixed. Without these options they
    come from the manifest next to the file; without a manifest, all residues count. All sequences
    are scored in the same random orders.

    Example: patternmark score designs.fa --backbone backbone.pdb
    """
    request = ScoreRequest(backbone, chains, fixed, tied, orders, model, weights, seed, device)
    scoring = Scoring(request, warn, say)
    scores = []
    with progress("sequences") as bar:
        for line, item in scoring.scores([Path(file) for file in files], "auto", shown_in(bar)):
            if as_json:
                typer.echo(json.dumps(line.to_dict()))
            scores.append((line, item))
    if not scores:
        raise InputError("no sequence could be scored")
    if not as_json:
        _print_table(scores, scoring.weights, orders)


def _print_table(scores: list[tuple[Score, Fitted]], weights: dict[str, str], orders: int) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("sequence", overflow="fold")
    for name in ("length", "scored", "score", "perplexity", "recovery"):
        table.add_column(name, justify="right")
    for line, _ in scores:
        numbers = (f"{line.score:.4f}", f"{line.perplexity:.3f}", f"{line.recovery:.4f}")
        table.add_row(cell(line.id), str(line.length), str(line.num_scored), *numbers)
    results.print(table)
    # Design files have native sequences for comparison.
    made = [s for s, item in scores if not (item.record.design and item.record.design.is_native)]
    summary = f"\nscored with {weights['name']} in {orders} random order(s)"
    if made:
        mean = np.mean([(s.score, s.recovery) for s in made], axis=0)
        summary += f"; mean of {len(made)}: score {mean[0]:.4f}, recovery {mean[1]:.4f}"
    tell(summary)
