"""Find the positions of a text that use a secret coin again, and so are no new evidence.

A secret coin decides whether a symbol agrees with its key: with the paper's scheme the coin of the
symbol, with the scheme `turns` the coin of its block and symbol. With 20 amino acids every coin is
used many times, and a detector must trust that sequences were not written to fit. With thousands of
symbols that trust is not needed. If each coin counts once, the agreements along a path are
independent fair coins over the choice of the key, whatever the text is: a poem, a list, one word
repeated. The text cannot depend on the key.

So a position is left out if the same symbol occurs earlier in its chain at a lag that may share
the secret, or in an earlier chain, whose phase is unknown. With the paper's scheme every symbol
counts once in a record. The scheme `turns` has new coins some positions later, and loses one token
in twenty of English.

The mask depends only on the symbols, never on a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SEPARATOR, UNREAD
from patternmark.masks.repeats import Lags


def find_reused_coins(
    records: Sequence[NDArray[np.int64]], reuses_secret: Lags | None = None
) -> list[NDArray[np.bool_]]:
    """Mark the positions whose coin was used earlier in the record: [n] for each.

    `reuses_secret` maps lags to True if two positions of a chain that far apart may share a secret
    bit; None means that all do.

    >>> text = np.array([7, 8, 7, 9, 9, 7])
    >>> find_reused_coins([text])[0].astype(int).tolist()
    [0, 0, 1, 0, 1, 1]
    >>> find_reused_coins([text], lambda lags: lags < 3)[0].astype(int).tolist()
    [0, 0, 1, 0, 1, 0]
    """
    marks: list[NDArray[np.bool_]] = [np.zeros(0, dtype=bool)] * len(records)
    for numbers in _by_length(records):
        some = [records[number] for number in numbers]
        for number, mark in zip(numbers, _mark(some, reuses_secret), strict=True):
            marks[number] = mark
    return marks


def count_occurrences(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often the symbol of each position occurs in the record: [n]; UNREAD: 1.

    Larger numbers are rounded up to one of a few values, so that tables stay small.

    >>> count_occurrences(np.array([7, 8, 7, UNREAD, 7])).tolist()
    [3, 1, 3, 1, 3]
    """
    _, place, count = np.unique(symbols, return_inverse=True, return_counts=True)
    times = count[place]
    exponent = np.maximum(np.frexp(times.astype(float))[1] - 3, 0)  # three leading bits are kept
    step = np.int64(1) << exponent.astype(np.int64)
    return np.where(symbols == UNREAD, 1, -(-times // step) * step)


def _by_length(records: Sequence[NDArray[np.int64]]) -> Iterator[list[int]]:
    """Group records of similar length, so that short ones need not go through many lags."""
    sizes = np.array([len(ids).bit_length() for ids in records], dtype=np.int64)
    for size in np.unique(sizes):
        yield np.flatnonzero(sizes == size).tolist()


def _mark(
    records: Sequence[NDArray[np.int64]], reuses_secret: Lags | None
) -> Iterator[NDArray[np.bool_]]:
    lengths = np.array([len(ids) for ids in records], dtype=np.int64)
    symbols = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in records])
    record = np.repeat(np.arange(len(records)), lengths)
    # A number for each chain of each record: a separator and a new record begin a new chain.
    chain = np.cumsum(np.append(0, (symbols == SEPARATOR)[:-1])) + record
    tosses = np.flatnonzero(symbols >= 0)
    first = _first_places(symbols, record, tosses)
    lags = np.arange(1, lengths.max(initial=0))
    reused = np.ones(len(lags), dtype=bool) if reuses_secret is None else reuses_secret(lags)
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
    """Return where the symbol of each place occurs first in its record: [places]."""
    if not places.size:
        return places
    names = record[places] * (int(symbols.max()) + 1) + symbols[places]
    _, first, name = np.unique(names, return_index=True, return_inverse=True)
    return np.asarray(places[first[name]])
