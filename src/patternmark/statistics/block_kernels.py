"""The forward pass of `block_paths`, compiled by numba: the same sums.

Positions of a chain stand side by side, so that one instruction works on many of them.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

_RESCALE = 4  # blocks between rescalings: no factor of so few leaves the range of a float
_LARGE = np.float64(2.0**256)
_SMALL = np.float64(2.0**-256)


_FAST = {"contract", "reassoc", "nsz", "arcp"}


@njit(cache=True, fastmath=_FAST, error_model="numpy")
def _multiply(product, factor, first, last):
    for k in range(first, last):
        product[k] *= factor[k]


@njit(cache=True, fastmath=_FAST, error_model="numpy")
def _add_products(after, product, state, weight, first, last):
    for k in range(first, last):
        after[k] += product[k] * (state[k] * weight[k])


@njit(cache=True, fastmath=_FAST, error_model="numpy")
def _add_entering(after, product, weight, prior, first, last):
    for k in range(first, last):
        after[k] += prior * (product[k] * weight[k])


@njit(cache=True, fastmath=_FAST, error_model="numpy")
def _block(row, letters, even, odd, low, high, full, part, prior, state, after, factor, product):
    """Add up the pieces that one block of one nonce may see."""
    n, longest = len(letters), len(full) - 1
    for i in range(low, high):
        factor[i] = even[i] + odd[i] * row[letters[i]]
    product[low : high + 1] = np.float64(1.0)
    after[low : high + 1] = np.float64(0.0)
    _add_products(after, product, state, full[0], low, min(high + 1, n))
    for length in range(1, min(longest, high - low) + 1):
        # Arrays are shifted, so that what belongs together has one index.
        ends, begins = low + length, low
        size = high + 1 - ends
        _multiply(product[ends:], factor[begins:], 0, size)
        _add_products(after[ends:], product[ends:], state[begins:], full[length, ends:], 0, size)
        if prior > 0.0:
            _add_entering(after[ends:], product[ends:], part[length, ends:], prior, 0, size)


@njit(cache=True, error_model="numpy")
def _largest(state, low, high):
    largest = np.float64(0.0)
    for k in range(low, high + 1):
        largest = max(largest, state[k])
    return largest


@njit(cache=True, error_model="numpy")
def _one_nonce(halves, letters, even, odd, block, full, part, first, prior, drift, leave, unmarked):
    """Return the total of one nonce, and the power of two it is to be times."""
    n, longest = len(letters), len(full) - 1
    state = np.zeros(n + 1, dtype=np.float64)
    after = np.zeros(n + 1, dtype=np.float64)
    factor = np.zeros(n + 1, dtype=np.float64)
    product = np.zeros(n + 1, dtype=np.float64)
    state[:] = first
    total, exponent, scale = unmarked, 0, 1.0
    last = -1  # the last position of `state` that was written
    for j in range(len(halves)):
        low = max(0, j * block - drift) if drift >= 0 else 0
        high = min(n, j * block + drift + longest) if drift >= 0 else n
        if low >= n:
            break
        if leave > 0.0:
            left = 0.0
            for k in range(n):
                left += state[k]
                state[k] *= np.float64(1.0 - leave)
            total += leave * left
        if j > 0:
            for k in range(last + 1, high + 1):
                state[k] = np.float64(0.0)
        entering = np.float64(prior[j] * scale)
        _block(
            halves[j], letters, even, odd, low, high, full, part, entering, state, after, factor,
            product,
        )  # fmt: skip
        if high == n:
            total += after[n]
            after[n] = np.float64(0.0)
        state, after = after, state
        last = high
        if j % _RESCALE == _RESCALE - 1:
            largest = max(_largest(state, low, high), total)
            if largest > _LARGE or 0.0 < largest < _SMALL:
                shift = int(np.floor(np.log2(largest)))
                down = 2.0 ** (-shift)
                for k in range(low, high + 1):
                    state[k] *= np.float64(down)
                total *= down
                scale *= down
                exponent += shift
    return total, exponent


@njit(cache=True, error_model="numpy")
def _every_nonce(halves, letters, even, odd, block, full, part, first, prior, drift, leave, bare):
    totals = np.empty(len(halves))
    exponents = np.empty(len(halves), dtype=np.int64)
    for r in range(len(halves)):
        totals[r], exponents[r] = _one_nonce(
            halves[r], letters, even, odd, block, full, part, first, prior, drift, leave, bare
        )
    return totals, exponents


def add_up(halves, letters, even, odd, block, full, part, first, prior, drift, leave, unmarked):
    """Do what `block_paths._add_up` does."""
    single = [np.ascontiguousarray(a, dtype=np.float64) for a in (even, odd, full, part, first)]
    return _every_nonce(
        np.ascontiguousarray(halves), np.asarray(letters, dtype=np.int64), *single[:2], block,
        *single[2:], prior, drift, leave, unmarked,
    )  # fmt: skip
