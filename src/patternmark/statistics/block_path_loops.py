"""The forward pass of `block_paths`, compiled by numba: the same sums.

One vector instruction works on several neighbouring positions of a chain. All pieces that end at a
position are added up together: their possible lengths are known when the loop is compiled.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_RESCALE_EVERY = 4  # blocks between rescalings: the factors of four blocks fit the range of a float
_MAX_STATE = np.float64(2.0**256)  # the largest value, and the smallest, that is not rescaled
_MIN_STATE = np.float64(2.0**-256)
_FAST_MATH = {"contract", "nsz", "arcp"}


_VECTOR_LENGTH = 8  # ends of pieces that one instruction works on
_GUARD = 16  # unused entries before and after a row: vectors and pieces may reach beyond its ends
_FUSED = ("contract",)
_NUMBERS = ir.VectorType(ir.DoubleType(), _VECTOR_LENGTH)
_INDEX = ir.IntType(64)


def _ends_of(longest):
    """Return a function that adds up the pieces of up to `longest` letters that end at 8 positions.

    It uses LLVM's vectors directly, because the compiler cannot know that rows never overlap.
    """

    @intrinsic
    def ends(typing, state, after, factor, full, width, k):
        """Write after[k : k + 8]; `full` has rows of `width`, one for each length."""
        del typing

        def generate(context, builder, signature, arguments):
            rows = [
                context.make_array(signature.args[i])(context, builder, arguments[i]).data
                for i in range(4)
            ]
            width, k = arguments[4:]

            def place(row, index):
                return builder.bitcast(builder.gep(rows[row], [index]), _NUMBERS.as_pointer())

            def load(row, index):
                found = builder.load(place(row, index))
                found.align = 8  # an index need not be a multiple of the vector length
                return found

            total = builder.fmul(load(0, k), load(3, k))
            product, weight = None, k
            for length in range(1, longest + 1):
                begin = builder.sub(k, ir.Constant(_INDEX, length))
                weight = builder.add(weight, width)
                here = load(2, begin)
                product = here if product is None else builder.fmul(product, here)
                begun = builder.fmul(load(0, begin), load(3, weight))
                more = builder.fmul(product, begun, flags=_FUSED)
                total = builder.fadd(total, more, flags=_FUSED)
            builder.store(total, place(1, k)).align = 8
            return context.get_dummy_value()

        index = types.int64
        return types.void(state, after, factor, full, index, index), generate

    return ends


_ends_1, _ends_2, _ends_3, _ends_4, _ends_5, _ends_6, _ends_7, _ends_8 = (
    _ends_of(longest) for longest in range(1, 9)
)


@njit(cache=True, fastmath=_FAST_MATH, error_model="numpy")
def _pieces(state, after, factor, full, low, high):
    """Add up the pieces of any length that end at low..high."""
    for k in range(low, high + 1):
        total = state[k] * full[0, k]
        product = 1.0
        for length in range(1, min(len(full) - 1, k - low) + 1):
            product *= factor[k - length]
            total += product * (state[k - length] * full[length, k])
        after[k] = total


@njit(cache=True, fastmath=_FAST_MATH, error_model="numpy")
def _entering(after, factor, part, prior, low, last, product):
    """Add the pieces with which a chain or a stretch begins in the middle of a block."""
    last = min(last, part.shape[1])
    product[low:last] = prior
    for length in range(1, len(part)):
        for k in range(low + length, last):
            product[k] *= factor[k - length]
            after[k] += product[k] * part[length, k]


@njit(cache=True, error_model="numpy")
def _block(state, after, factor, full, low, high):
    """Add up all pieces of one block."""
    width = np.int64(full.shape[1])
    longest, flat = len(full) - 1, full.reshape(-1)
    if longest > 8:
        _pieces(state, after, factor, full, low, high)
        return
    for k in range(low, high + 1, _VECTOR_LENGTH):
        if longest == 6:
            _ends_6(state, after, factor, flat, width, k)
        elif longest == 5:
            _ends_5(state, after, factor, flat, width, k)
        elif longest == 4:
            _ends_4(state, after, factor, flat, width, k)
        elif longest == 3:
            _ends_3(state, after, factor, flat, width, k)
        elif longest == 2:
            _ends_2(state, after, factor, flat, width, k)
        elif longest == 1:
            _ends_1(state, after, factor, flat, width, k)
        elif longest == 7:
            _ends_7(state, after, factor, flat, width, k)
        else:
            _ends_8(state, after, factor, flat, width, k)


@njit(cache=True, error_model="numpy")
def _largest(state, low, high):
    largest = np.float64(0.0)
    for k in range(low, high + 1):
        largest = max(largest, state[k])
    return largest


@njit(cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def _leave(state, low, high, leave):
    left = 0.0
    for k in range(low, high + 1):
        left += state[k]
        state[k] *= 1.0 - leave
    return leave * left


@njit(cache=True, error_model="numpy")
def _one_nonce(
    signs, letters, even, odd, behind, ahead, stride, full, part, first, prior, leave, unmarked, own
):
    """Return the total of one nonce as a number and the exponent of a power of two.

    Rows begin with `_GUARD` unused entries, so position k of the chain has index k + _GUARD.
    """
    n, longest = len(letters) - 2 * _GUARD, len(full) - 1
    state, after, factor, product = own[0], own[1], own[2], own[3]
    own[:] = 0.0
    begin = max(0, int(np.ceil(-(ahead + longest) / stride)))  # earlier blocks end before the chain
    if begin == 0:
        state[:] = first
    total, exponent, scale = unmarked, 0, 1.0
    first_held, last = _GUARD, _GUARD + n  # the range of `state` that is in use
    for j in range(begin, len(prior)):
        expected = int(j * stride)
        low, high = max(0, expected - behind), min(n, expected + ahead + longest)
        if low >= n:
            break
        if high < low:
            continue
        low, high = low + _GUARD, high + _GUARD
        state[max(0, min(first_held, low - longest)) : low] = 0.0
        state[min(last, high) + 1 : max(last, high) + 1] = 0.0
        if leave > 0.0:
            total += _leave(state, low, high, leave)
        row = signs[j]
        for i in range(low, high):
            factor[i] = even[i] + odd[i] * row[letters[i]]
        _block(state, after, factor, full, low, high)
        entering = prior[j] * scale
        if entering > 0.0 and low < part.shape[1]:
            _entering(after, factor, part, entering, low, high + 1, product)
        if high == n + _GUARD:
            total += after[high]
            after[high] = 0.0
        state, after = after, state
        first_held, last = low, high
        if j % _RESCALE_EVERY == _RESCALE_EVERY - 1:
            largest = max(_largest(state, low, high), total)
            if largest > _MAX_STATE or 0.0 < largest < _MIN_STATE:
                shift = int(np.floor(np.log2(largest)))
                down = 2.0 ** (-shift)
                for k in range(low, high + 1):
                    state[k] *= down
                total *= down
                scale *= down
                exponent += shift
    return total, exponent


@njit(cache=True, error_model="numpy")
def _add_guards(rows):
    found = np.zeros((len(rows), rows.shape[1] + 2 * _GUARD), dtype=rows.dtype)
    found[:, _GUARD : _GUARD + rows.shape[1]] = rows
    return found


@njit(cache=True, error_model="numpy")
def _some_nonces(
    halves, which, letters, even, odd, behind, ahead, stride, full, part, first, prior, leave, bare
):
    totals = np.empty(len(which))
    exponents = np.empty(len(which), dtype=np.int64)
    n = len(letters)
    chain = _add_guards(letters.reshape(1, n))[0].astype(np.uint64)  # unsigned: no sign check
    factors = _add_guards(np.concatenate((even, odd)).reshape(2, n))
    full, begun = _add_guards(full), _add_guards(first.reshape(1, n + 1))[0]
    if part.shape[1] > 0:
        part = _add_guards(part)[:, : part.shape[1] + _GUARD]
    own = np.empty((4, n + 1 + 2 * _GUARD))
    signs = np.empty((len(prior), halves.shape[2]))
    for w in range(len(which)):
        signs[:] = halves[which[w], : len(prior)]
        totals[w], exponents[w] = _one_nonce(
            signs, chain, factors[0], factors[1], behind, ahead, stride, full, part, begun, prior,
            leave, bare, own,
        )  # fmt: skip
    return totals, exponents


def add_up(halves, which, letters, even, odd, band, rule):
    """Do what `block_paths._add_up` does."""
    return _some_nonces(halves, which, letters, even, odd, *band, *rule)


@njit(cache=True, error_model="numpy")
def _inverse_means(signed, root, pair, longest):
    n = len(signed)
    result = np.zeros((longest + 1, n + 1))
    result[0] = 1.0
    before = np.empty(n)
    for length in range(1, min(longest, n) + 1):
        size = n + 1 - length
        before[:size] = 1.0
        for later in range(1, length):  # the inner loop runs over the chain, so it is vectorised
            for added in range(size):
                same = pair[added + later] == pair[added]
                before[added] *= signed[added + later] if same else 1.0
        for added in range(size):
            ratio = (1.0 + before[added]) / (1.0 + before[added] * signed[added]) * root[added]
            result[length, added + length] = result[length - 1, added + length] * ratio
    return result


def inverse_means(chain, level, longest):
    """Do what `block_paths.inverse_means` does."""
    signed = np.exp(chain.weights[level] * chain.side)
    return _inverse_means(signed, np.sqrt(signed), chain.pair, longest)
