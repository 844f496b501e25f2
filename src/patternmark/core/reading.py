"""What of a sequence a detector may read: scored symbols, each piece of news once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SEPARATOR, UNREAD, Alphabet
from patternmark.errors import ParameterError


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


def read_many(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet,
    scored: Sequence[NDArray[np.bool_] | None],
    repeats: Sequence[NDArray[np.bool_] | None] | None = None,
    *,
    drop_copies: bool = True,
) -> list[Reading]:
    """Read the symbols of records.

    Unscored symbols and positions that are not `scored` say nothing, nor do `repeats`: positions
    that a scheme's p-value would count twice (see `masks`). `drop_copies` leaves chains out that
    are copies of an earlier one.
    """
    masks = [None] * len(records) if repeats is None else repeats
    return [
        _read(ids, alphabet, mask, again, drop_copies)
        for ids, mask, again in zip(records, scored, masks, strict=True)
    ]


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
