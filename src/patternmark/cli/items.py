"""A record as detectors are given it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.io.records import Record


@dataclass(frozen=True, eq=False)
class Item:
    """A readable record: its symbols, and which of them count (None: all that can)."""

    file: str
    record: Record
    symbols: NDArray[np.int64]
    scored: NDArray[np.bool_] | None
    rates: NDArray[np.float64] | None = None  # what a model expects of each symbol: [levels, n]

    @property
    def place(self) -> str:
        return f"{self.record.place} ({self.record.id})"
