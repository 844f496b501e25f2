"""The count's distribution by dynamic programming: only sums and products of probabilities.

Nothing is ever subtracted, so every entry keeps its relative accuracy (about n * 1e-16). This is
the paper's Algorithm 3 on the smallest set of states, for a few keys and all counts at a time. One
pass to the largest n gives the distribution for *every* n up to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from patternmark.null.automaton import CountingChain

_STRIDE = 8  # keys per matrix product: more keys mean fewer products, but larger ones
_LN2 = log(2.0)


def distributions(chain: CountingChain, longest: int) -> NDArray[np.float64]:
    """Return P(count = c) after n keys, for all n <= longest: [longest + 1, longest + 1]."""
    rows = np.zeros((longest + 1, longest + 1))
    rows[0, 0] = 1.0
    for n, made, _ in _passes(chain, longest, 0.0):
        reach = min(len(made), longest + 1 - n)
        width = min(made.shape[1], longest + 1)
        rows[n : n + reach, :width] = made[:reach, :width]
    return rows


def tail_from(row: NDArray[np.float64], count: int) -> float:
    """Return P(C >= count), adding the smallest terms first."""
    return float(np.sum(row[count:][::-1]))


def log_tail(chain: CountingChain, lengths: dict[int, int], count: int, tilt: float) -> float:
    """Return ln P(C >= count) over segments: {length: number of segments}.

    During the computation counts are weighted with e^(tilt * count), so that important ones do not
    underflow; the weights are removed at the end.
    """
    total, log_scale = np.ones(1), 0.0
    for length, times in lengths.items():
        row, scale = _tilted_row(chain, length, tilt)
        for _ in range(times):
            total = np.convolve(total, row)
            largest = float(total.max())
            total /= largest
            log_scale += scale + log(largest)
    weights = np.exp(-tilt * np.arange(len(total) - count))
    return log(float(np.sum((total[count:] * weights)[::-1]))) + log_scale - tilt * count


def work(chain: CountingChain, lengths: dict[int, int]) -> float:
    """Return roughly the number of operations that `log_tail` needs."""
    moves = chain.num_states**2 if chain.is_small else 4 * len(chain.source)
    return sum(n * n * moves for n in lengths) + float(sum(n * t for n, t in lengths.items())) ** 2


def _tilted_row(
    chain: CountingChain, length: int, tilt: float
) -> tuple[NDArray[np.float64], float]:
    """Return e^(tilt c) P(C = c) after `length` keys, divided by a factor, and ln of the factor."""
    for n, made, log_scale in _passes(chain, length, tilt):
        if n <= length < n + len(made):
            row = made[length - n, : length + 1]
            # Every key was divided by e^tilt (see _passes).
            return row, log_scale + length * max(tilt, 0.0)
    raise AssertionError("the passes end before `length`")


def _passes(
    chain: CountingChain, longest: int, tilt: float
) -> Iterator[tuple[int, NDArray[np.float64], float]]:
    """Yield (n, rows for n, n + 1, ... keys, ln of the factor that the rows were divided by).

    The weight of a hit is e^tilt times that of a miss. With a positive tilt every key is divided by
    e^tilt, and with any tilt the state is divided by powers of two. Without a tilt the rows are
    plain probabilities.
    """
    hit, miss = exp(min(tilt, 0.0)), exp(-max(tilt, 0.0))
    if not chain.is_small:
        yield from _passes_by_moves(chain, longest, hit, miss, scaled=tilt != 0.0)
        return
    S, q = chain.num_states, _STRIDE
    kernel = _stride_kernel(chain.miss * miss, chain.hit * hit)
    state = np.zeros((S, longest + 2 * q + 1))  # [S, counts] after n keys, from n = 1
    state[:, 0], state[:, 1] = chain.start_miss * miss, chain.start_hit * hit
    exponent = 0
    for n in range(1, longest + 1, q):
        width = n + q + 1  # after q more keys the count is at most n + q
        shifted = np.zeros((q + 1, S, width))  # the state q keys ago, with d more hits
        for d in range(q + 1):
            shifted[d, :, d:] = state[:, : width - d]
        product = kernel @ shifted.reshape(-1, width)
        yield n, product[:q], exponent * _LN2
        state[:, :width] = product[q:]
        if tilt != 0.0:
            shift = int(np.frexp(product[q:].max())[1])
            state *= 2.0**-shift
            exponent += shift


def _passes_by_moves(
    chain: CountingChain, longest: int, hit: float, miss: float, *, scaled: bool
) -> Iterator[tuple[int, NDArray[np.float64], float]]:
    """Do what `_passes` does for many states: key by key, along the list of moves."""
    hits, misses = chain.probability * chain.is_hit * hit, chain.probability * ~chain.is_hit * miss
    state = np.zeros((longest + 2, chain.num_states))  # [counts, S]
    state[0], state[1] = chain.start_miss * miss, chain.start_hit * hit
    exponent = 0
    for n in range(1, longest + 1):
        yield n, state[: n + 1].sum(axis=1)[None], exponent * _LN2
        gained = chain.move(state[: n + 1], hits)
        state[: n + 1] = chain.move(state[: n + 1], misses)
        state[1 : n + 2] += gained
        if scaled:
            shift = int(np.frexp(state.max())[1])
            state *= 2.0**-shift
            exponent += shift


def _stride_kernel(miss: NDArray[np.float64], hit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix of a stride of q keys: [q + S, (q+1) * S].

    Rows 0..q-1 give the total probability 0..q-1 keys later, the other S rows the states q keys
    later. Column (d, s) is the weight of starting in state s and making d hits.
    """
    S, q = len(miss), _STRIDE
    kernel = np.zeros((q + S, q + 1, S))
    power = np.zeros((q + 1, S, S))  # coefficient of z^d in (miss + z hit)^j, here for j = 0
    power[0] = np.eye(S)
    for j in range(q):
        kernel[j] = power.sum(axis=2)
        gained = power @ hit
        power = power @ miss
        power[1:] += gained[:-1]
    kernel[q:] = power.transpose(2, 0, 1)
    return kernel.reshape(q + S, (q + 1) * S)
