"""Find positions that repeat earlier evidence, for schemes whose p-values count every position.

In a large alphabet these are symbols whose secret coin was used before in the record (`coins`). In
a small one they are stretches that copy an earlier stretch of the record (`repeats`). Schemes with
an exact ratio need neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_COIN, SEPARATOR, Alphabet
from patternmark.core.reading import Reading, read_many
from patternmark.masks.coins import find_reused_coins
from patternmark.masks.repeats import Lags, find_repeats_many

_MAX_LENIENT_SHARE = 0.25  # share of repeats above which all of them are left out, at any lag


def find_repeated_evidence(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet,
    scored: Sequence[NDArray[np.bool_] | None],
    reuses_secret: Lags | None = None,
) -> list[NDArray[np.bool_]]:
    """Mark the positions that would count the same evidence twice: [n] for each record.

    `reuses_secret` maps lags to True if two positions that far apart may share a secret bit; None
    means that all do.
    """
    if alphabet.has_many_symbols:
        pairs = zip(records, scored, strict=True)
        coins = [_symbols_with_coins(ids, alphabet, mask) for ids, mask in pairs]
        return find_reused_coins(coins, reuses_secret)
    return _repeats(records, alphabet, reuses_secret)


def read(
    ids: NDArray[np.int64],
    alphabet: Alphabet,
    scored: NDArray[np.bool_] | None = None,
    *,
    mask_repeats: bool = True,
) -> Reading:
    """Read one record; with `mask_repeats`, leave out repeated evidence at any lag."""
    masks = find_repeated_evidence([ids], alphabet, [scored]) if mask_repeats else None
    return read_many([ids], alphabet, [scored], masks)[0]


def _repeats(
    records: Sequence[NDArray[np.int64]], alphabet: Alphabet, reuses_secret: Lags | None
) -> list[NDArray[np.bool_]]:
    """Mark stretches that repeat.

    If a large share of a record is repeats, all of them are left out, whatever their lag: the
    same neighbours would share blocks again and again.
    """
    every = find_repeats_many(records, alphabet, None)
    if reuses_secret is None:
        return every
    # Few records have repeats, so the second pass is short.
    limits = [_MAX_LENIENT_SHARE * len(mask) for mask in every]
    some = [i for i, mask in enumerate(every) if 0 < np.count_nonzero(mask) <= limits[i]]
    lenient = find_repeats_many([records[i] for i in some], alphabet, reuses_secret)
    masks = list(every)
    for i, mask in zip(some, lenient, strict=True):
        masks[i] = mask
    return masks


def _symbols_with_coins(
    ids: NDArray[np.int64], alphabet: Alphabet, scored: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Return the symbols that have a coin; NO_COIN for those that are not scored: [n]."""
    read = alphabet.is_scored(ids)
    if scored is not None:
        read &= scored
    return np.where(read | (ids == SEPARATOR), ids, NO_COIN)
