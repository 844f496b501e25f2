"""Judge many sequences fast, if it is known under which nonces of a key they can be found.

E of a key is the mean over its R nonces. A nonce that has nothing to do with a sequence adds about
1 to the sum, so a few nonces give the verdict of all R, for any R. And all sequences judged here
begin at the first block, so components that begin elsewhere are left out. Together this is a
hundred times faster than the detector; `agreement_with_detector` counts the verdicts that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import BlockSchedule
from patternmark.core.key import Key
from patternmark.core.reading import read_many
from patternmark.core.schemes import DEFAULT_BLOCK
from patternmark.detector import Detector
from patternmark.evidence import DEFAULT_FPR, is_below
from patternmark.null.block_bound import log_c
from patternmark.statistics.block_ratio import MIXTURE, BlockStatistic, Mixture
from patternmark.statistics.likelihood import log_mean_exp


class _SomeNonces:
    """The coins of only some nonces of a key."""

    def __init__(self, key: Key, chosen: Sequence[int]) -> None:
        self._schedule, self._chosen = cast(BlockSchedule, key.schedule), list(chosen)
        self.block, self.nonces = self._schedule.block, len(self._chosen)

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain, for these nonces: [blocks, chosen]."""
        return np.asarray(self._schedule.words(chain, blocks)[:, self._chosen])


def _of_the_start() -> Mixture:
    rows = [row for row, own in enumerate(MIXTURE.components) if own.begins == "start"]
    return Mixture(
        components=tuple(MIXTURE.components[row] for row in rows),
        weights=tuple(MIXTURE.weights[row] for row in rows),
        short_weights=tuple(MIXTURE.short_weights[row] for row in rows),
    )


def log_e_of_nonces(
    key: Key, sequences: Sequence[NDArray[np.int64]], nonces: Sequence[int]
) -> NDArray[np.float64]:
    """Return ln E of each sequence under each of some nonces: [B, len(nonces)]."""
    statistic = BlockStatistic(_SomeNonces(key, nonces))
    statistic.mixture = _of_the_start()
    readings = read_many(sequences, PROTEIN, [None] * len(sequences))
    return np.array([statistic.log_ratios(reading) for reading in readings])


def is_found(log_e: NDArray[np.float64], num_nonces: int, length: int) -> bool:
    """Return the verdict of a key with `num_nonces` nonces, given ln E under some of them: [k].

    The factor C was measured for the default block size. It is used for all sizes, to compare them.
    """
    others = num_nonces - len(log_e)
    every = np.append(log_e, log(others)) if others > 0 else log_e
    total = float(log_mean_exp(every, total=True)) - log(num_nonces)
    log_p = log_c.log_p(DEFAULT_BLOCK, MIXTURE.digest, length, np.array(total))
    return is_below(float(log_p), DEFAULT_FPR)


def judge_fast(
    key: Key, sequences: Sequence[NDArray[np.int64]], nonces: Sequence[int]
) -> list[bool]:
    """Tell which sequences the key finds, given the nonces that they may have."""
    number = key.profile.scheme.nonces
    found = log_e_of_nonces(key, sequences, nonces)
    return [
        is_found(row, number, len(sequence)) for row, sequence in zip(found, sequences, strict=True)
    ]


def agreement_with_detector(
    key: Key, sequences: Sequence[NDArray[np.int64]], nonces: Sequence[int]
) -> dict[str, Any]:
    """Return how many verdicts equal those of the detector, and how many are "marked"."""
    fast = judge_fast(key, sequences, nonces)
    verdicts = [verdict.prediction for verdict in Detector(key).detect_many(sequences)]
    same = sum(a == b for a, b in zip(fast, verdicts, strict=True))
    return {"n": len(fast), "same": same, "fast": sum(fast), "detector": sum(verdicts)}
