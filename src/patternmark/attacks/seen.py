"""What an attacker reads in one marked sequence: its letters, and how much each of them says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD


class Seen(NamedTuple):
    """A marked sequence. A letter agrees with its secret coin with odds exp(log_odds) to 1."""

    symbols: NDArray[np.int64]  # [n], UNREAD where nothing is read
    log_odds: NDArray[np.float64]  # [n], 0 where nothing is read

    @classmethod
    def of(cls, symbols: NDArray[np.int64], rates: NDArray[np.float64]) -> Seen:
        """Weigh each position by how often it should agree: [n]."""
        return cls(symbols, np.where(symbols == UNREAD, 0.0, np.log(rates / (1.0 - rates))))


def by_letters(sequences: Iterable[NDArray[np.int64]], rates: NDArray[np.float64]) -> list[Seen]:
    """Weigh every letter by how often it agrees in marked designs: [V]."""
    return [Seen.of(symbols, rates[np.maximum(symbols, 0)]) for symbols in sequences]
