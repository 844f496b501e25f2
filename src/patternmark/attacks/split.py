"""The paper's scheme: find the split of the alphabet into two halves by trying all of them.

Keys alternate, so only one thing matters: D, how much more often each letter occurs at even than at
odd positions. The sign of s . D says in which phase a split with signs s agrees. With log-odds w of
agreement and equally likely phases, the likelihood of a split is cosh(s . (w D) / 2) for each
sequence: one matrix product for all 92,378 splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.seen import Seen
from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.partition import Partition

_SEQUENCES_AT_ONCE = 64  # sequences whose scores of all splits are in memory together


@dataclass(frozen=True, eq=False)
class SplitKnowledge:
    """The likelihood of every split, and what it implies for letters and sequences."""

    log_likelihood: NDArray[np.float64]  # [splits]
    expected: NDArray[np.float64]  # [V] expected sign of a letter; the first letter is always +1
    phase_of: NDArray[np.int64]  # [N] the likelier phase of each sequence

    def best_signs(self, length: int) -> NDArray[np.float64]:
        """Return the expected signs along a new sequence: [length, V]."""
        return self._signs(0, length)

    def signs_of(self, number: int, length: int) -> NDArray[np.float64]:
        """Return the expected signs along a seen sequence: [length, V]."""
        return self._signs(int(self.phase_of[number]), length)

    def _signs(self, phase: int, length: int) -> NDArray[np.float64]:
        return _parity(phase + np.arange(length))[:, None] * self.expected

    @property
    def num_splits(self) -> int:
        return len(self.log_likelihood)

    @property
    def posterior(self) -> float:
        """The probability of the likeliest split."""
        return float(1.0 / np.exp(self.log_likelihood - self.log_likelihood.max()).sum())

    @property
    def gap(self) -> float:
        """The log-likelihood of the likeliest split minus that of the second."""
        second, first = np.partition(self.log_likelihood, -2)[-2:]
        return float(first - second)

    def rank(self, partition: Partition) -> int | None:
        """Return the rank of a split among all, 1 for the likeliest; None if it is not balanced.

        Both orders of the two parts are the same split. Equally likely splits share the better
        rank.
        """
        first = partition.members[0]
        if partition.num_parts != 2 or first.sum() * 2 != PROTEIN.num_scored:
            return None
        wanted = np.where(first[: PROTEIN.num_scored], 1, -1).astype(np.int8)
        wanted *= wanted[0]
        at = int(np.flatnonzero((balanced_splits() == wanted).all(axis=1))[0])
        return int(np.count_nonzero(self.log_likelihood > self.log_likelihood[at])) + 1


@cache
def balanced_splits() -> NDArray[np.int8]:
    """Return the signs of all splits into halves; the first letter has +1: [92378, 20]."""
    size = PROTEIN.num_scored
    others = np.array(list(combinations(range(1, size), size // 2 - 1)))
    signs = np.full((len(others), size), -1, dtype=np.int8)
    signs[:, 0] = 1
    np.put_along_axis(signs, others, 1, axis=1)
    return signs


def learn_split(seen: Sequence[Seen]) -> SplitKnowledge:
    """Score all splits on sequences of one key, each with an unknown phase."""
    splits = balanced_splits().astype(np.float32)
    differences = np.stack([_weighted_differences(one) for one in seen])  # [N, 20]
    total = np.zeros(len(splits))
    for at in range(0, len(differences), _SEQUENCES_AT_ONCE):
        some = differences[at : at + _SEQUENCES_AT_ONCE]
        scores = splits @ some.T.astype(np.float32)  # [splits, some]
        total += _log_cosh(scores).sum(axis=1, dtype=np.float64)
    weights = np.exp(total - total.max())
    expected = np.zeros(PROTEIN.size)
    expected[: PROTEIN.num_scored] = (weights / weights.sum()) @ splits
    agreement = differences @ np.sign(expected[: PROTEIN.num_scored])
    return SplitKnowledge(
        log_likelihood=total, expected=expected, phase_of=(agreement < 0).astype(np.int64)
    )


def _weighted_differences(one: Seen) -> NDArray[np.float64]:
    """Return half of: log-odds of agreement at even places minus those at odd places, [20]."""
    place = np.flatnonzero(one.symbols != UNREAD)
    signed = _parity(place) * one.log_odds[place] / 2.0
    sums = np.bincount(one.symbols[place], weights=signed, minlength=PROTEIN.size)
    return np.asarray(sums[PROTEIN.scored])


def _parity(place: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(1.0 - 2.0 * (place % 2))


def _log_cosh(x: NDArray[np.float32]) -> NDArray[np.float32]:
    size = np.abs(x)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - np.float32(np.log(2.0)))
