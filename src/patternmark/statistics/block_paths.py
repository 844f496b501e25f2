"""Sum the likelihood ratio of a block mark over every way a chain may lie on its blocks.

A block mark promotes one half of the letters for a few positions, then the next half. Along one
path each block sees a *piece* of the chain. Letters come in pairs, and one secret coin x = +1 or -1
per block and pair says which letter of the pair is promoted. With w the log-odds that a marked
letter agrees with its coin, signed towards the first letter of its pair, and S_p the sum of these
over the letters of pair p in the piece, the ratio of a piece is

    W = likelihood under the coins / its mean over both values of every coin
      = product over p of  exp(x_p S_p / 2) / cosh(S_p / 2).

The mean of W over the key is 1 for *every* piece, because coins are independent and fair. A path
meets each block once, so the product of its pieces has mean 1 too, and so has any average over
paths, strengths, nonces and chains. The average E is an e-value for any chain whatever: repeats,
one letter over and over, a chain marked by another key, a chain written on purpose.

Lost and inserted letters change the length of a piece: each position of a block is lost or doubled
with probability slip / 2. `ratios` adds up all paths, position by position and block by block. It
is a forward pass of a semi-Markov chain: the state after block j is where in the chain it ended.
The denominators depend on the chain alone, so they are computed once for all keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.compiled import kernels

Floats = NDArray[np.float64]

Begins = Literal["start", "anywhere", "inside"]
FIRST_POSITIONS = 384  # a piece cut out of a design begins within this many positions of its start
ENTER, LEAVE = (
    1 / 256,
    1 / 64,
)  # chance per position, and per block, that a marked stretch begins, ends
AT_START = 0.5  # share of stretches that begin with the first block, such as a design after a tag
_SMALLEST_SHARE = 1e-5  # lengths of a piece that are rarer than this are left out
_DRIFTS = 5.0  # standard deviations of drift that are followed from a known start


@dataclass(frozen=True)
class Component:
    """One kind of marked chain: how strong the mark is, and what happened to the chain.

    It begins at the "start" of the schedule, "anywhere" in it (a piece that was cut out), or a
    marked stretch lies somewhere "inside" the chain.
    """

    level: int  # of strength: which row of the weights
    slip: float  # the share of positions lost or doubled
    begins: Begins = "start"


class PieceLaw(NamedTuple):
    """Probabilities of the lengths 0..L of a piece: [L + 1] each."""

    whole: Floats  # a block that begins where the piece begins
    whole_or_longer: Floats
    rest: Floats  # what is left of a block from a random place in it
    rest_or_longer: Floats

    @property
    def longest(self) -> int:
        return len(self.whole) - 1


@lru_cache(256)
def piece_law(block: int, slip: float) -> PieceLaw:
    """Return the law of piece lengths where each position is lost or doubled by chance.

    >>> piece_law(2, 0.0).whole.tolist(), piece_law(2, 0.0).rest.tolist()
    ([0.0, 0.0, 1.0], [0.0, 0.5, 0.5])
    """
    one = np.array([slip / 2, 1.0 - slip, slip / 2])
    whole, rest = np.array([1.0]), np.zeros(2 * block + 1)
    for _ in range(block):
        whole = np.convolve(whole, one)
        rest[: len(whole)] += whole / block
    longest = int(np.flatnonzero(whole > _SMALLEST_SHARE)[-1])
    parts = []
    for law in (whole, rest):
        tails = np.cumsum(law[::-1])[::-1]
        parts += [np.where(law > _SMALLEST_SHARE, law, 0.0)[: longest + 1], tails[: longest + 1]]
    return PieceLaw(*parts)


class Chain(NamedTuple):
    """What a chain shows: its letters, and how much each weighs.

    `weights` [levels, n] are log-odds of agreement, 0 where a letter is not scored; `pair` and
    `side` [n] say to which pair a letter belongs and whether it is the first (+1) or second (-1).
    """

    letters: NDArray[np.int64]
    weights: Floats
    pair: NDArray[np.int64]
    side: NDArray[np.int64]

    @property
    def length(self) -> int:
        return len(self.letters)


def num_blocks(length: int, block: int, components: Sequence[Component]) -> int:
    """Return how many blocks of a schedule chains of a length may reach."""
    return max(_last_block(length, block, component) for component in components)


def _last_block(length: int, block: int, component: Component) -> int:
    first = 0 if component.begins == "start" else FIRST_POSITIONS // block
    return first + -(-(length + _drift(length, block, component.slip)) // block) + 1


def _drift(length: int, block: int, slip: float) -> int:
    """Return how far lost and doubled letters may move a chain against its schedule."""
    return block + ceil(_DRIFTS * sqrt(slip * length))


def inverse_means(chain: Chain, level: int, longest: int) -> Floats:
    """Return 1 / prod cosh(S_p / 2) of the pieces that end at each position: [longest + 1, n + 1].

    Row l, column k is the piece of l letters that ends before letter k; pieces that would begin
    before the chain are 0.
    """
    n = chain.length
    signed = chain.weights[level] * chain.side / 2.0
    sums = np.zeros((int(chain.pair.max(initial=0)) + 1, n + 1))  # per pair, of the piece so far
    cosh = np.ones(n + 1)
    result = np.zeros((longest + 1, n + 1))
    result[0] = 1.0
    ends = np.arange(n + 1)
    for length in range(1, min(longest, n) + 1):
        k = ends[length:]
        added = k - length  # the letter that makes the piece one longer, at its front
        before = sums[chain.pair[added], k]
        after = before + signed[added]
        cosh[length:] *= np.cosh(after) / np.cosh(before)
        sums[chain.pair[added], k] = after
        result[length, length:] = 1.0 / cosh[length:]
    return result


class _Rule(NamedTuple):
    """A component laid out for one chain: what the forward pass multiplies with."""

    full: Floats  # [L + 1, n + 1] denominators times the law of a whole block
    part: Floats  # ... times the law of a block's rest and of entering where the piece begins
    entering_first: Floats  # [n + 1] probability to enter the first block at a position
    prior: Floats  # [J] probability to enter the middle of each block
    drift: int  # -1: every position is followed
    leave: float
    unmarked: float  # probability that the chain carries no mark at all


def _rule(chain: Chain, block: int, component: Component, means: Floats, blocks: int) -> _Rule:
    n, law = chain.length, piece_law(block, component.slip)
    means = means[: law.longest + 1]
    full, part = means * law.whole[:, None], means * law.rest[:, None]
    full[:, n] = means[:, n] * law.whole_or_longer  # the chain ends inside a block
    part[:, n] = means[:, n] * law.rest_or_longer
    prior, entering_first = np.zeros(blocks), np.zeros(n + 1)
    at = np.zeros(n + 1)
    drift, leave, unmarked = -1, 0.0, 0.0
    if component.begins == "start":
        entering_first[0] = 1.0
        drift = _drift(n, block, component.slip)
    else:
        first = FIRST_POSITIONS // block
        prior[:first] = 1.0 / first
        at[0] = 1.0
    if component.begins == "inside":
        at[:n] = ENTER * (1.0 - ENTER) ** np.arange(n)
        at[n] = 0.0
        entering_first = AT_START * at
        prior *= 1.0 - AT_START
        leave, unmarked = LEAVE, float((1.0 - ENTER) ** n)
    for length in range(
        min(law.longest, n) + 1
    ):  # a piece of this length that ends at k entered at k - l
        entered = np.zeros(n + 1)
        entered[length:] = at[: n + 1 - length]
        part[length] *= entered
    part[0] = 0.0
    return _Rule(full, part, entering_first, prior, drift, leave, unmarked)


def log_ratios(
    chain: Chain, halves: NDArray[np.int8], block: int, components: Sequence[Component]
) -> Floats:
    """Return ln of the ratio of every nonce and component: [R, C].

    `halves` [R, J, V] are +1 where a block of a nonce promotes a letter and -1 where it does not.
    """
    nonces, blocks = halves.shape[:2]
    result = np.zeros((nonces, len(components)))
    if not np.any(chain.weights):
        return result
    longest = max(piece_law(block, c.slip).longest for c in components)
    means = {c.level: inverse_means(chain, c.level, longest) for c in components}
    for number, component in enumerate(components):
        half = chain.weights[component.level] / 2.0
        last = min(blocks, _last_block(chain.length, block, component))
        rule = _rule(chain, block, component, means[component.level], last)
        factors = np.cosh(half), np.sinh(half)
        loops = kernels(
            8 * nonces * last * chain.length, last, "patternmark.statistics.block_kernels"
        )
        add_up = _add_up if loops is None else loops.add_up
        totals, exponents = add_up(halves[:, :last], chain.letters, *factors, block, *rule)
        with np.errstate(divide="ignore"):
            result[:, number] = np.log(totals) + exponents * np.log(2.0)
    return result


def _add_up(
    halves: NDArray[np.int8],
    letters: NDArray[np.int64],
    even: Floats,
    odd: Floats,
    block: int,
    full: Floats,
    part: Floats,
    entering_first: Floats,
    prior: Floats,
    drift: int,
    leave: float,
    unmarked: float,
) -> tuple[Floats, NDArray[np.int64]]:
    """Run the forward pass in numpy: totals [R], and the powers of two they are to be times."""
    nonces, blocks = halves.shape[:2]
    n, longest = len(letters), len(full) - 1
    state = np.tile(entering_first, (nonces, 1))  # [R, n + 1] where the next block begins
    total = np.full(nonces, unmarked)
    exponent = np.zeros(nonces, dtype=np.int64)
    for j in range(blocks):
        low = max(0, j * block - drift) if drift >= 0 else 0
        high = min(n, j * block + drift + longest) if drift >= 0 else n
        if low >= n:
            break
        if leave:
            total += leave * state[:, :n].sum(axis=1)
            state *= 1.0 - leave
        factor = even[low:high] + odd[low:high] * halves[:, j, letters[low:high]]  # [R, width]
        after = np.zeros_like(state)
        after[:, low:n] = state[:, low:n] * full[0, low:n]
        product = np.ones((nonces, high - low + 1))  # of the piece that ends at low, low + 1, ...
        entered = prior[j] * np.exp2(-exponent.astype(np.float64))[:, None]
        for length in range(1, min(longest, high - low) + 1):
            ends = slice(low + length, high + 1)
            product[:, length:] *= factor[:, : high - low + 1 - length]
            begun = state[:, low : high + 1 - length] * full[length, ends]
            if prior[j]:
                begun += entered * part[length, ends]
            after[:, ends] += product[:, length:] * begun
        total += after[:, n]
        after[:, n] = 0.0
        state = after
        shift = np.frexp(np.maximum(state.max(axis=1), total))[1]
        large = np.abs(shift) > 256
        if large.any():
            shift = np.where(large, shift, 0)
            state = np.ldexp(state, -shift[:, None])
            total = np.ldexp(total, -shift)
            exponent += shift
    return total, exponent
