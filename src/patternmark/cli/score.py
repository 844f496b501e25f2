"""`patternmark score`: how well sequences fit a backbone, in ProteinMPNN's opinion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from patternmark.alphabet import PROTEIN, SEPARATOR
from patternmark.cli.design import Chains, Device, Fixed, Model, Tied, Weights, load_model
from patternmark.cli.output import Verbose, progress, results, warn
from patternmark.errors import InputError, SequenceError
from patternmark.io.designs import DesignedStructure, Manifest, manifest_path, read_manifest
from patternmark.io.records import Problem, Record, read_records

if TYPE_CHECKING:
    from patternmark.design.plan import DesignPlan
    from patternmark.io.structures import Backbone

_UNKNOWN = PROTEIN.letters.index("X")
_MOST_ORDERS = 256  # all of a sequence's orders are in memory at once


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
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Sequences: FASTA, lines, JSON lines.")
    ],
    backbone: Annotated[Path, typer.Option(help="The structure: PDB or mmCIF (.gz).")],
    chains: Chains = None,
    fixed: Fixed = "",
    tied: Tied = "",
    model: Model = "v_48_020",
    weights: Weights = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same decoding orders.")] = 0,
    orders: Annotated[
        int, typer.Option(min=1, max=_MOST_ORDERS, help="Random decoding orders to average over.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per sequence.")] = False,
    verbose: Verbose = False,
) -> None:
    """Score sequences on a backbone: negative log-likelihood, perplexity, native recovery.

    Designed residues count: those of --chains and not --fixed; without these options, those the
    file's manifest names; without a manifest, all. Every sequence is read in the same orders.
    """
    from patternmark.design.plan import plan_design
    from patternmark.io.structures import read_backbone

    structure = read_backbone(backbone)
    for message in structure.warnings:
        warn(f"{backbone}: {message}")
    names = chains.split(",") if chains else None
    plan = plan_design(structure, chains=names, fixed=fixed, tied=tied)
    chosen = bool(chains or fixed or tied)
    network, weight_facts = load_model(model, weights, device)
    scorer = _Scorer(network, structure, weight_facts, seed, orders)
    scores = []
    with progress("sequences") as bar:
        task = bar.add_task("scoring", total=None)
        for item in _items(files, backbone, plan, use_manifest=not chosen):
            line = scorer.score(item)
            if as_json:
                typer.echo(json.dumps(asdict(line)))
            scores.append((line, item))
            bar.advance(task)
    if not scores:
        raise InputError("no sequence could be scored")
    if not as_json:
        _print_table(scores, weight_facts, orders)


@dataclass(frozen=True, eq=False)
class _Item:
    """A sequence that fits the backbone, and what of it is scored."""

    record: Record
    length: int
    sequence: NDArray[np.int64]  # [L] for all residues of the backbone
    plan: DesignPlan


class _Scorer:
    def __init__(
        self, model: Any, backbone: Backbone, weights: dict[str, str], seed: int, orders: int
    ) -> None:
        self._prepared = model.prepare(model.encode(backbone))
        self._weights, self._seed, self._orders = weights, seed, orders

    def score(self, item: _Item) -> Score:
        """Average over decoding orders, which are the same for every sequence."""
        from patternmark.design.run import score_sequences

        copies = np.tile(item.sequence, (self._orders, 1))
        judged = score_sequences(self._prepared, item.plan, copies, self._seed)
        mean = float(np.mean([design.score for design in judged]))
        return Score(
            id=item.record.id,
            length=item.length,
            num_scored=int(item.plan.designed.sum()),
            score=mean,
            perplexity=exp(mean),
            recovery=judged[0].recovery,
            model=self._weights["name"],
            weights_sha256=self._weights["sha256"],
        )


def _items(
    files: list[str], backbone: Path, plan: DesignPlan, *, use_manifest: bool
) -> Iterator[_Item]:
    """Read the records that fit the backbone; warn of the others."""
    from patternmark.models.weights import file_sha256

    sha256 = file_sha256(backbone)
    for file in files:
        elsewhere: Counter[str] = Counter()
        try:
            manifest = _manifest_of(file) if use_manifest else None
            for record in read_records(file):
                if isinstance(record, Problem):
                    warn(record)
                    continue
                made = _structure_of(manifest, record)
                if made and made.sha256 != sha256 and made.name != plan.backbone.name:
                    elsewhere[made.name] += 1
                    continue
                try:
                    yield _fitted(record, _plan_of(made, plan))
                except SequenceError as error:
                    warn(Problem(file, f"{record.place} ({record.id})", f"{error}; not scored"))
        except InputError as error:
            warn(error)
        for name, count in elsewhere.items():
            warn(f"{file}: {count} sequence(s) were designed on {name}, not here; not scored")


def _manifest_of(file: str) -> Manifest | None:
    path = manifest_path(file)
    return read_manifest(path) if file != "-" and path.exists() else None


def _structure_of(manifest: Manifest | None, record: Record) -> DesignedStructure | None:
    if manifest is None or record.design is None:
        return None
    name = record.design.name
    return next((s for s in manifest.structures if s.name == name), None)


def _plan_of(made: DesignedStructure | None, plan: DesignPlan) -> DesignPlan:
    """Return the plan a manifest tells of: its chains, and the residues designed in them."""
    if made is None:
        return plan
    backbone = plan.backbone
    designed = np.zeros(plan.length, dtype=bool)
    for chain in made.chains:
        rows = backbone.chain(chain.id) if chain.id in backbone.chain_ids else slice(0)
        digits = np.array([digit == "1" for digit in chain.designed], dtype=bool)
        if len(digits) != len(designed[rows]):
            raise SequenceError(
                f"its manifest tells of {len(digits)} residues in chain {chain.id}, the backbone "
                f"has {len(designed[rows])}: give the structure it was designed on"
            )
        designed[rows] = digits
    groups = tuple((int(row),) for row in np.flatnonzero(designed & backbone.is_complete))
    return replace(plan, chains=tuple(chain.id for chain in made.chains), groups=groups)


def _fitted(record: Record, plan: DesignPlan) -> _Item:
    """Put the letters of a record on the rows of the backbone; leave unknown ones unscored."""
    symbols = PROTEIN.encode(record.sequence)
    cuts = np.flatnonzero(symbols == SEPARATOR)
    chains = [part[part != SEPARATOR] for part in np.split(symbols, cuts)]
    sequence = plan.backbone.sequence.copy()
    sequence[_rows_for([len(c) for c in chains], plan)] = np.concatenate(chains)
    known = sequence != _UNKNOWN
    groups = tuple(g for g in (tuple(r for r in group if known[r]) for group in plan.groups) if g)
    if not groups:
        raise SequenceError("it has no known letter at a designed residue")
    return _Item(record, sum(len(c) for c in chains), sequence, replace(plan, groups=groups))


def _rows_for(lengths: list[int], plan: DesignPlan) -> NDArray[np.intp]:
    """Find the rows that chains of these lengths fill.

    They are the designed chains or all; with the rows of missing residues, as ProteinMPNN prints
    them, or without, as LigandMPNN does.
    """
    backbone = plan.backbone
    has_ca = np.isfinite(backbone.coordinates[:, 1]).all(axis=1)
    whole = np.ones(plan.length, dtype=bool)
    for names in (plan.chains, backbone.chain_ids):
        for present in (whole, has_ca):
            rows = [
                np.flatnonzero(present & (backbone.chain_index == backbone.chain_ids.index(c)))
                for c in names
            ]
            wanted = [len(r) for r in rows]
            if lengths in (wanted, [sum(wanted)]):
                return np.concatenate(rows)
    expected = [len(backbone.sequence[backbone.chain(c)]) for c in plan.chains]
    raise SequenceError(
        f"it has {_sum(lengths)} residues, but chain(s) {', '.join(plan.chains)} of "
        f"{backbone.name} have {_sum(expected)}: give the backbone it was made for, and its "
        "designed chains with --chains"
    )


def _sum(lengths: list[int]) -> str:
    parts = " + ".join(map(str, lengths))
    return f"{parts} = {sum(lengths)}" if len(lengths) > 1 else parts


def _print_table(scores: list[tuple[Score, _Item]], weights: dict[str, str], orders: int) -> None:
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
