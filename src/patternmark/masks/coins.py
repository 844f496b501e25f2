"""Which positions of a text toss a secret coin again, and so say nothing new.

Whether a symbol agrees with its key is decided by a secret coin: with the paper's scheme that of
the symbol, with schedules that take turns that of its block and pair. Among amino acids every coin
is tossed again and again, and a detector trusts that sequences are not made to fit. Among thousands
of symbols there is no need to trust. If each coin counts once, the agreements along a path are
independent fair coins over the choice of the key, whatever the text is: a poem, a list, one word
over and over. What was written cannot know the key.

So a position is left out where the same symbol stands earlier in its chain at a lag that may meet
the same secret, or in another chain before, whose phase is unknown. With the paper's scheme every
symbol counts once in a record; schedules that take turns have fresh coins some positions further
on, and lose one token in twenty of English.

Only symbols are looked at, never a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SEPARATOR, UNREAD
from patternmark.masks.repeats import Lags


def tossed_before(
    records: Sequence[NDArray[np.int64]], matters: Lags | None = None
) -> list[NDArray[np.bool_]]:
    """Mark the positions whose coin was tossed earlier in the record: [n] for each.

    `matters` tells at which lags within a chain a symbol meets the same secret again; without it
    at all.

    >>> text = np.array([7, 8, 7, 9, 9, 7])
    >>> tossed_before([text])[0].astype(int).tolist()
    [0, 0, 1, 0, 1, 1]
    >>> tossed_before([text], lambda lags: lags < 3)[0].astype(int).tolist()
    [0, 0, 1, 0, 1, 0]
    """
    marks: list[NDArray[np.bool_]] = [np.zeros(0, dtype=bool)] * len(records)
    for numbers in _of_like_length(records):
        some = [records[number] for number in numbers]
        for number, mark in zip(numbers, _mark(some, matters), strict=True):
            marks[number] = mark
    return marks


def times_said(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often the symbol of each position stands in the record: [n]; UNREAD: 1.

    Larger numbers are rounded up to one of a few, so that tables of them stay small.

    >>> times_said(np.array([7, 8, 7, UNREAD, 7])).tolist()
    [3, 1, 3, 1, 3]
    """
    _, place, count = np.unique(symbols, return_inverse=True, return_counts=True)
    times = count[place]
    exponent = np.maximum(np.frexp(times.astype(float))[1] - 3, 0)  # three leading bits are kept
    step = np.int64(1) << exponent.astype(np.int64)
    return np.where(symbols == UNREAD, 1, -(-times // step) * step)


def _of_like_length(records: Sequence[NDArray[np.int64]]) -> Iterator[list[int]]:
    """Group records, so that a long one does not bring its many lags to short ones."""
    sizes = np.array([len(ids).bit_length() for ids in records], dtype=np.int64)
    for size in np.unique(sizes):
        yield np.flatnonzero(sizes == size).tolist()


def _mark(
    records: Sequence[NDArray[np.int64]], matters: Lags | None
) -> Iterator[NDArray[np.bool_]]:
    lengths = np.array([len(ids) for ids in records], dtype=np.int64)
    symbols = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in records])
    record = np.repeat(np.arange(len(records)), lengths)
    # A number for each chain of each record: a separator and a new record begin one.
    chain = np.cumsum(np.append(0, (symbols == SEPARATOR)[:-1])) + record
    tosses = np.flatnonzero(symbols >= 0)
    first = _first_places(symbols, record, tosses)
    lags = np.arange(1, lengths.max(initial=0))
    reused = np.ones(len(lags), dtype=bool) if matters is None else matters(lags)
    again = np.zeros(len(symbols), dtype=bool)
    if reused.all():
        again[tosses] = first != tosses
    else:
        again[tosses] = chain[first] != chain[tosses]
        for lag in lags[reused].tolist():
            same = (symbols[lag:] == symbols[:-lag]) & (chain[lag:] == chain[:-lag])
            again[lag:] |= same & (symbols[lag:] >= 0)
    yield from np.split(again, np.cumsum(lengths)[:-1])


def _first_places(
    symbols: NDArray[np.int64], record: NDArray[np.int64], places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where the symbol of each place stands first in its record: [places]."""
    if not places.size:
        return places
    names = record[places] * (int(symbols.max()) + 1) + symbols[places]
    _, first, name = np.unique(names, return_index=True, return_inverse=True)
    return np.asarray(places[first[name]])
