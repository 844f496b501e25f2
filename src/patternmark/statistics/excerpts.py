"""Statistics of alphabets of many symbols: each batch is judged over the symbols it has.

A statistic keeps what every symbol is worth under every key of a schedule. A vocabulary of 262,144
tokens has too many for that, and a batch of sequences has few of them. So its symbols are numbered
anew, and a statistic is made for the excerpt of the schedule that has these symbols alone. What a
sequence is worth does not depend on symbols it does not have: verdicts are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import FEW_SYMBOLS, UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Circle
from patternmark.statistics.base import Measurement, NullCurve, Statistic

_ENTRIES_AT_ONCE = 2**23  # of an excerpt, keys times symbols: what is made of it takes 150 MB
_LEAST_NONCES = 4  # the tables of one nonce take as much as the bits of some


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A schedule of some symbols alone, with numbers of its own from 0; all else is the same.

    >>> from patternmark.core.partition import Partition
    >>> schedule = Partition(np.array([0, 1, 0, 1]), 2)
    >>> excerpt = Excerpt.of(schedule, np.array([3, 1, 1, 3]))
    >>> excerpt.numbered(np.array([3, 1, 1, 3])), excerpt.promoted(0).shape
    (array([1, 0, 0, 1]), (2, 2))
    """

    whole: Circle
    symbols: NDArray[np.int64]  # [U], ascending

    @classmethod
    def of(cls, whole: Circle, symbols: NDArray[np.int64]) -> Excerpt:
        """Return the schedule of the symbols that occur; UNREAD is not a symbol."""
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
        """How often chance agrees with each key in the whole alphabet."""
        return self.whole.shares

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which of its symbols each key of a nonce promotes: [P, U]."""
        return self.whole.promoted_to(nonce, self.symbols)


def needs_excerpts(key: Key) -> bool:
    """Whether a key's alphabet is too large to be laid out whole."""
    return key.profile.alphabet.size > FEW_SYMBOLS


def excerpt_of(key: Key, readings: Sequence[Reading]) -> tuple[Excerpt | None, list[Reading]]:
    """Return the excerpt of a key's schedule that readings need, and them in its numbers.

    An alphabet that is small enough has no excerpt.
    """
    if not needs_excerpts(key):
        return None, list(readings)
    excerpt = Excerpt.of(key.circle, _all_symbols(readings))
    return excerpt, [r._replace(symbols=excerpt.numbered(r.symbols)) for r in readings]


def _all_symbols(readings: Sequence[Reading]) -> NDArray[np.int64]:
    nothing = np.array([UNREAD], dtype=np.int64)
    return np.concatenate([nothing, *(reading.symbols for reading in readings)])


def in_parts(key: Key, readings: Sequence[Reading]) -> Iterator[list[Reading]]:
    """Yield readings in turn, as many together as have not too many symbols for one excerpt."""
    nonces = max(key.circle.nonces, _LEAST_NONCES)
    most_symbols = _ENTRIES_AT_ONCE // (key.circle.period * nonces)
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


class OfExcerpts:
    """A statistic that is made anew for the symbols of each batch."""

    def __init__(self, make: Callable[[Key, Excerpt], Statistic], key: Key) -> None:
        self._make, self._key = make, key
        anyone = self.made_for([])[0]
        self.name, self.signature = anyone.name, anyone.signature

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""
        found: list[Measurement] = []
        for some in in_parts(self._key, readings):
            statistic, numbered = self.made_for(some)
            found += statistic.measure(numbered)
        return found

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return what chance does with a record whose `statistic` was measured."""
        own, numbered = self.made_for([reading])
        return own.null_curve(numbered[0], statistic)

    def made_for(self, readings: Sequence[Reading]) -> tuple[Statistic, list[Reading]]:
        """Return the statistic of the symbols that readings have, and them in its numbers."""
        excerpt, numbered = excerpt_of(self._key, readings)
        assert excerpt is not None  # noqa: S101
        return self._make(self._key, excerpt), numbered
