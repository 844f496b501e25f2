"""The loops that take most of the time, compiled by numba (`pip install 'patternmark[fast]'`).

Every function returns exactly the numbers of the numpy code that calls it (`phase_sums`, `cyclic`,
`statistics.phases`): sums run in the same order or are exact, scales are powers of two. Import this
module through `compiled.kernels`.

`windows` [V + 1, 2P] have the value of each symbol under each key, with the period repeated: P
entries from place i mod P on are the values of a symbol at position i under all phases. UNREAD, -1,
comes last.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from patternmark.fast.compiled import LANES, NEGLIGIBLE, RESCALE_EVERY

_NEGLIGIBLE = np.float32(NEGLIGIBLE)
_ZERO = np.float32(0.0)


@njit(cache=True, nogil=True)
def forward(
    windows: NDArray[np.float32],
    symbols: NDArray[np.int64],
    steps: NDArray[np.int64],
    stride: int,
    stay: np.float32,
    move: np.float32,
    edge: float,
    prior: NDArray[np.float32],
    totals: NDArray[np.float64],
    exponents: NDArray[np.int64],
) -> None:
    """Sum over all paths, like `PathRatios._forward`: [B] totals times 2^exponents."""
    period = prior.shape[0]
    ring = np.zeros(period + 2, np.float32)  # circular: the ends repeat
    ahead = np.zeros(period + 2, np.float32)
    factor = np.empty(period, np.float32)
    for b in range(symbols.shape[0]):
        before = 1.0 if edge > 0.0 else 0.0
        after = 0.0
        exponent = 0
        for p in range(period):
            ring[p + 1] = _ZERO if edge > 0.0 else prior[p]
        for t in range(steps[b]):
            if edge > 0.0:
                after += edge * _total(ring)
            ring[0] = ring[period]
            ring[period + 1] = ring[1]
            _multiply(windows, symbols[b], t * stride, stride, factor)
            if edge > 0.0:
                fresh = np.float32(edge * before)
                for p in range(period):
                    moved = (ring[p] + ring[p + 2]) * move
                    ahead[p + 1] = (ring[p + 1] * stay + moved + fresh * prior[p]) * factor[p]
                before *= 1.0 - edge
            else:
                for p in range(period):
                    moved = (ring[p] + ring[p + 2]) * move
                    ahead[p + 1] = (ring[p + 1] * stay + moved) * factor[p]
            ring, ahead = ahead, ring
            if t % RESCALE_EVERY == RESCALE_EVERY - 1:
                shift = _rescale(ring, before, after)
                before = math.ldexp(before, -shift)
                after = math.ldexp(after, -shift)
                exponent += shift
        totals[b] = _total(ring) + before + after if steps[b] else 1.0
        exponents[b] = exponent


@njit(cache=True, nogil=True)
def _multiply(
    windows: NDArray[np.float32],
    row: NDArray[np.int64],
    at: int,
    stride: int,
    factor: NDArray[np.float32],
) -> None:
    """Multiply the factors of 1, 2 or 4 positions under every phase."""
    period = factor.shape[0]
    first = windows[row[at], at % period :]
    if stride == 1:
        for p in range(period):
            factor[p] = first[p]
        return
    second = windows[row[at + 1], (at + 1) % period :]
    if stride == 2:
        for p in range(period):
            factor[p] = first[p] * second[p]
        return
    third = windows[row[at + 2], (at + 2) % period :]
    fourth = windows[row[at + 3], (at + 3) % period :]
    for p in range(period):
        factor[p] = (first[p] * second[p]) * (third[p] * fourth[p])


@njit(cache=True, nogil=True)
def _total(ring: NDArray[np.float32]) -> float:
    """Sum the inside of a ring in LANES partial sums, like `cyclic._row_sums`."""
    period = ring.shape[0] - 2
    lanes = np.zeros(LANES)
    whole = period - period % LANES
    for k in range(0, whole, LANES):
        for j in range(LANES):
            lanes[j] += ring[k + j + 1]
    for j in range(period - whole):
        lanes[j] += ring[whole + j + 1]
    total = 0.0
    for j in range(LANES):
        total += lanes[j]
    return total


@njit(cache=True, nogil=True)
def _rescale(ring: NDArray[np.float32], before: float, after: float) -> int:
    """Scale the largest number below 1, set negligible ones to 0; return the power of two."""
    period = ring.shape[0] - 2
    largest = _ZERO
    for p in range(period):
        largest = max(largest, ring[p + 1])
    shift: int = math.frexp(max(float(largest), before, after))[1]
    scale = np.float32(math.ldexp(1.0, -shift))
    for p in range(period):
        value = ring[p + 1] * scale
        ring[p + 1] = value if value >= _NEGLIGIBLE else _ZERO
    return shift


@njit(cache=True, nogil=True)
def phase_sums(
    windows: NDArray[np.float32],
    symbols: NDArray[np.int64],
    lasts: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> None:
    """Add up the values of symbols under every phase: [B, n] -> [B, P]."""
    period = sums.shape[1]
    for b in range(symbols.shape[0]):
        for i in range(lasts[b]):
            values = windows[symbols[b, i], i % period :]
            for p in range(period):
                sums[b, p] += values[p]


@njit(cache=True, nogil=True)
def best_in_part(
    windows: NDArray[np.int8],
    symbols: NDArray[np.int64],
    lasts: NDArray[np.int64],
    block: int,
    share: int,
    bonus: int,
    best: NDArray[np.int64],
) -> None:
    """Find the best run of blocks in one phase: [R, V + 1, 2P], [B, n] -> [B, R].

    Values are at most 31, so the sum of four fits a byte; the length of rows is a multiple of four.
    """
    period = windows.shape[2] // 2
    here = np.zeros(period, np.int16)
    run = np.zeros(period, np.int32)
    whole = np.zeros(period, np.int32)
    for b in range(symbols.shape[0]):
        row = symbols[b]
        for r in range(windows.shape[0]):
            whole[:] = 0
            run[:] = 0
            top = np.int32(0)
            for at in range(0, lasts[b], block):
                here[:] = 0
                for i in range(at, min(at + block, lasts[b]), 4):
                    w0 = windows[r, row[i], i % period :]
                    w1 = windows[r, row[i + 1], (i + 1) % period :]
                    w2 = windows[r, row[i + 2], (i + 2) % period :]
                    w3 = windows[r, row[i + 3], (i + 3) % period :]
                    for p in range(period):
                        four = np.int8(np.int8(w0[p] + w1[p]) + np.int8(w2[p] + w3[p]))
                        here[p] = np.int16(here[p] + four)
                for p in range(period):
                    added = np.int32(here[p])
                    whole[p] += added
                    run[p] = np.int32(max(run[p], np.int32(0)) + added)
                    top = max(top, run[p])
            best[b, r] = top
            for p in range(0, period, share):
                best[b, r] = max(best[b, r], whole[p] + bonus)


@njit(cache=True, nogil=True)
def agreements(
    windows: NDArray[np.int8],
    symbols: NDArray[np.int64],
    lasts: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> None:
    """Count the symbols that agree with every nonce and phase: [R, V + 1, 2P] -> [B, R, P]."""
    period = counts.shape[2]
    for b in range(symbols.shape[0]):
        for r in range(windows.shape[0]):
            here = counts[b, r]
            for i in range(lasts[b]):
                agrees = windows[r, symbols[b, i], i % period :]
                for p in range(period):
                    here[p] += agrees[p]


@njit(cache=True, nogil=True)
def slip_paths(
    windows: NDArray[np.int8],
    symbols: NDArray[np.int64],
    lasts: NDArray[np.int64],
    cost: int,
    best: NDArray[np.int64],
) -> None:
    """Find the best score of a path through the phases: signs [V + 1, 2P], [B, n] -> [B]."""
    period = windows.shape[1] // 2
    ring = np.zeros(period + 2, np.int32)
    ahead = np.zeros(period + 2, np.int32)
    lost = np.int32(cost)
    for b in range(symbols.shape[0]):
        ring[:] = 0
        for i in range(lasts[b]):
            if symbols[b, i] < 0:
                continue
            ring[0] = ring[period]
            ring[period + 1] = ring[1]
            sign = windows[symbols[b, i], i % period :]
            for p in range(period):
                moved = np.int32(max(ring[p], ring[p + 2]) - lost)
                ahead[p + 1] = np.int32(max(ring[p + 1], moved) + sign[p])
            ring, ahead = ahead, ring
        best[b] = ring[1:-1].max()


@njit(cache=True, nogil=True)
def local_paths(
    windows: NDArray[np.int8],
    symbols: NDArray[np.int64],
    lasts: NDArray[np.int64],
    match: int,
    mismatch: int,
    slip: int,
    found: NDArray[np.int64],
) -> None:
    """Find score, start and end of the best stretch of any path: [B, n] -> [B, 3]."""
    period = windows.shape[1] // 2
    score = np.zeros(period + 2, np.int32)
    start = np.zeros(period + 2, np.int32)
    ahead = np.zeros(period + 2, np.int32)
    begun = np.zeros(period + 2, np.int32)
    lost, won, failed, zero = np.int32(slip), np.int32(match), np.int32(-mismatch), np.int32(0)
    for b in range(symbols.shape[0]):
        score[:] = 0
        start[:] = 0
        found[b] = 0
        for i in range(lasts[b]):
            score[0], start[0] = score[period], start[period]
            score[period + 1], start[period + 1] = score[1], start[1]
            sign = windows[symbols[b, i], i % period :]
            here = np.int32(i)
            for p in range(1, period + 1):
                below = np.int32(score[p - 1] - lost)
                above = np.int32(score[p + 1] - lost)
                value, origin = score[p], start[p]
                origin = start[p - 1] if below > value else origin
                value = below if below > value else value
                origin = start[p + 1] if above > value else origin
                value = above if above > value else value
                origin = here if value <= zero else origin
                value = zero if value <= zero else value
                gain = won if sign[p - 1] > 0 else zero
                gain = failed if sign[p - 1] < 0 else gain
                ahead[p] = value + gain
                begun[p] = origin
            score, ahead = ahead, score
            start, begun = begun, start
            top = np.int32(0)
            for p in range(1, period + 1):
                top = max(top, score[p])
            if top > found[b, 0]:
                place = np.argmax(score[1 : period + 1]) + 1
                found[b, 0], found[b, 1], found[b, 2] = top, start[place], i + 1
