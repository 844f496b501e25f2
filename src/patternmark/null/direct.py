"""The count's distribution by dynamic programming: only sums and products of probabilities.

Nothing is ever subtracted, so every entry keeps its relative accuracy (about n * 1e-16). This is
the paper's Algorithm 3 on the smallest set of states, a few keys and all counts at a time; one
pass to the longest n yields the distribution for *every* n up to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.null.automaton import CountingChain

_STRIDE = 8  # keys per matrix product: fewer products, a little more arithmetic in each


def distributions(chain: CountingChain, longest: int) -> NDArray[np.float64]:
    """Return P(count = c) after n keys, for all n <= longest: [longest + 1, longest + 1]."""
    if not chain.is_small:
        return _distributions_by_moves(chain, longest)
    S, q = chain.num_states, _STRIDE
    kernel = _stride_kernel(chain)
    rows = np.zeros((longest + q, longest + q))
    rows[0, 0] = 1.0
    state = np.zeros((S, longest + 2 * q))  # [S, counts] after n keys, from n = 1
    state[:, 0] = chain.start_miss
    state[:, 1] = chain.start_hit
    for n in range(1, longest + 1, q):
        width = min(n + q, longest + q)  # counts 0 .. n + q - 1: at most one a key
        shifted = np.zeros((q + 1, S, width))  # what was q keys ago, d hits further on
        for d in range(min(q + 1, width)):
            shifted[d, :, d:] = state[:, : width - d]
        product = kernel @ shifted.reshape(-1, width)
        rows[n : n + q, :width] = product[:q]
        state[:, :width] = product[q:]
    return rows[: longest + 1, : longest + 1]


def _distributions_by_moves(chain: CountingChain, longest: int) -> NDArray[np.float64]:
    """The same for a large set of states: key by key, along the moves alone."""
    rows = np.zeros((longest + 1, longest + 1))
    rows[0, 0] = 1.0
    state = np.zeros((longest + 2, chain.num_states))  # [counts, S]
    state[0] = chain.start_miss
    state[1] = chain.start_hit
    for n in range(1, longest + 1):
        rows[n, : n + 1] = state[: n + 1].sum(axis=1)
        gained = chain.move(state[: n + 1], chain.probability * chain.is_hit)
        state[: n + 1] = chain.move(state[: n + 1], chain.probability * ~chain.is_hit)
        state[1 : n + 2] += gained
    return rows


def tail_from(row: NDArray[np.float64], count: int) -> float:
    """Return P(C >= count), the smallest terms added first."""
    return float(np.sum(row[count:][::-1]))


def _stride_kernel(chain: CountingChain) -> NDArray[np.float64]:
    """Return the matrix that maps states and hits gained to what comes next: [q + S, (q+1) * S].

    Rows 0..q-1 give the total probability 0..q-1 keys later, the other S rows the states q keys
    later. Column (d, s) is the weight of having left state s and made d hits since.
    """
    S, q = chain.num_states, _STRIDE
    kernel = np.zeros((q + S, q + 1, S))
    power = np.zeros((q + 1, S, S))  # coefficient of z^d in (miss + z hit)^j, here for j = 0
    power[0] = np.eye(S)
    for j in range(q):
        kernel[j] = power.sum(axis=2)
        gained = power @ chain.hit
        power = power @ chain.miss
        power[1:] += gained[:-1]
    kernel[q:] = power.transpose(2, 0, 1)
    return kernel.reshape(q + S, (q + 1) * S)
