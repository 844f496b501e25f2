"""From finished sequences back to keys: what each symbol says about its position.

Sequences of a batch are laid end to end with a position without a key between them, so that every
later step is one pass over one array, and no pattern can reach from one sequence into the next.
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
        """Return how many marked positions lie in each sequence; `marks` runs along `keys`."""
        before = np.concatenate(([0], np.cumsum(marks)))
        last = len(marks)  # windows stop short of the end
        ends = np.minimum(self.starts + self.lengths, last)
        return np.asarray(before[ends] - before[np.minimum(self.starts, last)])

    @property
    def num_scored(self) -> NDArray[np.int64]:
        """How many positions of each sequence carry a key: [batch]."""
        return self.count_marks(self.keys != NO_KEY)

    @cached_property
    def segments(self) -> list[tuple[int, ...]]:
        """Lengths of the unbroken runs of keys in each sequence, in ascending order.

        Ascending, because the null of a sum does not depend on the order of its terms, and equal
        profiles then share one computation.
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
    """Read each symbol's part: the key that would have promoted it, NO_KEY where it is unread."""
    part_of = np.append(partition.part_of, NO_KEY)  # UNREAD = -1 finds the last
    lengths = np.array([len(reading.symbols) for reading in readings], dtype=np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    keys = np.full(int(np.sum(lengths + 1)), NO_KEY, dtype=np.int64)
    for start, reading in zip(starts.tolist(), readings, strict=True):
        keys[start : start + len(reading.symbols)] = part_of[reading.symbols]
    return RecoveredKeys(keys, starts, lengths)


def agreement(keys: NDArray[np.int64], chain: KeyChain) -> NDArray[np.float64]:
    """Say at each position whether the key follows from the one before, as the chain prefers.

    1 where it does, 0 where not, nan at the first position and beside unscored symbols: [n].
    """
    follows = np.full(len(keys), np.nan)
    before, here = keys[:-1], keys[1:]
    known = (before != NO_KEY) & (here != NO_KEY)
    follows[1:][known] = here[known] == chain.likeliest_next()[before[known]]
    return follows


def running_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Average over a centred window, leaving nan out; nan where nothing is known: [n]."""
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
