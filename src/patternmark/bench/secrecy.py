"""`patternmark bench secrecy`: what marked sequences of one key teach an attacker, as a curve.

Sequences are synthetic: natural letters tilted by the measured agreement rates under a fresh key.
For each shape of a block mark (block, nonces) and each strength the attacker sees ever more
sequences, forges new ones and strips seen ones. Beside it stands how hardy the shape is.
`secrecy_model` does the same with designs of ProteinMPNN and an attacker who has the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.audit import DEFAULT_BUDGET, learn, strip_seen
from patternmark.attacks.coins import CoinKnowledge, learn_coins
from patternmark.attacks.edits import insert_and_delete
from patternmark.attacks.forge import draw, draw_unmarked, forge, tilted
from patternmark.attacks.seen import by_letters
from patternmark.attacks.split import SplitKnowledge
from patternmark.bench.jobs import run_all
from patternmark.bench.report import environment
from patternmark.bench.secrecy_judge import (
    agreement_with_detector,
    is_found,
    judged,
    log_e_of_nonces,
)
from patternmark.bench.secrecy_page import plot, to_markdown
from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import DEFAULT_BLOCK, Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.detect import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.intervals import mean_interval, rate_interval
from patternmark.io.kept import Kept
from patternmark.io.nonce_counter import counted_nonces
from patternmark.rates import DELTAS
from patternmark.simulate import marked_sequences, natural_frequencies, rates_at

__all__ = ["SIZES", "Size", "num_trials", "plot", "run_secrecy_benchmark", "to_markdown"]

LENGTH = 400
INDELS = 0.1  # the share of lost and inserted residues that a hardy mark survives
Draw = Literal["in turn", "at random"]
_OUTCOMES = ("forged", "forced", "before", "stripped", "random")


@dataclass(frozen=True)
class Size:
    """How much is measured: shapes, strengths, sequences seen, keys, and tries with each key."""

    blocks: tuple[int, ...]
    nonces: tuple[int, ...]
    deltas: tuple[float, ...]
    counts: tuple[int, ...]
    keys: int
    tries: int
    strips: int
    keys_of_default: int  # for the default shape, whose rates are small
    most: tuple[tuple[int, int, int], ...] = ()  # nonces, a larger count, keys: default block
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


@dataclass(frozen=True)
class Trial:
    """One key of one shape: all its counts are measured on growing parts of one sample."""

    scheme: Blocks | Paper
    delta: float
    counts: tuple[int, ...]
    draw: Draw
    tries: int
    strips: int
    number: int
    seed: int

    @property
    def name(self) -> str:
        """What tells it from all others: equal names, equal results."""
        counts = ",".join(map(str, self.counts))
        shape = f"{self.scheme.signature}/{self.delta}/{counts}/{self.draw}"
        return f"{shape}/{self.tries}/{self.strips}/{self.seed}/{self.number}"

    def key_and_numbers(self) -> tuple[Key, np.random.Generator]:
        """Return the key of this trial and its random numbers: the same for the same seed."""
        digest = Secret(self.seed.to_bytes(32, "big")).subkey(f"secrecy/{self.name}")
        profile = Profile(scheme=self.scheme, delta=self.delta)
        return Key.of(Secret(digest), profile), np.random.default_rng(list(digest))


def run_trial(trial: Trial) -> dict[str, Any]:
    """Mark, learn, forge, strip and judge under one fresh key: how many of n are called marked."""
    rows = _TRIALS[trial.scheme.name](trial)
    shape = trial.scheme.tables()["scheme"]
    return {
        "trial": trial.name,
        "scheme": trial.scheme.name,
        "block": shape.get("block"),
        "nonces": trial.scheme.nonces,
        "delta": trial.delta,
        "draw": trial.draw,
        "rows": rows,
    }


def _paper_trial(trial: Trial) -> list[dict[str, Any]]:
    key, rng = trial.key_and_numbers()
    detector = Detector(key)
    rates = _rates(trial)
    sequences = marked_sequences(key, rates[0], rng.random((max(trial.counts), LENGTH)))
    rows = []
    for count in trial.counts:
        seen = by_letters(sequences[:count], rates[0])
        knowledge = learn(seen, key.profile, rng)
        batches = _batches(trial, seen, knowledge, rates, rng)
        hits = {
            name: [verdict.prediction for verdict in detector.detect_many(batch)]
            for name, batch in batches.items()
        }
        rank = knowledge.rank(key.partition) if isinstance(knowledge, SplitKnowledge) else None
        rows.append({"sequences": count, "rank": rank} | _counted(hits))
    return rows


def _block_trial(trial: Trial) -> list[dict[str, Any]]:
    key, rng = trial.key_and_numbers()
    number, scheme = max(trial.counts), trial.scheme
    if trial.draw == "in turn":
        nonces = np.array(counted_nonces(key, 0, number))
    else:
        nonces = rng.integers(scheme.nonces, size=number)
    rates = _rates(trial)
    sequences = block_marked(key, nonces, rates[0], rng)
    rows = []
    for count in trial.counts:
        seen = by_letters(sequences[:count], rates[0])
        shared = -(-count // scheme.nonces) if trial.draw == "in turn" else None
        block = key.schedule.block  # type: ignore[union-attr]
        knowledge = learn_coins(seen, block, scheme.nonces, rng, most_of_one=shared)
        batches = _batches(trial, seen, knowledge, rates, rng)
        own = _nonces_of_best(knowledge, nonces[:count])
        hits: dict[str, list[bool]] = {}
        for name, batch in batches.items():
            if name in ("forged", "forced"):
                hits[name] = judged(key, batch, own)
            else:
                hits[name] = [
                    judged(key, [one], [r])[0]
                    for one, r in zip(batch, nonces.tolist(), strict=False)
                ]
        row = {"sequences": count, "bits": knowledge.bits_learned, "largest": knowledge.largest}
        rows.append(row | {"pure": _purity(knowledge, nonces[:count])} | _counted(hits))
    return rows


_TRIALS = {Paper.name: _paper_trial, Blocks.name: _block_trial}
_MOST_JUDGED = 4  # nonces that forgeries are held against


def _nonces_of_best(knowledge: CoinKnowledge, nonces: NDArray[np.int64]) -> list[int]:
    """Return the true nonces of the sequences that seem to share the best known one."""
    own, counts = np.unique(nonces[knowledge.nonce_of == knowledge.best], return_counts=True)
    return [int(nonce) for nonce in own[np.argsort(-counts)[:_MOST_JUDGED]]]


def _purity(knowledge: CoinKnowledge, nonces: NDArray[np.int64]) -> float:
    """Return which share of the sequences of the best known nonce do share it."""
    own = nonces[knowledge.nonce_of == knowledge.best]
    return float(np.bincount(own).max() / len(own))


def _rates(trial: Trial) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rates of agreement of the mark, and of one promoted as hard as was measured."""
    honest, forced = (
        rates_at(delta, PROTEIN, trial.scheme.name) for delta in (trial.delta, DELTAS[-1])
    )
    return honest, forced


def _batches(
    trial: Trial,
    seen: Sequence[Any],
    knowledge: Any,
    rates: tuple[NDArray[np.float64], NDArray[np.float64]],
    rng: np.random.Generator,
) -> dict[str, list[NDArray[np.int64]]]:
    letters, lengths = natural_frequencies(), [LENGTH] * trial.tries
    honest, forced = (forge(knowledge, lengths, of, letters, rng) for of in rates)
    stripped = strip_seen(seen, knowledge, rates[0], letters, DEFAULT_BUDGET, trial.strips, rng)
    return dict(zip(_OUTCOMES, (honest, forced, *stripped), strict=True))


def _counted(hits: dict[str, list[bool]]) -> dict[str, tuple[int, int]]:
    return {name: (sum(calls), len(calls)) for name, calls in hits.items()}


def block_marked(
    key: Key, nonces: NDArray[np.int64], rates: NDArray[np.float64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Write synthetic sequences, each marked with a nonce of its own choice."""
    schedule = key.schedule
    block = schedule.block  # type: ignore[union-attr]
    halves = schedule.halves(0, -(-LENGTH // block))  # type: ignore[union-attr]  # [R, J, V]
    block_of = np.arange(LENGTH) // block
    frequencies = natural_frequencies()
    made = []
    for nonce in nonces.tolist():
        law = tilted(halves[nonce].astype(np.float64), rates, frequencies)
        made.append(draw(law[block_of], rng))
    return made


def hardiness(
    block: int, delta: float, nonces: Sequence[int], number: int, seed: int
) -> list[dict[str, Any]]:
    """Return how many marked sequences are found, intact and after indels, for each R."""
    trial = Trial(Blocks(block, 1), delta, (number,), "in turn", 0, 0, 0, seed)
    key, rng = trial.key_and_numbers()
    intact = block_marked(key, np.zeros(number, dtype=np.int64), _rates(trial)[0], rng)
    damaged = [insert_and_delete(one, INDELS, PROTEIN.scored, rng) for one in intact]
    log_e = {
        name: log_e_of_nonces(key, batch, [0])
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
    """Hold the fast judge against the detector, on forgeries and on stripped sequences."""
    total = {"n": 0, "same": 0, "fast": 0, "detector": 0}
    for number in range(keys):
        trial = Trial(_DEFAULT, 1.0, (4,), "in turn", tries, tries, number, seed)
        key, rng = trial.key_and_numbers()
        rates = _rates(trial)
        seen = by_letters(block_marked(key, np.zeros(4, dtype=np.int64), rates[0], rng), rates[0])
        knowledge = learn_coins(seen, _DEFAULT.block, 1, rng)
        for batch in _batches(trial, seen, knowledge, rates, rng).values():
            for name, value in agreement_with_detector(key, batch, [0]).items():
                total[name] += value
    return total


def trials_of(size: Size, seed: int) -> list[Trial]:
    """Return all keys of a measurement, the slowest first."""
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


_FEW = 32  # sequences that every key of the default shape is seen with


def _counts(size: Size, number: int) -> tuple[int, ...]:
    """Return the counts of a key: after the first few keys, those that are learned fast."""
    if number < size.keys:
        return size.counts
    return tuple(count for count in size.counts if count <= _FEW)


def num_trials(size: Size) -> int:
    """Return how many keys a measurement of this size takes."""
    return len(trials_of(size, 0))


def secrecy_curve(
    work: Sequence[Trial],
    *,
    workers: int = 1,
    partial: Path | None = None,
    step: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for every shape, strength, way of drawing nonces and number of sequences.

    With `partial`, a file that keeps finished trials, a run goes on where another stopped.
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
    return _summarised([finished[trial.name] for trial in work])


_SETTING = ("scheme", "block", "nonces", "delta", "draw")
_MEANS = ("bits", "largest", "pure")


def _summarised(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up what differs in its key alone; rates get their intervals."""
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
        summary.append(line | {name: rate([row[name] for row in group]) for name in _OUTCOMES})
    return summary


def rate(by_key: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return a rate with its number, its exact 95 % interval, and how far keys make it vary."""
    hits, n = (sum(count[i] for count in by_key) for i in (0, 1))
    low, high = rate_interval(hits, n)
    shares = [count[0] / count[1] for count in by_key]
    half = mean_interval(shares)["half"] if len(shares) > 1 else 0.0
    result = {"rate": hits / n, "hits": hits, "n": n, "low": low, "high": high}
    return result | {"half_width_over_keys": half}


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
        raise ParameterError(f"--size is one of {', '.join(SIZES)}, not {size_name!r}")
    size = SIZES[size_name]
    result: dict[str, Any] = {
        "benchmark": "secrecy",
        **environment(),
        "size": size_name,
        "seed": seed,
        "length": LENGTH,
        "budget": DEFAULT_BUDGET,
        "fpr": DEFAULT_FPR,
        "default": _DEFAULT.tables()["scheme"],
        "curve": secrecy_curve(trials_of(size, seed), workers=workers, partial=partial, step=step),
        "hardiness": [
            row
            for block in size.blocks
            for delta in size.deltas
            for row in hardiness(block, delta, size.nonces, size.keys_of_default * 2, seed)
        ],
        "check": check_of_judge(size.keys, size.tries, seed),
    }
    result["unmarked"] = _unmarked(size.keys, size.tries, seed)
    if structures:
        from patternmark.bench.secrecy_model import run_with_model  # noqa: PLC0415  # torch

        result["model"] = run_with_model(structures, size_name, seed, step)
    return result


def _unmarked(keys: int, tries: int, seed: int) -> dict[str, Any]:
    """Return how often sequences without a mark are called marked by the detector itself."""
    counts = []
    for number in range(keys):
        trial = Trial(_DEFAULT, 1.0, (1,), "at random", tries, 0, number, seed)
        key, rng = trial.key_and_numbers()
        batch = draw_unmarked([LENGTH] * tries, natural_frequencies(), rng)
        counts.append((sum(v.prediction for v in Detector(key).detect_many(batch)), tries))
    return rate(counts)
