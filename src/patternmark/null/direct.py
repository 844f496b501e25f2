"""The count's distribution by dynamic programming: only sums and products of probabilities.

Nothing is ever subtracted, so every entry keeps its relative accuracy (about n * 1e-16). This is
the paper's Algorithm 3 on the smallest set of states, a few keys and all counts at a time; one
pass to the longest n yields the distribution for *every* n up to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from patternmark.null.automaton import CountingChain

_STRIDE = 8  # keys per matrix product: fewer products, a little more arithmetic in each
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
    """Return P(C >= count), the smallest terms added first."""
    return float(np.sum(row[count:][::-1]))


def log_tail(chain: CountingChain, lengths: dict[int, int], count: int, tilt: float) -> float:
    """Return ln P(C >= count) over segments: {length: how many}.

    Counts are weighted with e^(tilt * count) on the way, so that those that matter stay far from
    underflow; what is left of them is taken back at the end.
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
    """Return about how many operations `log_tail` takes."""
    moves = chain.num_states**2 if chain.is_small else 4 * len(chain.source)
    return sum(n * n * moves for n in lengths) + float(sum(n * t for n, t in lengths.items())) ** 2


def _tilted_row(
    chain: CountingChain, length: int, tilt: float
) -> tuple[NDArray[np.float64], float]:
    """Return e^(tilt c) P(C = c) after `length` keys up to a factor, and the factor's logarithm."""
    for n, made, log_scale in _passes(chain, length, tilt):
        if n <= length < n + len(made):
            row = made[length - n, : length + 1]
            # Every key has weighed e^-tilt less than it should (see _passes).
            return row, log_scale + length * max(tilt, 0.0)
    raise AssertionError("the passes end at the length")


def _passes(
    chain: CountingChain, longest: int, tilt: float
) -> Iterator[tuple[int, NDArray[np.float64], float]]:
    """Yield (n, rows for n, n + 1, ... keys, ln of the factor taken out of them).

    Hits weigh e^tilt more than misses. With a tilt every key is divided by e^tilt and the state by
    a power of two now and then; without one the rows are probabilities as they are.
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
        shifted = np.zeros((q + 1, S, width))  # what was q keys ago, d hits further on
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
    """The same for a large set of states: key by key, along the moves alone."""
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
    """Return the matrix that maps states and hits gained to what comes next: [q + S, (q+1) * S].

    Rows 0..q-1 give the total probability 0..q-1 keys later, the other S rows the states q keys
    later. Column (d, s) is the weight of having left state s and made d hits since.
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
