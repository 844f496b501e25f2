"""Play the attacker on the marked sequences of one key, and let the detector judge what comes out.

The attacker never sees the key: it is used to judge only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.cells import CellKnowledge, learn_cells
from patternmark.attacks.forge import (
    Knowledge,
    composition,
    draw_unmarked,
    forge,
    random_edits,
    strip,
)
from patternmark.attacks.split import SplitKnowledge, learn_split
from patternmark.core.alphabet import PROTEIN
from patternmark.core.chain import KeyChain
from patternmark.core.profile import Profile
from patternmark.errors import ParameterError
from patternmark.rates import DELTAS
from patternmark.simulate import rates_at

Judge = Callable[[Sequence[NDArray[np.int64]]], int]  # how many sequences are called marked
DEFAULT_BUDGET = 0.1


@dataclass(frozen=True)
class Count:
    """So many of n sequences were called marked."""

    hits: int
    n: int


@dataclass(frozen=True, eq=False)
class Audit:
    """What was learned; with a judge also what that was good for."""

    knowledge: SplitKnowledge | CellKnowledge
    forged: Count | None = None  # at the strength of the mark
    forced: Count | None = None  # at the greatest strength that was measured
    unmarked: Count | None = None  # made like the forged ones, without a mark
    before: Count | None = None  # seen sequences as they are
    stripped: Count | None = None  # with edits where the learned key says they agree
    random: Count | None = None  # with as many edits at random


def check_attackable(profile: Profile) -> None:
    """Refuse keys these attacks are not made for."""
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            "the audit attacks marks on proteins; a split of a larger vocabulary is not found by "
            "trying all of them"
        )
    if not profile.is_hardened and profile.chain != KeyChain.alternating():
        raise ParameterError("the audit attacks two keys that alternate, or hardened keys")


def learn(
    sequences: Sequence[NDArray[np.int64]],
    profile: Profile,
    delta: float,
    rng: np.random.Generator,
) -> SplitKnowledge | CellKnowledge:
    """Learn what sequences of one key teach, given the public parameters."""
    rates = rates_at(delta, profile.alphabet, profile.scheme)
    if profile.is_hardened:
        return learn_cells(sequences, profile, rates, rng)
    return learn_split(sequences, rates)


def audit_sequences(
    sequences: Sequence[NDArray[np.int64]],
    profile: Profile,
    rng: np.random.Generator,
    *,
    delta: float,
    judge: Judge | None = None,
    tries: int = 100,
    budget: float = DEFAULT_BUDGET,
    frequencies: NDArray[np.float64] | None = None,
) -> Audit:
    """Learn from sequences [n] (ids, UNREAD where nothing is read), then forge and strip.

    `tries` new sequences are forged, as long as the seen ones in turn; up to as many seen ones
    are stripped, each by changing a share `budget` of its letters. Letters of new sequences follow
    `frequencies`, or the composition of the seen ones.
    """
    check_attackable(profile)
    if not sequences:
        raise ParameterError("an audit needs at least one sequence")
    knowledge = learn(sequences, profile, delta, rng)
    if judge is None:
        return Audit(knowledge)
    rates, strongest = (
        rates_at(strength, profile.alphabet, profile.scheme) for strength in (delta, DELTAS[-1])
    )
    letters = composition(sequences) if frequencies is None else frequencies
    lengths = [len(sequences[i % len(sequences)]) for i in range(tries)]
    stripped = strip_seen(sequences, knowledge, rates, letters, budget, tries, rng)
    batches = (
        forge(knowledge, lengths, rates, letters, rng),
        forge(knowledge, lengths, strongest, letters, rng),
        draw_unmarked(lengths, letters, rng),
        *stripped,
    )
    return Audit(knowledge, *(Count(judge(batch), len(batch)) for batch in batches))


def strip_seen(
    sequences: Sequence[NDArray[np.int64]],
    knowledge: Knowledge,
    rates: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    budget: float,
    most: int,
    rng: np.random.Generator,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Return seen sequences as they are, edited where it hurts, and edited at random."""
    chosen = range(min(most, len(sequences)))
    edits = [round(budget * np.count_nonzero(sequences[i] >= 0)) for i in chosen]
    return (
        [sequences[i] for i in chosen],
        [strip(sequences[i], knowledge, i, rates, edits[i]) for i in chosen],
        [random_edits(sequences[i], edits[i], frequencies, rng) for i in chosen],
    )
