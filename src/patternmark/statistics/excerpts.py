"""Excerpts: for large alphabets, each batch is judged over the symbols that it contains.

A statistic stores a factor for every symbol under every key of a schedule. A vocabulary of 262,144
tokens has too many for that, but a batch of sequences contains few of them. So these symbols get
new numbers, and a statistic is made for the excerpt of the schedule that has only these symbols.
Symbols that a sequence does not contain cannot change its result: verdicts are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SMALL_ALPHABET, UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Circle
from patternmark.statistics.base import Measurement, NullCurve, Statistic

_MAX_ENTRIES = 2**23  # keys x symbols of an excerpt: its tables take 150 MB
_TIMES_LIMIT = 2**32  # more than a symbol can occur in a record
_MIN_NONCES = 4  # nonces that count at least: the tables of one nonce take the memory of several


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A schedule reduced to some symbols, which are numbered from 0; all else is unchanged.

    >>> from patternmark.core.partition import Partition
    >>> schedule = Partition(np.array([0, 1, 0, 1]), 2)
    >>> excerpt = Excerpt.of(schedule, np.array([3, 1, 1, 3]))
    >>> excerpt.numbered(np.array([3, 1, 1, 3])), excerpt.promoted(0).shape
    (array([1, 0, 0, 1]), (2, 2))
    """

    whole: Circle
    symbols: NDArray[np.int64]  # [U], ascending
    times: NDArray[np.int64]  # [U] how often each occurs in its record; 1 if that does not matter

    @classmethod
    def of(
        cls, whole: Circle, symbols: NDArray[np.int64], times: NDArray[np.int64] | None = None
    ) -> Excerpt:
        """Return the excerpt for the symbols that occur; UNREAD is not a symbol.

        A symbol that occurs a different number of times in another record gets another number.
        """
        read = symbols != UNREAD
        used = np.unique(_with_times(symbols, times)[read])
        return cls(whole, used // _TIMES_LIMIT, used % _TIMES_LIMIT + 1)

    def numbered(
        self, symbols: NDArray[np.int64], times: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return the numbers of symbols in this excerpt; UNREAD stays."""
        used = _with_times(self.symbols, self.times)
        numbers = np.searchsorted(used, _with_times(symbols, times))
        return np.where(symbols == UNREAD, UNREAD, numbers)

    def names(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the symbols that have these numbers; UNREAD stays."""
        return np.where(numbers == UNREAD, UNREAD, self.symbols[numbers])

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
        """How often symbols of the whole alphabet agree with each key by chance."""
        return self.whole.shares

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which of its symbols each key of a nonce promotes: [P, U]."""
        return self.whole.promoted_to(nonce, self.symbols)


def _with_times(symbols: NDArray[np.int64], times: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return one number for each pair of a symbol and how often it occurs."""
    return np.asarray(symbols * _TIMES_LIMIT + (0 if times is None else times - 1))


class Layouts(Sequence[NDArray[np.bool_]]):
    """What the keys of each nonce promote [P, V], computed when it is asked for."""

    def __init__(self, schedule: Circle | Excerpt) -> None:
        self._schedule = schedule

    def __len__(self) -> int:
        return self._schedule.nonces

    @overload
    def __getitem__(self, nonce: int) -> NDArray[np.bool_]: ...

    @overload
    def __getitem__(self, nonce: slice) -> list[NDArray[np.bool_]]: ...

    def __getitem__(self, nonce: int | slice) -> NDArray[np.bool_] | list[NDArray[np.bool_]]:
        if isinstance(nonce, slice):
            return [self._schedule.promoted(one) for one in range(len(self))[nonce]]
        return self._schedule.promoted(range(len(self))[nonce])


def needs_excerpts(key: Key) -> bool:
    """Whether a key's alphabet is too large to compute the whole schedule."""
    return key.profile.alphabet.size > SMALL_ALPHABET


def excerpt_of(key: Key, readings: Sequence[Reading]) -> tuple[Excerpt | None, list[Reading]]:
    """Return the excerpt of a key's schedule that readings need, and the readings in its numbers.

    The excerpt is None if the alphabet is small.
    """
    return _excerpt_of(key, readings) if needs_excerpts(key) else (None, list(readings))


def _excerpt_of(key: Key, readings: Sequence[Reading]) -> tuple[Excerpt, list[Reading]]:
    nothing = np.array([UNREAD], dtype=np.int64)
    symbols = np.concatenate([nothing, *(reading.symbols for reading in readings)])
    own = [np.ones_like(r.symbols) if r.times is None else r.times for r in readings]
    excerpt = Excerpt.of(key.circle, symbols, np.concatenate([-nothing, *own]))
    return excerpt, [
        r._replace(symbols=excerpt.numbered(r.symbols, times))
        for r, times in zip(readings, own, strict=True)
    ]


def in_parts(key: Key, readings: Sequence[Reading]) -> Iterator[list[Reading]]:
    """Split readings into batches, in order, that do not have too many symbols for one excerpt."""
    nonces = max(key.circle.nonces, _MIN_NONCES)
    most_symbols = _MAX_ENTRIES // (key.circle.period * nonces)
    some: list[Reading] = []
    symbols: set[int] = set()
    for reading in readings:
        own = set(reading.symbols.tolist())
        if some and len(symbols) + len(own - symbols) > most_symbols:
            yield some
            some, symbols = [], set()
        some.append(reading)
        symbols |= own
    if some:
        yield some


class PerBatchStatistic:
    """A statistic that is made again for the symbols of each batch."""

    def __init__(self, make: Callable[[Key, Excerpt], Statistic], key: Key) -> None:
        self._make, self._key = make, key
        empty = self.made_for([])[0]
        self.name, self.signature = empty.name, empty.signature
        self.reads_repeats = getattr(empty, "reads_repeats", False)

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""
        found: list[Measurement] = []
        for some in in_parts(self._key, readings):
            statistic, numbered = self.made_for(some)
            found += statistic.measure(numbered)
        return found

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the null for a record whose `statistic` was measured."""
        own, numbered = self.made_for([reading])
        return own.null_curve(numbered[0], statistic)

    def made_for(self, readings: Sequence[Reading]) -> tuple[Statistic, list[Reading]]:
        """Return a statistic for the symbols of readings, and the readings in its numbers."""
        excerpt, numbered = _excerpt_of(self._key, readings)
        return self._make(self._key, excerpt), numbered
