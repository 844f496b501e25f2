"""The factor C of p = C / E: how far the e-value of block marks stays below Markov's bound.

For one sequence, C(t) = t P(E >= t) over random keys is at most 1. The table has the largest C that
`patternmark bench block-null` measured for any t >= RARE, over all its classes of sequences:
natural chains, designs, repeats, and sequences written by someone who knows everything except the
key. It is raised by two standard errors, and then by a tenth. For smaller t, where p-values are
large, and for chains shorter than those in the table, Markov's bound is used.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from importlib.resources import files
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.evidence import markov

RARE = 20.0  # the smallest E for which C was measured
_FILE = "data/block_null.json"


@cache
def _table() -> dict[str, Any]:
    return dict(json.loads(files("patternmark").joinpath(_FILE).read_text(encoding="utf-8")))


class LogC:
    """Looks up ln C for a block size, a mixture and the scored residues of the longest chain."""

    def at(self, block: int, mixture: str, scored: int) -> float:
        """Return ln C; it is 0 (Markov's bound) if nothing was measured.

        `mixture` is the digest of the statistic's mixture: the table holds for one mixture only.
        """
        table = _table()
        if not _is_about(table, block, mixture) or scored < table["lengths"][0]:
            return 0.0
        # Between two lengths, take the larger C of the two.
        place = int(np.searchsorted(table["lengths"], scored, side="right")) - 1
        return log(max(table["c"][place : place + 2]))

    def log_p(
        self, block: int, mixture: str, scored: int, log_e: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return ln p for values of ln E: C / E from RARE on, 1 / E below."""
        factor = self.at(block, mixture, scored)
        return np.where(log_e >= log(RARE), factor - log_e, markov(log_e))

    def digest(self, block: int, mixture: str) -> str:
        """Return a hash that identifies this table, or "1" if it does not apply."""
        table = _table()
        if not _is_about(table, block, mixture):
            return "1"
        return sha256(repr((table["lengths"], table["c"])).encode()).hexdigest()[:8]


def _is_about(table: dict[str, Any], block: int, mixture: str) -> bool:
    return (table["block"], table.get("mixture")) == (block, mixture)


log_c = LogC()
