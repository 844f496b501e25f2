"""A marked sequence as an attacker sees it: its letters, and how much each tells about its coin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD


class Seen(NamedTuple):
    """A marked sequence. A letter agrees with its secret coin with odds exp(log_odds) to 1."""

    symbols: NDArray[np.int64]  # [n], UNREAD at positions that are not scored
    log_odds: NDArray[np.float64]  # [n], 0 at positions that are not scored

    @classmethod
    def of(cls, symbols: NDArray[np.int64], rates: NDArray[np.float64]) -> Seen:
        """Weight each position by its expected rate of agreement: [n]."""
        return cls(symbols, np.where(symbols == UNREAD, 0.0, np.log(rates / (1.0 - rates))))


def by_letters(sequences: Iterable[NDArray[np.int64]], rates: NDArray[np.float64]) -> list[Seen]:
    """Weight every letter by its rate of agreement in marked designs: [V]."""
    return [Seen.of(symbols, rates[np.maximum(symbols, 0)]) for symbols in sequences]
