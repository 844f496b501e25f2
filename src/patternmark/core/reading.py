"""Select the positions that a detector counts: scored symbols, without repeats and copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SEPARATOR, UNREAD, Alphabet


class Reading(NamedTuple):
    """A record's symbols, UNREAD where they do not count, and its chains as slices of them.

    `rates` [levels, n]: how often each symbol should agree with its key, if a model computed it.
    `times` [n]: how often each symbol occurs in the record, if all symbols of a text are read.
    """

    symbols: NDArray[np.int64]
    chains: tuple[slice, ...]
    rates: NDArray[np.float64] | None = None
    times: NDArray[np.int64] | None = None

    @property
    def num_scored(self) -> int:
        return int(np.count_nonzero(self.symbols != UNREAD))

    @property
    def parts(self) -> list[NDArray[np.int64]]:
        """The symbols of each chain that has scored positions."""
        return [self.symbols[chain] for chain in self.scored_chains]

    @property
    def scored_chains(self) -> list[slice]:
        """The chains that have scored positions."""
        return [chain for chain in self.chains if np.any(self.symbols[chain] != UNREAD)]


def read_many(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet,
    scored: Sequence[NDArray[np.bool_] | None],
    repeats: Sequence[NDArray[np.bool_] | None] | None = None,
    *,
    drop_copies: bool = True,
) -> list[Reading]:
    """Turn encoded records into readings.

    Unscored symbols do not count, nor do positions outside `scored`, nor `repeats`: positions that
    would count the same evidence twice (see `masks`). `drop_copies` leaves out chains that copy an
    earlier chain.
    """
    masks = [None] * len(records) if repeats is None else repeats
    readings = []
    for ids, is_scored, is_repeat in zip(records, scored, masks, strict=True):
        symbols = np.where(alphabet.is_scored(ids), ids, UNREAD)
        edges = [-1, *np.flatnonzero(ids == SEPARATOR).tolist(), len(ids)]
        chains = tuple(slice(a + 1, b) for a, b in pairwise(edges))
        if is_repeat is not None:
            symbols[is_repeat] = UNREAD
        if is_scored is not None:
            symbols[~is_scored] = UNREAD
        if drop_copies:
            seen: set[bytes] = set()
            for chain in chains:
                content = ids[chain].tobytes()
                if content in seen:
                    symbols[chain] = UNREAD
                seen.add(content)
        readings.append(Reading(symbols, chains))
    return readings
