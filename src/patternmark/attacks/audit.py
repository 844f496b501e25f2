"""Attack the marked sequences of one key, and let the detector judge the results.

The attacker never sees the key: it is only used to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.block_coins import CoinKnowledge, learn_coins
from patternmark.attacks.forge import (
    Knowledge,
    composition,
    draw_unmarked,
    forge,
    random_edits,
    strip,
)
from patternmark.attacks.seen import Seen, by_letters
from patternmark.attacks.split import SplitKnowledge, learn_split
from patternmark.core.alphabet import PROTEIN
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.errors import ParameterError
from patternmark.plan.simulate import rates_at
from patternmark.statistics.rates import DELTAS

Judge = Callable[[Sequence[NDArray[np.int64]]], int]  # how many sequences are called marked
DEFAULT_BUDGET = 0.1  # share of the letters that are changed to strip a mark


class Count(NamedTuple):
    """The number of sequences called marked, out of n."""

    hits: int
    n: int


@dataclass(frozen=True, eq=False)
class Audit:
    """What was learned; with a judge, also how well it forges and strips marks."""

    knowledge: SplitKnowledge | CoinKnowledge
    forged: Count | None = None  # new sequences at the strength of the mark
    forced: Count | None = None  # new sequences at the largest strength that was measured
    unmarked: Count | None = None  # new sequences without a mark
    before: Count | None = None  # seen sequences, unchanged
    stripped: Count | None = None  # seen sequences, edited where the learned coins agree
    random: Count | None = None  # seen sequences with as many random edits


class _Learner(NamedTuple):
    """How the secret of a scheme is learned, and for which of its keys."""

    learn: Callable[[Sequence[Seen], Profile, np.random.Generator], SplitKnowledge | CoinKnowledge]
    check: Callable[[Profile], None]
    first_chain_only: bool  # whether each chain of a record has its own coins


def _learn_split(
    seen: Sequence[Seen], profile: Profile, rng: np.random.Generator
) -> SplitKnowledge:
    del profile, rng  # two keys always alternate in the same way, and all splits are tried
    return learn_split(seen)


def _check_split(profile: Profile) -> None:
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            "the audit attacks marks on proteins: a larger vocabulary has too many splits to try"
        )
    if not profile.scheme.has_default_shape:
        raise ParameterError(
            "the audit of the paper's scheme works only for two keys that alternate"
        )


def _learn_coins(seen: Sequence[Seen], profile: Profile, rng: np.random.Generator) -> CoinKnowledge:
    scheme = cast(Blocks, profile.scheme)
    return learn_coins(seen, scheme.block, scheme.nonces, rng)


def _check_coins(profile: Profile) -> None:
    del profile  # block marks are always on proteins, and keys of any size can be attacked


_LEARNERS = {
    Paper.name: _Learner(_learn_split, _check_split, first_chain_only=False),
    Blocks.name: _Learner(_learn_coins, _check_coins, first_chain_only=True),
}
ATTACKED = tuple(_LEARNERS)


def check_attackable(profile: Profile) -> None:
    """Raise ParameterError if these attacks are not made for such keys."""
    _learner(profile).check(profile)


def first_chain_only(profile: Profile) -> bool:
    """Return whether only the first chain of each record is of use to the attacker."""
    return _learner(profile).first_chain_only


def _learner(profile: Profile) -> _Learner:
    name = profile.scheme.name
    if name not in _LEARNERS:
        raise ParameterError(
            f"the audit attacks marks on proteins with the schemes {' and '.join(ATTACKED)}, but "
            f"this key has the scheme {name!r}"
        )
    return _LEARNERS[name]


def learn(
    seen: Sequence[Seen], profile: Profile, rng: np.random.Generator
) -> SplitKnowledge | CoinKnowledge:
    """Learn from sequences of one key, given its public parameters."""
    return _learner(profile).learn(seen, profile, rng)


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
    position_rates: Sequence[NDArray[np.float64]] | None = None,
) -> Audit:
    """Learn from sequences [n] (ids, or UNREAD where not scored), then forge and strip.

    `tries` new sequences are forged, with the lengths of the seen ones in turn. Up to `tries` seen
    sequences are stripped, each by changing a share `budget` of its letters. Letters of new
    sequences follow `frequencies`, or else the composition of the seen ones. An attacker with the
    model and the backbone knows how often each position should agree: `position_rates` [n].
    """
    check_attackable(profile)
    if not sequences:
        raise ParameterError("an audit needs at least one sequence")
    rates, strongest = (
        rates_at(strength, profile.alphabet, profile.scheme.name)
        for strength in (delta, DELTAS[-1])
    )
    if position_rates is None:
        seen = by_letters(sequences, rates)
    else:
        seen = [Seen.of(*one) for one in zip(sequences, position_rates, strict=True)]
    knowledge = learn(seen, profile, rng)
    if judge is None:
        return Audit(knowledge)
    letters = composition(sequences) if frequencies is None else frequencies
    lengths = [len(sequences[i % len(sequences)]) for i in range(tries)]
    stripped = strip_seen(seen, knowledge, rates, letters, budget, tries, rng)
    batches = (
        forge(knowledge, lengths, rates, letters, rng),
        forge(knowledge, lengths, strongest, letters, rng),
        draw_unmarked(lengths, letters, rng),
        *stripped,
    )
    return Audit(knowledge, *(Count(judge(batch), len(batch)) for batch in batches))


def strip_seen(
    seen: Sequence[Seen],
    knowledge: Knowledge,
    rates: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    budget: float,
    most: int,
    rng: np.random.Generator,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Return seen sequences unchanged, edited to strip the mark, and edited at random."""
    chosen = [one.symbols for one in seen[:most]]
    edits = [round(budget * np.count_nonzero(symbols >= 0)) for symbols in chosen]
    return (
        chosen,
        [strip(s, knowledge, i, rates, edits[i]) for i, s in enumerate(chosen)],
        [random_edits(s, edits[i], frequencies, rng) for i, s in enumerate(chosen)],
    )
