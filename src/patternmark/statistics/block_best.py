"""The likeliest marked stretch of a chain: which block covers each of its positions.

`block_paths` adds up all paths of a chain along its blocks. This module finds the single best path
with the same weights: a Viterbi pass over (position, block) with traceback. A stretch begins
somewhere in the chain, runs along the blocks of one nonce with lost and inserted letters, and ends.
It says where a mark lies, never whether there is one: a chain without a mark has a best path too.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY
from patternmark.statistics.block_paths import (
    AT_START,
    ENTER,
    FIRST_POSITIONS,
    LEAVE,
    BlockChain,
    Component,
    inverse_means,
    law_of,
    log_ratios,
)

Floats = NDArray[np.float64]
# Stretches with few, some and many lost or inserted letters.
STRETCHES = (
    Component(2, 0.006, "inside"),
    Component(3, 0.006, "inside"),
    Component(2, 0.06, "inside"),
    Component(3, 0.25, "inside"),
)


class Stretch(NamedTuple):
    """A marked stretch of a chain: where it lies, and the block of each position."""

    log_ratio: float  # of the path, including its prior
    start: int
    end: int  # half-open; equal to `start` if no stretch was found
    blocks: NDArray[np.int64]  # [n], NO_KEY outside

    def continued(self, block: int) -> NDArray[np.int64]:
        """Return the blocks of all positions, as if the schedule continued without slips: [n].

        Positions before the first block get NO_KEY.
        """
        blocks = self.blocks.copy()
        if self.start == self.end:
            return blocks
        before, after = np.arange(self.start), np.arange(self.end, len(blocks))
        blocks[before] = blocks[self.start] - 1 - (self.start - 1 - before) // block
        blocks[after] = blocks[self.end - 1] + 1 + (after - self.end) // block
        return np.maximum(blocks, NO_KEY)


def best_stretch(chain: BlockChain, halves: NDArray[np.int8], block: int) -> Stretch:
    """Return the likeliest stretch under one nonce, whose `halves` are [J, V].

    The sum over all paths decides how strong the mark is and how many letters were lost.
    """
    levels = len(chain.weights)
    kinds = [Component(min(c.level, levels - 1), c.slip, c.begins) for c in STRETCHES]
    ratios = log_ratios(chain, halves[None], block, kinds)[0]
    return stretch_of(chain, halves, block, kinds[int(np.argmax(ratios))])


def stretch_of(
    chain: BlockChain, halves: NDArray[np.int8], block: int, component: Component
) -> Stretch:
    """Return the likeliest stretch of one component that begins "inside", by traceback."""
    n, blocks = chain.length, len(halves)
    weights = _weights(chain, block, component)
    longest = len(weights.full) - 1
    # Length of the best piece that ends at each position; negative if it begins the stretch.
    lengths = np.zeros((blocks, n + 1), dtype=np.int8)
    state = weights.enter + log(AT_START)  # [n + 1] ln of paths whose next block begins here
    best, at = -np.inf, (-1, 0)  # ln of the best path; its last block and its end
    first_blocks = FIRST_POSITIONS // block
    half = chain.weights[component.level] / 2.0
    for j in range(blocks):
        so_far = np.concatenate([[0.0], np.cumsum(halves[j, chain.letters] * half)])
        stays = state + log(1.0 - LEAVE) - so_far
        opens = weights.enter + log((1.0 - AT_START) / first_blocks) - so_far
        after = np.full(n + 1, -np.inf)
        after[:n] = stays[:n] + weights.full[0, :n]
        for length in range(1, min(longest, n) + 1):
            ends, begins = slice(length, n + 1), slice(0, n + 1 - length)
            kept = after[ends], lengths[j, ends]
            _take(*kept, stays[begins] + weights.full[length, ends], length)
            if j < first_blocks:
                _take(*kept, opens[begins] + weights.part[length, ends], -length)
        after += so_far
        if after[n] > best:
            best, at = float(after[n]), (j, n)
        after[n] = -np.inf
        leaves = int(np.argmax(after))
        if after[leaves] + log(LEAVE) > best:
            best, at = float(after[leaves]) + log(LEAVE), (j, leaves)
        state = after
    return _way_back(lengths, best, *at)


class _Weights(NamedTuple):
    """Logarithms of the terms of the pass that do not depend on the coins."""

    full: Floats  # [L + 1, n + 1] denominator times law of the piece of a whole block, by its end
    part: Floats  # [L + 1, n + 1] denominator times law of the piece of the rest of a block
    enter: Floats  # [n + 1] the probability that a stretch begins at a position


def _weights(chain: BlockChain, block: int, component: Component) -> _Weights:
    n, law = chain.length, law_of(block, component)
    means = inverse_means(chain, component.level, law.longest)
    full, part = means * law.whole[:, None], means * law.rest[:, None]
    full[:, n] = means[:, n] * law.whole_or_longer  # the chain ends inside a block
    part[:, n] = means[:, n] * law.rest_or_longer
    enter = log(ENTER) + log(1.0 - ENTER) * np.arange(n + 1.0)
    enter[n] = -np.inf
    with np.errstate(divide="ignore"):
        return _Weights(np.log(full), np.log(part), enter)


def _take(best: Floats, lengths: NDArray[np.int8], offered: Floats, length: int) -> None:
    """Where `offered` is better than `best`, store it there, and its piece length in `lengths`."""
    better = offered > best
    np.copyto(best, offered, where=better)
    lengths[better] = length


def _way_back(lengths: NDArray[np.int8], log_ratio: float, last: int, end: int) -> Stretch:
    path = np.full(lengths.shape[1] - 1, NO_KEY)
    at = end
    for j in range(last, -1, -1):
        length = int(lengths[j, at])
        path[at - abs(length) : at] = j
        at -= abs(length)
        if length < 0:
            break
    return Stretch(log_ratio, at, end, path)
