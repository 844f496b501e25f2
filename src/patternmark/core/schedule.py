"""Which symbols each key promotes, where keys follow each other in a circle.

`PartitionSchedule` is the paper's scheme: its keys are the parts of one split. An `Excerpt` is a
schedule of the symbols that a batch of sequences has, for vocabularies too large to be laid out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.partition import Partition

FEW_SYMBOLS = 64  # alphabets up to this size are laid out whole; of larger ones, what is used


class CircularSchedule(Protocol):
    """What detectors of phases ask of a schedule."""

    @property
    def period(self) -> int:
        """How many keys follow each other before the first comes again."""

    @property
    def nonces(self) -> int:
        """How many independent schedules there are."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """The keys a sequence may begin with."""

    @property
    def shares(self) -> NDArray[np.float64]:
        """How often chance agrees with each key, or with all alike: [P] or [1]."""

    @property
    def symbols(self) -> slice | NDArray[np.int64]:
        """Which symbols of the alphabet it lays out."""

    @property
    def is_fair(self) -> bool:
        """Whether every key promotes as many symbols as any other."""

    @property
    def fresh_length(self) -> int:
        """Up to which length of a chain no path meets a coin twice, whatever the text; or -1."""

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Return which symbols each key of a nonce promotes: [P, V]."""

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some symbols each key of a nonce promotes: [P, len(symbols)]."""

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether positions so far apart may meet the same secret."""


@dataclass(frozen=True, eq=False)
class PartitionSchedule:
    """The paper's scheme in the same terms: one nonce, its keys the parts."""

    partition: Partition
    nonces: int = 1
    symbols = slice(None)  # all of the alphabet
    fresh_length = -1  # halves of equal size are not quite independent coins

    @property
    def is_fair(self) -> bool:
        """Whether every key promotes as many symbols as any other."""
        return self.partition.is_even

    @property
    def period(self) -> int:
        return self.partition.num_parts

    @property
    def starts(self) -> NDArray[np.int64]:
        """The keys a sequence may begin with: any."""
        return np.arange(self.period)

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which symbols each key promotes: [P, V]."""
        del nonce  # there is only one
        return self.partition.members

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some symbols each key promotes: [P, len(symbols)]."""
        del nonce
        return np.asarray(self.partition.part_of[symbols] == np.arange(self.period)[:, None])

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which symbols some keys promote: [len(keys), V]."""
        return np.asarray(self.partition.part_of == np.asarray(keys)[:, None])

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The share of the scored symbols that each key promotes, which is that of chance: [P]."""
        sizes = self.partition.sizes
        return np.asarray(sizes / sizes.sum())

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether positions so far apart may meet the same secret: all, there is one split."""
        return np.ones(len(lags), dtype=bool)

    def __repr__(self) -> str:
        return f"PartitionSchedule({self.period} keys, hidden)"


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A schedule of some symbols alone, which it numbers anew from 0; all else is the same.

    >>> schedule = PartitionSchedule(Partition(np.array([0, 1, 0, 1]), 2))
    >>> excerpt = Excerpt.of(schedule, np.array([3, 1, 1, 3]))
    >>> excerpt.numbered(np.array([3, 1, 1, 3])), excerpt.promoted(0).shape
    (array([1, 0, 0, 1]), (2, 2))
    """

    whole: CircularSchedule
    symbols: NDArray[np.int64]  # [U], ascending

    @classmethod
    def of(cls, whole: CircularSchedule, symbols: NDArray[np.int64]) -> Excerpt:
        """Return the schedule of the symbols that occur; UNREAD is none."""
        used = np.unique(symbols)
        return cls(whole, used[used != UNREAD])

    def numbered(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the excerpt's own numbers of symbols; UNREAD stays."""
        numbers = np.searchsorted(self.symbols, symbols)
        return np.where(symbols == UNREAD, UNREAD, numbers)

    @property
    def period(self) -> int:
        return self.whole.period

    @property
    def nonces(self) -> int:
        return self.whole.nonces

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.whole.starts

    @property
    def shares(self) -> NDArray[np.float64]:
        """What chance agrees with: not counted here, but what it is in the whole alphabet."""
        return self.whole.shares

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which of its symbols each key of a nonce promotes: [P, U]."""
        return self.whole.promoted_to(nonce, self.symbols)
