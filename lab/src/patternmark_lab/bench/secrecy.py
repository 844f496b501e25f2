"""`patternmark bench secrecy`: how well an attacker forges and strips after seeing n sequences.

Sequences are synthetic: natural letters, tilted by the measured agreement rates under a fresh key.
For each shape of a block mark (block size and number of nonces) and each strength, the attacker
sees more and more sequences of one key, forges new ones and strips those seen. The result also says
how robust each shape is. `secrecy_model` has an attacker who has ProteinMPNN and the backbone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patternmark.attacks.audit import DEFAULT_BUDGET
from patternmark.attacks.block_coins import learn_coins
from patternmark.attacks.edits import insert_and_delete
from patternmark.attacks.forge import draw_unmarked
from patternmark.attacks.seen import by_letters
from patternmark.core.alphabet import PROTEIN
from patternmark.core.schemes import DEFAULT_BLOCK, Blocks, Paper
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.kept import Kept
from patternmark.plan.simulate import natural_frequencies
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.secrecy_judge import agreement_with_detector, is_found, log_e_of_nonces
from patternmark_lab.bench.secrecy_page import plot, to_markdown
from patternmark_lab.bench.secrecy_rates import rate
from patternmark_lab.bench.secrecy_trials import (
    LENGTH,
    OUTCOMES,
    Draw,
    Trial,
    attack,
    block_marked,
    rates_of,
    run_trial,
)

__all__ = [
    "SIZES",
    "Draw",
    "Size",
    "num_trials",
    "plot",
    "run_secrecy_benchmark",
    "to_markdown",
    "trials_of",
]

INDELS = 0.1  # share of lost and inserted residues that a robust mark survives


@dataclass(frozen=True)
class Size:
    """The amount of work: shapes, strengths, sequences seen, keys, and tries with each key."""

    blocks: tuple[int, ...]
    nonces: tuple[int, ...]
    deltas: tuple[float, ...]
    counts: tuple[int, ...]
    keys: int
    tries: int
    strips: int
    keys_of_default: int  # for the default shape, whose small rates need more keys
    most: tuple[tuple[int, int, int], ...] = ()  # (nonces, larger count, keys) for default blocks
    paper_counts: tuple[int, ...] = (1, 4)


_DEFAULT = Blocks()
SIZES = {
    "smoke": Size((3,), (1, 32), (1.0,), (1, 4), 1, 4, 2, 2, paper_counts=(1, 16)),
    "full": Size(
        blocks=(2, 3, 4, 6, 8),
        nonces=(1, 16, 32, 64, 256),
        deltas=(0.5, 1.0),
        counts=(1, 4, 32, 256),
        keys=3,
        tries=20,
        strips=4,
        keys_of_default=100,
        most=((32, 10_000, 1), (256, 10_000, 1)),
        paper_counts=(1, 4, 32),
    ),
}


def hardiness(
    block: int, delta: float, nonces: Sequence[int], number: int, seed: int
) -> list[dict[str, Any]]:
    """Return how many marked sequences are found, intact and after indels, for each R."""
    # Each sequence has its own nonce, which is as independent as its own key.
    trial = Trial(Blocks(block, number), delta, (number,), "in turn", 0, 0, 0, seed)
    key, rng = trial.key_and_numbers()
    intact = block_marked(key, np.arange(number), rates_of(trial)[0], rng)
    damaged = [insert_and_delete(one, INDELS, PROTEIN.scored, rng) for one in intact]
    log_e = {
        name: [log_e_of_nonces(key, [one], [own])[0] for own, one in enumerate(batch)]
        for name, batch in (("intact", intact), ("indels", damaged))
    }
    rows = []
    for r in nonces:
        row: dict[str, Any] = {"block": block, "nonces": r, "delta": delta}
        for name, found in log_e.items():
            hits = sum(is_found(one, r, LENGTH) for one in found)
            row[name] = rate([(hits, number)])
        rows.append(row)
    return rows


def check_of_judge(keys: int, tries: int, seed: int) -> dict[str, Any]:
    """Compare the fast judge with the detector, on forgeries and on stripped sequences."""
    total = {"n": 0, "same": 0, "fast": 0, "detector": 0}
    for number in range(keys):
        trial = Trial(_DEFAULT, 1.0, (4,), "in turn", tries, tries, number, seed)
        key, rng = trial.key_and_numbers()
        rates = rates_of(trial)
        seen = by_letters(block_marked(key, np.zeros(4, dtype=np.int64), rates[0], rng), rates[0])
        knowledge = learn_coins(seen, _DEFAULT.block, 1, rng)
        for batch in attack(trial, seen, knowledge, rates, rng).values():
            for name, value in agreement_with_detector(key, batch, [0]).items():
                total[name] += value
    return total


def trials_of(size: Size, seed: int) -> list[Trial]:
    """Return the trials of all keys, the slowest first."""
    work = []
    for delta in size.deltas:
        work += [
            Trial(Paper(), delta, size.paper_counts, "at random", size.tries, size.strips, i, seed)
            for i in range(size.keys)
        ]
        for block in size.blocks:
            for r in size.nonces:
                scheme = Blocks(block, r)
                draws: tuple[Draw, ...] = ("in turn", "at random") if r > 1 else ("in turn",)
                keys = size.keys_of_default if scheme == _DEFAULT else size.keys
                for how in draws:
                    work += [
                        Trial(scheme, delta, counts, how, size.tries, size.strips, i, seed)
                        for i in range(keys)
                        for counts in [_counts(size, i)]
                    ]
        work += [
            Trial(Blocks(DEFAULT_BLOCK, r), delta, (count,), how, size.tries, size.strips, i, seed)
            for r, count, keys in size.most
            for how in ("in turn", "at random")
            for i in range(keys)
        ]
    return sorted(work, key=lambda trial: (-max(trial.counts), -trial.scheme.nonces))


_FAST_COUNT = 32  # sequences seen; up to this number, all keys of the default shape are measured


def _counts(size: Size, number: int) -> tuple[int, ...]:
    """Return the counts of sequences seen for a key; after the first few keys, only fast ones."""
    if number < size.keys:
        return size.counts
    return tuple(count for count in size.counts if count <= _FAST_COUNT)


def num_trials(size: Size) -> int:
    """Return the number of trials, one for each key, at this size."""
    return len(trials_of(size, 0))


def secrecy_curve(
    work: Sequence[Trial],
    *,
    workers: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for every shape, strength, way of drawing nonces and number of sequences.

    The file `partial` keeps finished trials, so that a later run can continue.
    """
    kept = Kept(partial, "trial")
    before = {trial.name: kept.get(trial.name) for trial in work}
    finished = {name: done for name, done in before.items() if done is not None}
    left = [trial for trial in work if trial.name not in finished]
    for done in run_all(run_trial, left, workers):
        finished[done["trial"]] = done
        kept.add(done)
        if step is not None:
            step(f"{done['scheme']}, {done['nonces']} nonces, delta {done['delta']:g}")
    return _summarise([finished[trial.name] for trial in work])


_SETTING = ("scheme", "block", "nonces", "delta", "draw")
_MEANS = ("bits", "largest", "pure")


def _summarise(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up trials that differ only in their key; rates get their intervals."""
    curve: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for trial in trials:
        setting = tuple(trial[name] for name in _SETTING)
        for row in trial["rows"]:
            curve.setdefault((*setting, row["sequences"]), []).append(row)
    summary = []
    for place, group in sorted(curve.items(), key=lambda item: [str(x).zfill(6) for x in item[0]]):
        line: dict[str, Any] = dict(zip((*_SETTING, "sequences"), place, strict=True))
        line["keys"] = len(group)
        if "rank" in group[0]:
            line["ranked_first"] = rate([(int(row["rank"] == 1), 1) for row in group])
        line |= {
            name: float(np.mean([row[name] for row in group]))
            for name in _MEANS
            if name in group[0]
        }
        summary.append(line | {name: rate([row[name] for row in group]) for name in OUTCOMES})
    return summary


def run_secrecy_benchmark(
    size_name: str,
    seed: int,
    workers: int,
    step: Callable[[str], None],
    partial: Path | None = None,
    structures: Sequence[Path] = (),
) -> dict[str, Any]:
    """Measure the paper's scheme and every shape of block marks; with structures, also designs."""
    if size_name not in SIZES:
        raise ParameterError(f"--size must be one of {', '.join(SIZES)}, not {size_name!r}")
    size = SIZES[size_name]
    with_model = {}
    if structures:  # first, so that unsuitable structures are reported at once
        from patternmark_lab.bench.secrecy_model import run_with_model  # noqa: PLC0415  # torch

        with_model["model"] = run_with_model(structures, size_name, seed, step)
    work = trials_of(size, seed)
    result: dict[str, Any] = {
        "benchmark": "secrecy",
        **environment(),
        "size": size_name,
        "seed": seed,
        "length": LENGTH,
        "budget": DEFAULT_BUDGET,
        "fpr": DEFAULT_FPR,
        "default": _DEFAULT.tables()["scheme"],
        "trials": {"planned": len(work), "measured": len(work)},
        "curve": secrecy_curve(work, workers=workers, partial=partial, step=step),
        "hardiness": [
            row
            for block in size.blocks
            for delta in size.deltas
            for row in hardiness(block, delta, size.nonces, size.keys_of_default * 2, seed)
        ],
        "check": check_of_judge(size.keys, size.tries, seed),
    }
    result["unmarked"] = _unmarked(size.keys, size.tries, seed)
    return result | with_model


def _unmarked(keys: int, tries: int, seed: int) -> dict[str, Any]:
    """Return how often the detector itself calls sequences without a mark marked."""
    counts = []
    for number in range(keys):
        trial = Trial(_DEFAULT, 1.0, (1,), "at random", tries, 0, number, seed)
        key, rng = trial.key_and_numbers()
        batch = draw_unmarked([LENGTH] * tries, natural_frequencies(), rng)
        counts.append((sum(v.prediction for v in Detector(key).detect_many(batch)), tries))
    return rate(counts)
