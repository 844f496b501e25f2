"""Example: blocks that agree. Say for which sequences p holds: any, as their coins are fair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.blocks import BlockSchedule
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import of_kind
from patternmark.evidence import bonferroni
from patternmark.null.binomial import binomial_log_tail
from patternmark.statistics.base import Measurement, NullCurve


class Example:
    """The best count of any nonce, for keys of the scheme `blocks`."""

    name = "example"
    signature = "v:1"  # whatever changes a p-value stands here

    def __init__(self, key: Key) -> None:
        self._schedule = of_kind(key.profile.scheme, key.schedule, BlockSchedule, "blocks")

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record."""
        found = []
        for hits, blocks in map(self.counts, readings):
            log_p, floor = self.log_p(np.array([hits.max(), blocks]), blocks).tolist()
            found.append(Measurement(int(hits.max()), None, log_p, floor))
        return found

    def counts(self, reading: Reading) -> tuple[NDArray[np.int64], int]:
        """Return how many blocks agree under each nonce [R], and how many there are."""
        hits, blocks = np.zeros(self._schedule.nonces, dtype=np.int64), 0
        for chain, rows in enumerate(reading.chains):
            symbols = reading.symbols[rows]
            scored = np.flatnonzero(symbols != UNREAD)
            block, first = np.unique(scored // self._schedule.block, return_index=True)
            halves = self._schedule.halves(chain, int(block.max(initial=-1)) + 1)
            hits += (halves[:, block, symbols[scored[first]]] > 0).sum(axis=1)
            blocks += len(block)
        return hits, blocks

    def log_p(self, hits: NDArray[np.int64], blocks: int) -> NDArray[np.float64]:
        """Return ln p of best counts: the tail of Bin(blocks, 1/2), once for each nonce."""
        tail = binomial_log_tail(hits, np.full(len(hits), blocks), 0.5)
        return np.asarray(bonferroni(tail, self._schedule.nonces))

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return ln p of every count."""
        values = np.arange((blocks := self.counts(reading)[1]) + 1)
        return NullCurve.of_tail(values, self.log_p(values, blocks), statistic, self.name)
