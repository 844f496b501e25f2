"""Recover keys from finished sequences: the key that would have promoted each symbol.

The sequences of a batch are stored one after another, separated by a position without a key. So
every later step is one pass over one array, and a pattern never crosses two sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY
from patternmark.core.chain import KeyChain
from patternmark.core.partition import Partition
from patternmark.core.reading import Reading


@dataclass(frozen=True, eq=False)
class RecoveredKeys:
    """The keys of a batch; sequence i is `keys[starts[i] : starts[i] + lengths[i]]`."""

    keys: NDArray[np.int64]  # [sum(lengths) + batch]
    starts: NDArray[np.int64]  # [batch]
    lengths: NDArray[np.int64]  # [batch]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        start = self.starts[index]
        return self.keys[start : start + self.lengths[index]]

    def count_marks(self, marks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of True values of `marks`, which runs along `keys`, per sequence."""
        before = np.concatenate(([0], np.cumsum(marks)))
        last = len(marks)  # if marks are windows, there are fewer of them than keys
        ends = np.minimum(self.starts + self.lengths, last)
        return np.asarray(before[ends] - before[np.minimum(self.starts, last)])

    @property
    def num_scored(self) -> NDArray[np.int64]:
        """How many positions of each sequence carry a key: [batch]."""
        return self.count_marks(self.keys != NO_KEY)

    @cached_property
    def segments(self) -> list[tuple[int, ...]]:
        """Lengths of the unbroken runs of keys in each sequence, in ascending order.

        They are sorted because the null of a sum does not depend on the order of its terms: so
        equal sets of lengths share one computation.
        """
        edges = np.diff((self.keys != NO_KEY).astype(np.int8), prepend=0, append=0)
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        runs = (ends - starts).tolist()
        first = np.searchsorted(starts, self.starts)
        stop = np.searchsorted(starts, self.starts + self.lengths)
        return [
            (runs[a],) if b - a == 1 else tuple(sorted(runs[a:b]))
            for a, b in zip(first.tolist(), stop.tolist(), strict=True)
        ]


def recover(readings: Sequence[Reading], partition: Partition) -> RecoveredKeys:
    """Return the key whose part contains each symbol; NO_KEY for UNREAD."""
    part_of = np.append(partition.part_of, NO_KEY)  # UNREAD is -1: the last entry
    lengths = np.array([len(reading.symbols) for reading in readings], dtype=np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    keys = np.full(int(np.sum(lengths + 1)), NO_KEY, dtype=np.int64)
    for start, reading in zip(starts.tolist(), readings, strict=True):
        keys[start : start + len(reading.symbols)] = part_of[reading.symbols]
    return RecoveredKeys(keys, starts, lengths)


def agreement(keys: NDArray[np.int64], chain: KeyChain) -> NDArray[np.float64]:
    """Return whether each key is the likeliest successor of the one before it: [n].

    1 if it is, 0 if not, nan at the first position and next to unscored symbols.
    """
    follows = np.full(len(keys), np.nan)
    before, here = keys[:-1], keys[1:]
    known = (before != NO_KEY) & (here != NO_KEY)
    follows[1:][known] = here[known] == chain.likeliest_next()[before[known]]
    return follows


def running_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Average over a centred window without nan; nan if all values of the window are nan: [n]."""
    known = ~np.isnan(values)
    sums = np.concatenate(([0.0], np.cumsum(np.where(known, values, 0.0))))
    counts = np.concatenate(([0], np.cumsum(known)))
    centre = np.arange(len(values))
    low = np.maximum(centre - window // 2, 0)
    high = np.minimum(centre + window // 2 + 1, len(values))
    number = counts[high] - counts[low]
    mean = np.full(len(values), np.nan)
    np.divide(sums[high] - sums[low], number, out=mean, where=number > 0)
    return mean
