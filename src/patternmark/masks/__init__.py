"""Which positions say what was said before, for schemes whose p-values count every position.

In an alphabet of many symbols that is a symbol whose coin was tossed before (`coins`). In one of
few it is a stretch that repeats what stands before it in the record (`repeats`). Schemes with an
exact ratio need neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_COIN, SEPARATOR, Alphabet
from patternmark.core.reading import Reading, read_many
from patternmark.masks.coins import tossed_before
from patternmark.masks.repeats import Lags, repeated_many

_MUCH = 0.25  # of a record


def said_before(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet,
    scored: Sequence[NDArray[np.bool_] | None],
    matters: Lags | None = None,
) -> list[NDArray[np.bool_]]:
    """Mark the positions that chance would count twice: [n] for each record.

    `matters` tells at which lags the same secret is met again; without it at all.
    """
    if alphabet.has_many_symbols:
        pairs = zip(records, scored, strict=True)
        return tossed_before([_tossing(ids, alphabet, mask) for ids, mask in pairs], matters)
    return _repeats(records, alphabet, matters)


def read(
    ids: NDArray[np.int64],
    alphabet: Alphabet,
    scored: NDArray[np.bool_] | None = None,
    *,
    mask_repeats: bool = True,
) -> Reading:
    """Read one record; unless told otherwise, without what was said before in it, at any lag."""
    masks = said_before([ids], alphabet, [scored]) if mask_repeats else None
    return read_many([ids], alphabet, [scored], masks)[0]


def _repeats(
    records: Sequence[NDArray[np.int64]], alphabet: Alphabet, matters: Lags | None
) -> list[NDArray[np.bool_]]:
    """Mark stretches that repeat.

    Where much of a record is repeats, all of them are left out whatever their lag: which symbols
    stand beside each other in a block would be the same again and again.
    """
    every = repeated_many(records, alphabet, None)
    if matters is None:
        return every
    # Few records have repeats at all, and fewer have some that matter little.
    partly = [i for i, mask in enumerate(every) if 0 < np.count_nonzero(mask) <= _MUCH * len(mask)]
    lenient = repeated_many([records[i] for i in partly], alphabet, matters)
    masks = list(every)
    for i, mask in zip(partly, lenient, strict=True):
        masks[i] = mask
    return masks


def _tossing(
    ids: NDArray[np.int64], alphabet: Alphabet, scored: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Return the symbols that toss a coin at all: [n]."""
    read = alphabet.is_scored(ids)
    if scored is not None:
        read &= scored
    return np.where(read | (ids == SEPARATOR), ids, NO_COIN)
