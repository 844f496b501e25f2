"""One key of `patternmark bench secrecy`: learn from its sequences, then forge and strip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.audit import DEFAULT_BUDGET, learn, strip_seen
from patternmark.attacks.block_coins import CoinKnowledge, learn_coins
from patternmark.attacks.forge import Knowledge, draw, forge, tilt
from patternmark.attacks.seen import Seen, by_letters
from patternmark.attacks.split import SplitKnowledge
from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import BlockSchedule
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.io.nonce_counter import counted_nonces
from patternmark.plan.simulate import marked_sequences, natural_frequencies, rates_at
from patternmark.statistics.rates import DELTAS
from patternmark_lab.bench.secrecy_judge import judge_fast

LENGTH = 400
OUTCOMES = ("forged", "forced", "before", "stripped", "random")
Draw = Literal["in turn", "at random"]


@dataclass(frozen=True)
class Trial:
    """One key of one shape; all counts of sequences seen use growing parts of one sample."""

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
        """A name that holds all parameters: equal names give equal results."""
        counts = ",".join(map(str, self.counts))
        shape = f"{self.scheme.signature}/{self.delta}/{counts}/{self.draw}"
        return f"{shape}/{self.tries}/{self.strips}/{self.seed}/{self.number}"

    def key_and_numbers(self) -> tuple[Key, np.random.Generator]:
        """Return the key and the random numbers of this trial, which depend on its name alone."""
        digest = Secret(self.seed.to_bytes(32, "big")).subkey(f"secrecy/{self.name}")
        profile = Profile(scheme=self.scheme, delta=self.delta)
        return Key.of(Secret(digest), profile), np.random.default_rng(list(digest))


def run_trial(trial: Trial) -> dict[str, Any]:
    """Mark, learn, forge, strip and judge under one fresh key; count what is called marked."""
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
    rates = rates_of(trial)
    sequences = marked_sequences(key, rates[0], rng.random((max(trial.counts), LENGTH)))
    rows = []
    for count in trial.counts:
        seen = by_letters(sequences[:count], rates[0])
        knowledge = learn(seen, key.profile, rng)
        batches = attack(trial, seen, knowledge, rates, rng)
        hits = {
            name: [verdict.prediction for verdict in detector.detect_many(batch)]
            for name, batch in batches.items()
        }
        rank = knowledge.rank(key.partition) if isinstance(knowledge, SplitKnowledge) else None
        rows.append({"sequences": count, "rank": rank} | _count(hits))
    return rows


def _block_trial(trial: Trial) -> list[dict[str, Any]]:
    key, rng = trial.key_and_numbers()
    schedule = cast(BlockSchedule, key.schedule)
    number, scheme = max(trial.counts), trial.scheme
    if trial.draw == "in turn":
        nonces = np.array(counted_nonces(key, 0, number))
    else:
        nonces = rng.integers(scheme.nonces, size=number)
    rates = rates_of(trial)
    sequences = block_marked(key, nonces, rates[0], rng)
    rows = []
    for count in trial.counts:
        seen = by_letters(sequences[:count], rates[0])
        shared = -(-count // scheme.nonces) if trial.draw == "in turn" else None
        knowledge = learn_coins(seen, schedule.block, scheme.nonces, rng, most_of_one=shared)
        batches = attack(trial, seen, knowledge, rates, rng)
        own = _nonces_of_best(knowledge, nonces[:count])
        hits: dict[str, list[bool]] = {}
        for name, batch in batches.items():
            if name in ("forged", "forced"):
                hits[name] = judge_fast(key, batch, own)
            else:
                hits[name] = [
                    judge_fast(key, [one], [r])[0]
                    for one, r in zip(batch, nonces.tolist(), strict=False)
                ]
        row = {"sequences": count, "bits": knowledge.bits_learned, "largest": knowledge.largest}
        rows.append(row | {"pure": _purity(knowledge, nonces[:count])} | _count(hits))
    return rows


_TRIALS = {Paper.name: _paper_trial, Blocks.name: _block_trial}
_MAX_NONCES = 4  # under which forgeries are judge_fast


def _nonces_of_best(knowledge: CoinKnowledge, nonces: NDArray[np.int64]) -> list[int]:
    """Return the true nonces of the sequences assigned to the best known nonce."""
    own, counts = np.unique(nonces[knowledge.nonce_of == knowledge.best], return_counts=True)
    return [int(nonce) for nonce in own[np.argsort(-counts)[:_MAX_NONCES]]]


def _purity(knowledge: CoinKnowledge, nonces: NDArray[np.int64]) -> float:
    """Return the share of the sequences assigned to the best known nonce that share one nonce."""
    own = nonces[knowledge.nonce_of == knowledge.best]
    return float(np.bincount(own).max() / len(own))


def rates_of(trial: Trial) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the agreement rates of the mark, and of the strongest mark that was measured."""
    honest, forced = (
        rates_at(delta, PROTEIN, trial.scheme.name) for delta in (trial.delta, DELTAS[-1])
    )
    return honest, forced


def attack(
    trial: Trial,
    seen: Sequence[Seen],
    knowledge: Knowledge,
    rates: tuple[NDArray[np.float64], NDArray[np.float64]],
    rng: np.random.Generator,
) -> dict[str, list[NDArray[np.int64]]]:
    letters, lengths = natural_frequencies(), [LENGTH] * trial.tries
    honest, forced = (forge(knowledge, lengths, of, letters, rng) for of in rates)
    stripped = strip_seen(seen, knowledge, rates[0], letters, DEFAULT_BUDGET, trial.strips, rng)
    return dict(zip(OUTCOMES, (honest, forced, *stripped), strict=True))


def _count(hits: dict[str, list[bool]]) -> dict[str, tuple[int, int]]:
    return {name: (sum(calls), len(calls)) for name, calls in hits.items()}


def block_marked(
    key: Key, nonces: NDArray[np.int64], rates: NDArray[np.float64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw synthetic marked sequences, one for each given nonce."""
    schedule = cast(BlockSchedule, key.schedule)
    halves = schedule.halves(0, -(-LENGTH // schedule.block))  # [R, J, V]
    block_of = np.arange(LENGTH) // schedule.block
    frequencies = natural_frequencies()
    made = []
    for nonce in nonces.tolist():
        law = tilt(halves[nonce].astype(np.float64), rates, frequencies)
        made.append(draw(law[block_of], rng))
    return made
