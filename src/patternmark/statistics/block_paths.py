"""Sum the likelihood ratio of a block mark over all paths of a chain along its blocks.

A block mark promotes one half of the letters for a few positions, then the next half. Along one
path each block covers a *piece* of the chain. Letters form pairs, and one secret coin x = +1 or -1
per block and pair says which letter of the pair is promoted. Let w be the log-odds that a marked
letter agrees with its coin, positive for the first letter of a pair and negative for the second,
and S_p the sum of w over the letters of pair p in the piece. The ratio of the piece is

    W = likelihood under the coins / its mean over both values of every coin
      = product over p of  exp(x_p S_p / 2) / cosh(S_p / 2).

The mean of W over the key is 1 for *every* piece, because coins are independent and fair. A path
visits each block once, so the product of its pieces has mean 1 too, and so does any average over
paths, strengths, nonces and chains. The average E is an e-value for any chain at all: repeats, a
single repeated letter, a chain marked by another key, a chain written to deceive.

Lost and inserted letters change the length of a piece: a share `slip` of the positions of a block
is lost or doubled, and one of the two may be more frequent. `log_ratios` adds up all paths,
position by position and block by block. It is a forward pass of a semi-Markov chain: the state
after block j is the place in the chain where the block ended. The denominators depend only on the
chain, so they are computed once for all keys.

All terms are positive. Leaving out nonces, components or paths makes E smaller, so it stays an
e-value. A `Look` says which terms are added up for a chain (`block_screen` chooses them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.fast.compiled import kernels

Floats = NDArray[np.float64]

Begins = Literal["start", "anywhere", "inside"]
FIRST_POSITIONS = 384  # positions of a design within which a piece that is cut out may begin
ENTER, LEAVE = (
    1 / 256,
    1 / 64,
)  # probability that a marked stretch begins at a position, and that it ends after a block
AT_START = 0.5  # share of stretches that begin with the first block, such as a design after a tag
_MIN_LENGTH_SHARE = 1e-5  # rarer lengths of a piece are left out
_MAX_DRIFT = 5.0  # standard deviations by which a path may drift from a known start


@dataclass(frozen=True)
class Component:
    """One kind of marked chain: how strong the mark is, and what happened to the chain.

    The chain begins at the "start" of the schedule, or "anywhere" in it (a piece that was cut
    out), or a marked stretch lies somewhere "inside" the chain.
    """

    level: int  # the strength: which row of the weights
    slip: float  # the share of positions lost or doubled
    begins: Begins = "start"
    growth: float = 0.0  # the share doubled minus the share lost

    @property
    def pace(self) -> float:
        """How many letters of the chain one position of the schedule becomes on average."""
        return 1.0 + self.growth


class PieceLaw(NamedTuple):
    """Probabilities of the lengths 0..L of a piece: [L + 1] each."""

    whole: Floats  # for a whole block
    whole_or_longer: Floats
    rest: Floats  # for the rest of a block from a random position in it
    rest_or_longer: Floats

    @property
    def longest(self) -> int:
        return len(self.whole) - 1


@lru_cache(256)
def piece_law(block: int, slip: float, growth: float = 0.0) -> PieceLaw:
    """Return the law of piece lengths if each position is lost or doubled by chance.

    >>> piece_law(2, 0.0).whole.tolist(), piece_law(2, 0.0).rest.tolist()
    ([0.0, 0.0, 1.0], [0.0, 0.5, 0.5])
    >>> piece_law(2, 0.5, -0.5).whole.tolist()  # half of the positions are lost
    [0.25, 0.5, 0.25]
    """
    one = np.array([(slip - growth) / 2, 1.0 - slip, (slip + growth) / 2])
    whole, rest = np.array([1.0]), np.zeros(2 * block + 1)
    for _ in range(block):
        whole = np.convolve(whole, one)
        rest[: len(whole)] += whole / block
    longest = int(np.flatnonzero(whole > _MIN_LENGTH_SHARE)[-1])
    parts = []
    for law in (whole, rest):
        tails = np.cumsum(law[::-1])[::-1]
        parts += [np.where(law > _MIN_LENGTH_SHARE, law, 0.0)[: longest + 1], tails[: longest + 1]]
    return PieceLaw(*parts)


def law_of(block: int, component: Component) -> PieceLaw:
    """Return the law of the pieces of a component."""
    return piece_law(block, component.slip, component.growth)


@dataclass(frozen=True, eq=False)
class BlockChain:
    """The letters of a chain and their weights.

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

    def first(self, letters: int) -> BlockChain:
        """Return a chain of the first `letters` letters only."""
        some = slice(letters)
        return BlockChain(
            self.letters[some], self.weights[:, some], self.pair[some], self.side[some]
        )


class Look(NamedTuple):
    """Which terms to add up: one component, some nonces, and where the chain may lie.

    Without a `shift` the chain may lie wherever the component allows. With a shift, letter i is
    expected at position i + shift of the schedule, and paths far from there are left out.
    """

    component: int
    nonces: NDArray[np.int64]
    shift: int | None = None


def num_blocks(length: int, block: int, components: Sequence[Component]) -> int:
    """Return how many blocks of a schedule chains of this length may reach."""
    return max(_last_block(length, block, component) for component in components)


def _last_block(length: int, block: int, component: Component) -> int:
    first = 0 if component.begins == "start" else FIRST_POSITIONS // block
    positions = (length + _drift(length, block, component)) / component.pace
    return first + ceil(positions / block) + 1


def _drift(length: int, block: int, component: Component) -> int:
    """Return how far lost and doubled letters may move a chain against its schedule."""
    variance = component.slip - component.growth**2  # of the number of letters per position
    return block + ceil(_MAX_DRIFT * sqrt(variance * length / component.pace))


class Band(NamedTuple):
    """Where block j may begin in the chain: from stride * j - behind to stride * j + ahead."""

    behind: int
    ahead: int
    stride: float  # average number of letters per block


def _band(length: int, block: int, component: Component, shift: int | None) -> Band:
    drift, stride = _drift(length, block, component), block * component.pace
    if shift is not None:
        return Band(shift + drift, drift - shift, stride)
    if component.begins == "start":
        return Band(drift, drift, stride)
    first = int(FIRST_POSITIONS // block * stride)
    if component.begins == "anywhere":
        return Band(first + drift, drift, stride)
    # A stretch may begin at any letter.
    return Band(first + length + drift + 4 * block, length, stride)


def inverse_means(chain: BlockChain, level: int, longest: int) -> Floats:
    """Return 1 / prod cosh(S_p / 2) of the pieces that end at each position: [longest + 1, n + 1].

    Row l, column k is for the piece of l letters that ends before letter k; it is 0 if that piece
    would begin before the chain.
    """
    n = chain.length
    result = np.zeros((longest + 1, n + 1))
    result[0] = 1.0
    signed = np.exp(chain.weights[level] * chain.side)
    for length in range(1, min(longest, n) + 1):
        added = np.arange(n + 1 - length)  # the first letter of the piece, which is added to it
        before = np.ones(n + 1 - length)  # exp S_p of its pair p without this letter
        for later in range(1, length):
            same = chain.pair[added + later] == chain.pair[added]
            before *= np.where(same, signed[added + later], 1.0)
        # cosh(b / 2) / cosh(a / 2) = (1 + exp b) / (1 + exp a) * exp((a - b) / 2)
        ratio = (1.0 + before) / (1.0 + before * signed[added]) * np.sqrt(signed[added])
        result[length, length:] = result[length - 1, length:] * ratio
    return result


class _Rule(NamedTuple):
    """The factors of the forward pass for one component and one chain."""

    full: Floats  # [L + 1, n + 1] denominators times the law of a whole block
    part: Floats  # ... times the law of the rest of a block and of entering at its first letter
    entering_first: Floats  # [n + 1] probability to enter the first block at a position
    prior: Floats  # [J] probability to enter in the middle of each block
    leave: float  # probability to leave after a block
    unmarked: float  # probability that the chain carries no mark


@lru_cache(256)
def _entering_at(length: int) -> Floats:
    chances: Floats = ENTER * np.power(1.0 - ENTER, np.arange(length, dtype=np.float64))
    return chances


def _rule(chain: BlockChain, block: int, component: Component, means: Floats, blocks: int) -> _Rule:
    n, law = chain.length, law_of(block, component)
    means = means[: law.longest + 1]
    full = means * law.whole[:, None]
    full[:, n] = means[:, n] * law.whole_or_longer  # the chain ends inside a block
    prior, entering_first = np.zeros(blocks), np.zeros(n + 1)
    if component.begins == "start":
        entering_first[0] = 1.0
        return _Rule(full, np.zeros((law.longest + 1, 0)), entering_first, prior, 0.0, 0.0)
    first = FIRST_POSITIONS // block
    prior[:first] = 1.0 / first
    at = np.zeros(n + 1)  # probability to enter at a letter
    at[0] = 1.0
    leave, unmarked = 0.0, 0.0
    if component.begins == "inside":
        at[:n] = _entering_at(n)
        entering_first = AT_START * at
        prior *= 1.0 - AT_START
        leave, unmarked = LEAVE, float((1.0 - ENTER) ** n)
    last = n + 1 if leave else min(law.longest, n) + 1  # 1 + the last possible end of a first piece
    part = means[:, :last] * law.rest[:, None]
    if last == n + 1:
        part[:, n] = means[:, n] * law.rest_or_longer
    part[0] = 0.0
    for length in range(1, law.longest + 1):  # a piece that ends at k entered at k - length
        part[length, :length] = 0.0
        part[length, length:] *= at[: max(0, last - length)]
    return _Rule(full, part, entering_first, prior, leave, unmarked)


def _even_and_odd(half: Floats) -> tuple[Floats, Floats]:
    """Return cosh and sinh: a letter's factor is cosh + sinh if it agrees, else cosh - sinh."""
    up = np.exp(half)
    down = 1.0 / up
    return (up + down) / 2.0, (up - down) / 2.0


def every_look(nonces: int, components: Sequence[Component]) -> list[Look]:
    """Return looks at all nonces and components."""
    return [Look(c, np.arange(nonces)) for c in range(len(components))]


def log_ratios(
    chain: BlockChain,
    halves: NDArray[np.int8],
    block: int,
    components: Sequence[Component],
    looks: Sequence[Look] | None = None,
) -> Floats:
    """Return ln of the ratio of every nonce and component: [R, C]; -inf for those left out.

    `halves` [R, J, V] are +1 where a block of a nonce promotes a letter and -1 where it does not.
    Each pair of nonce and component may be in one look only.
    """
    nonces, blocks = halves.shape[:2]
    if not np.any(chain.weights):
        return np.zeros((nonces, len(components)))
    looks = every_look(nonces, components) if looks is None else looks
    loops = kernels(
        8 * sum(len(look.nonces) for look in looks) * blocks * chain.length,
        len(looks) * blocks,
        "patternmark.statistics.block_path_loops",
    )
    means_of = inverse_means if loops is None else loops.inverse_means
    add_up = _add_up if loops is None else loops.add_up
    used = [components[look.component] for look in looks]
    levels = {component.level for component in used}
    longest = max((law_of(block, component).longest for component in used), default=0)
    means = {level: means_of(chain, level, longest) for level in levels}
    factors = {level: _even_and_odd(chain.weights[level] / 2.0) for level in levels}
    scored = np.where(chain.weights.any(axis=0), chain.letters, 0)  # other letters may have no pair
    totals = np.zeros((nonces, len(components)))
    exponents = np.zeros((nonces, len(components)))
    for look in looks:
        component = components[look.component]
        last = min(blocks, _last_block(chain.length, block, component))
        rule = _rule(chain, block, component, means[component.level], last)
        band = _band(chain.length, block, component, look.shift)
        found = add_up(halves, look.nonces, scored, *factors[component.level], band, rule)
        totals[look.nonces, look.component], exponents[look.nonces, look.component] = found
    with np.errstate(divide="ignore"):
        result: Floats = np.log(totals) + exponents * np.log(2.0)
    return result


def _add_up(
    halves: NDArray[np.int8],
    which: NDArray[np.int64],
    letters: NDArray[np.int64],
    even: Floats,
    odd: Floats,
    band: Band,
    rule: _Rule,
) -> tuple[Floats, NDArray[np.int64]]:
    """Run the forward pass in numpy: totals of nonces `which`, and exponents of powers of two."""
    full, part, entering_first, prior, leave, unmarked = rule
    nonces, n, longest = len(which), len(letters), len(full) - 1
    state = np.tile(entering_first, (nonces, 1))  # [R, n + 1] sums by where the next block begins
    total = np.full(nonces, unmarked)
    exponent = np.zeros(nonces, dtype=np.int64)
    for j in range(len(prior)):
        expected = int(j * band.stride)
        low, high = max(0, expected - band.behind), min(n, expected + band.ahead + longest)
        state[:, :low] = 0.0
        state[:, max(0, high + 1) :] = 0.0
        if low >= n:
            break
        if high < low:
            continue
        if leave:
            total += leave * state.sum(axis=1)
            state *= 1.0 - leave
        factor = even[low:high] + odd[low:high] * halves[which, j][:, letters[low:high]]
        after = np.zeros_like(state)
        after[:, low : high + 1] = state[:, low : high + 1] * full[0, low : high + 1]
        product = np.ones((nonces, high - low + 1))  # of the piece that ends at low, low + 1, ...
        entered = prior[j] * np.exp2(-exponent.astype(np.float64))[:, None]
        for length in range(1, min(longest, high - low) + 1):
            ends = slice(low + length, high + 1)
            product[:, length:] *= factor[:, : high - low + 1 - length]
            begun = state[:, low : high + 1 - length] * full[length, ends]
            here = part[length, ends]
            begun[:, : len(here)] += entered * here
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
