"""What of a sequence a detector may read: scored symbols, each piece of news once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.coins import tossed_before
from patternmark.core.alphabet import NO_COIN, SEPARATOR, UNREAD, Alphabet
from patternmark.errors import ParameterError
from patternmark.repeats import Lags, repeated_many

_MUCH = 0.25  # of a record


class Reading(NamedTuple):
    """A record's symbols, UNREAD where they say nothing, and its chains as slices of them.

    `rates` [levels, n] tell, where a model could, how often each symbol should agree with its key.
    """

    symbols: NDArray[np.int64]
    chains: tuple[slice, ...]
    rates: NDArray[np.float64] | None = None

    @property
    def num_scored(self) -> int:
        return int(np.count_nonzero(self.symbols != UNREAD))

    @property
    def parts(self) -> list[NDArray[np.int64]]:
        """The symbols of each chain that says something."""
        return [self.symbols[chain] for chain in self.spoken]

    @property
    def spoken(self) -> list[slice]:
        """The chains that say something."""
        return [chain for chain in self.chains if np.any(self.symbols[chain] != UNREAD)]


def read(
    ids: NDArray[np.int64],
    alphabet: Alphabet,
    scored: NDArray[np.bool_] | None = None,
    *,
    mask_repeats: bool = True,
) -> Reading:
    """Read one record's symbols, as `read_many` does."""
    return read_many([ids], alphabet, [scored], mask_repeats=mask_repeats)[0]


def read_many(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet,
    scored: Sequence[NDArray[np.bool_] | None],
    *,
    mask_repeats: bool = True,
    drop_copies: bool | None = None,
    matters: Lags | None = None,
) -> list[Reading]:
    """Read the symbols of records.

    Unscored symbols and positions that are not `scored` say nothing. Nor, unless told otherwise,
    does what chance would count twice. In an alphabet of many symbols that is a symbol whose coin
    was tossed before (see `coins`), in one of few a stretch that repeats what stands before it in
    the record, copies of a chain among them (see `repeats`). `matters` tells at which lags the same
    secret is met again; without it at all. `drop_copies` leaves out
    chains that are copies of an earlier one even where other repeats count.
    """
    repeats: Sequence[NDArray[np.bool_] | None] = [None] * len(records)
    if mask_repeats and alphabet.has_many_symbols:
        pairs = zip(records, scored, strict=True)
        repeats = tossed_before([_tossing(ids, alphabet, mask) for ids, mask in pairs], matters)
    elif mask_repeats:
        repeats = _repeats(records, alphabet, matters)
    return [
        _read(ids, alphabet, mask, again, mask_repeats if drop_copies is None else drop_copies)
        for ids, mask, again in zip(records, scored, repeats, strict=True)
    ]


def _repeats(
    records: Sequence[NDArray[np.int64]], alphabet: Alphabet, matters: Lags | None
) -> Sequence[NDArray[np.bool_]]:
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


def _read(
    ids: NDArray[np.int64],
    alphabet: Alphabet,
    scored: NDArray[np.bool_] | None,
    repeats: NDArray[np.bool_] | None,
    drop_copies: bool,
) -> Reading:
    symbols = np.where(alphabet.is_scored(ids), ids, UNREAD)
    separators = np.flatnonzero(ids == SEPARATOR)
    edges = [-1, *separators.tolist(), len(ids)]
    chains = tuple(slice(a + 1, b) for a, b in pairwise(edges))
    if repeats is not None:
        symbols[repeats] = UNREAD
    if drop_copies:
        _silence_copies(symbols, ids, chains)
    if scored is not None:
        symbols[~scored] = UNREAD
    return Reading(symbols, chains)


def _silence_copies(
    symbols: NDArray[np.int64], ids: NDArray[np.int64], chains: tuple[slice, ...]
) -> None:
    """Leave a chain out that is another's copy, however short."""
    seen: set[bytes] = set()
    for chain in chains:
        content = ids[chain].tobytes()
        if content in seen:
            symbols[chain] = UNREAD
        seen.add(content)


def checked_rates(rates: NDArray[np.float64] | None, length: int) -> NDArray[np.float64] | None:
    """Refuse rates that are not probabilities of that many positions: [levels, n]."""
    if rates is None:
        return None
    if rates.ndim != 2 or rates.shape[1] != length:
        raise ParameterError(f"rates have the shape [levels, {length}], not {rates.shape}")
    if not np.all((rates > 0.0) & (rates < 1.0)):  # nan is neither
        raise ParameterError("rates lie between 0 and 1")
    return rates
