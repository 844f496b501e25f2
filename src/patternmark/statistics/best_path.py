"""The best path of a sequence through the phases of a schedule: agreement minus the cost of slips.

`signs` [V + 1, 2P] are +1 or -1 for each symbol under each key, and 0 for UNREAD; the period is
repeated (see `phase_sums.double_period`). A slip moves to the next phase, up or down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.fast.compiled import kernels
from patternmark.null.local import LocalRules, local_scores
from patternmark.null.walk import slip_scores
from patternmark.statistics.phase_sums import last_read


def slip_paths(signs: NDArray[np.int8], symbols: NDArray[np.int64], cost: int) -> NDArray[np.int64]:
    """Return the best score of a path on which each change of phase costs `cost`: [B, n] -> [B]."""
    period = signs.shape[1] // 2
    loops = kernels(5 * symbols.size * period, calls=6 * symbols.size)
    best = np.zeros(len(symbols), dtype=np.int64)
    if loops is None and period == 2:
        return slip_scores(_of_first_phase(signs, symbols), cost)
    if loops is not None:
        loops.slip_paths(signs, symbols, last_read(symbols), cost, best)
        return best
    for row, chain in enumerate(symbols):
        score = np.zeros(period, dtype=np.int64)
        for position in np.flatnonzero(chain != UNREAD):
            moved = np.maximum(np.roll(score, 1), np.roll(score, -1)) - cost
            first = position % period
            gain = signs[chain[position], first : first + period]
            score = np.maximum(score, moved) + gain
        best[row] = score.max()
    return best


def local_paths(
    signs: NDArray[np.int8], symbols: NDArray[np.int64], rules: LocalRules
) -> NDArray[np.int64]:
    """Return score, start and end of the best stretch of any path: [B, n] -> [B, 3]."""
    period = signs.shape[1] // 2
    loops = kernels(10 * symbols.size * period, calls=20 * symbols.size)
    if loops is None and period == 2:
        best = local_scores(_of_first_phase(signs, symbols), rules)
        return np.stack([best.score, best.start, best.end], axis=1)
    found = np.zeros((len(symbols), 3), dtype=np.int64)
    if loops is not None:
        costs = (rules.match, rules.mismatch, rules.slip)
        loops.local_paths(signs, symbols, last_read(symbols), *costs, found)
        return found
    gains = np.where(signs > 0, rules.match, np.where(signs < 0, -rules.mismatch, 0))
    for row, chain in enumerate(symbols):
        found[row] = _local_path(gains, chain, rules.slip)
    return found


def _local_path(
    gains: NDArray[np.int64], chain: NDArray[np.int64], slip: int
) -> tuple[int, int, int]:
    period = gains.shape[1] // 2
    score = np.zeros(period, dtype=np.int64)
    start = np.zeros(period, dtype=np.int64)
    best = (0, 0, 0)
    for position, symbol in enumerate(chain.tolist()):
        for shift in (1, -1):
            other = np.roll(score, shift) - slip
            better = other > score
            score, start = (
                np.where(better, other, score),
                np.where(better, np.roll(start, shift), start),
            )
        fresh = score <= 0
        first = position % period
        score = np.where(fresh, 0, score) + gains[symbol, first : first + period]
        start = np.where(fresh, position, start)
        top = int(np.argmax(score))
        if score[top] > best[0]:
            best = (int(score[top]), int(start[top]), position + 1)
    return best


def _of_first_phase(signs: NDArray[np.int8], symbols: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the signs under the first of two phases; the second has the opposite: [B, n]."""
    return np.asarray(signs[symbols, np.arange(symbols.shape[1]) % 2])
