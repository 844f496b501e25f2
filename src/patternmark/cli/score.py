"""`patternmark score`: how well sequences fit a backbone, in ProteinMPNN's opinion."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

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
from patternmark.cli.output import Verbose, progress, results, say, warn
from patternmark.designing.fitting import Fitted, fitted_records
from patternmark.designing.network import load_network
from patternmark.errors import InputError
from patternmark.io.manifest_use import IGNORE, TRUST, ManifestUse

if TYPE_CHECKING:
    from patternmark.io.structures import Backbone as Structure


@dataclass(frozen=True)
class Score:
    """One line of the result."""

    id: str
    length: int
    num_scored: int
    score: float  # mean negative log-likelihood of the scored residues
    perplexity: float
    recovery: float  # share of the scored residues whose letter is the native one
    model: str
    weights_sha256: str


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

    Designed residues count: those of --chains that are not --fixed; without these options, those in
    the manifest next to the file; without a manifest, all. Every sequence is read in the same
    orders.

    Example: patternmark score designs.fa --backbone backbone.pdb
    """
    from patternmark.designing.plan import plan_design
    from patternmark.io.structures import read_backbone

    structure = read_backbone(backbone)
    for message in structure.warnings:
        warn(f"{backbone}: {message}")
    names = chains.split(",") if chains else None
    plan = plan_design(structure, chains=names, fixed=fixed, tied=tied)
    chosen = bool(chains or fixed or tied)
    network, weight_facts = load_network(model, weights, device, say)
    scorer = _Scorer(network, structure, weight_facts, seed, orders)
    scores = []
    with progress("sequences") as bar:
        task = bar.add_task("scoring", total=None)
        manifests = ManifestUse(IGNORE if chosen else TRUST)  # a score is no evidence of a mark
        for item in fitted_records(files, backbone, plan, warn, manifests=manifests):
            line = scorer.score(item)
            if as_json:
                typer.echo(json.dumps(asdict(line)))
            scores.append((line, item))
            bar.advance(task)
    if not scores:
        raise InputError("no sequence could be scored")
    if not as_json:
        _print_table(scores, weight_facts, orders)


class _Scorer:
    def __init__(
        self, model: Any, backbone: Structure, weights: dict[str, str], seed: int, orders: int
    ) -> None:
        self._prepared = model.prepare(model.encode(backbone))
        self._weights, self._seed, self._orders = weights, seed, orders

    def score(self, item: Fitted) -> Score:
        """Average over decoding orders, which are the same for every sequence."""
        from patternmark.designing.run import score_sequences

        copies = np.tile(item.sequence, (self._orders, 1))
        judged = score_sequences(self._prepared, item.plan, copies, self._seed)
        mean = float(np.mean([design.score for design in judged]))
        return Score(
            id=item.record.id,
            length=len(item.rows),
            num_scored=int(item.plan.designed.sum()),
            score=mean,
            perplexity=exp(mean),
            recovery=judged[0].recovery,
            model=self._weights["name"],
            weights_sha256=self._weights["sha256"],
        )


def _print_table(scores: list[tuple[Score, Fitted]], weights: dict[str, str], orders: int) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("sequence", overflow="fold")
    for name in ("length", "scored", "score", "perplexity", "recovery"):
        table.add_column(name, justify="right")
    for line, _ in scores:
        numbers = (f"{line.score:.4f}", f"{line.perplexity:.3f}", f"{line.recovery:.4f}")
        table.add_row(escape(line.id), str(line.length), str(line.num_scored), *numbers)
    results.print(table)
    # Native sequences stand in design files for comparison.
    made = [s for s, item in scores if not (item.record.design and item.record.design.is_native)]
    summary = f"\nscored with {weights['name']} in {orders} random order(s)"
    if made:
        mean = np.mean([(s.score, s.recovery) for s in made], axis=0)
        summary += f"; mean of {len(made)}: score {mean[0]:.4f}, recovery {mean[1]:.4f}"
    results.print(escape(summary), highlight=False, soft_wrap=True)
