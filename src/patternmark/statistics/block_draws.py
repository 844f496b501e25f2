"""Draw keys with probability proportional to the likelihood ratio that they give a chain.

The ratio is a density over keys: its mean is 1. It averages over paths of a chain through its
blocks, so a key is drawn in two steps: first a path from its prior, then every coin on the path
from its two likelihoods given the letters that it covers. All other coins are fair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.statistics.block_paths import (
    AT_START,
    ENTER,
    FIRST_POSITIONS,
    LEAVE,
    Component,
    law_of,
)

_PAIRS = 10


def draw_paths(
    batch: int, n: int, blocks: int, block: int, component: Component, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw which block covers each position of a chain: [B, n], -1 where it is not marked."""
    law = law_of(block, component)
    sizes = rng.choice(len(law.whole), size=(batch, blocks), p=law.whole / law.whole.sum())
    at, first = np.zeros(batch, dtype=np.int64), np.zeros(batch, dtype=np.int64)
    left = np.full(batch, blocks)
    is_rest = np.full(batch, component.begins == "anywhere")
    if component.begins == "inside":
        at = rng.geometric(ENTER, size=batch) - 1
        is_rest = rng.random(batch) >= AT_START
        left = rng.geometric(LEAVE, size=batch) - 1 + is_rest
    rest = rng.choice(len(law.rest), size=batch, p=law.rest / law.rest.sum())
    sizes[is_rest, 0] = rest[is_rest]
    first[is_rest] = rng.integers(FIRST_POSITIONS // block, size=int(is_rest.sum()))
    ends = at[:, None] + np.cumsum(sizes, axis=1)
    position = np.arange(n)
    number = np.stack([np.searchsorted(row, position, side="right") for row in ends])
    is_on_path = (position >= at[:, None]) & (number < left[:, None])
    block_of = first[:, None] + number
    return np.where(is_on_path & (block_of < blocks), block_of, -1)


def draw_words(
    signed: NDArray[np.float64],
    pair: NDArray[np.int64],
    block_of: NDArray[np.int64],
    blocks: int,
    rng: np.random.Generator,
) -> NDArray[np.uint16]:
    """Draw the coins of keys of one nonce, given the paths of chains: words [B, J].

    `signed` [B, n] are log-odds of agreement, negative for second letters of a pair; `pair` [B, n]
    is negative for letters without a pair.
    """
    batch = len(block_of)
    is_seen = (block_of >= 0) & (pair >= 0)
    rows = np.broadcast_to(np.arange(batch)[:, None], block_of.shape)
    coin = (rows * blocks + block_of) * _PAIRS + pair
    sums = np.bincount(coin[is_seen], weights=signed[is_seen], minlength=batch * blocks * _PAIRS)
    is_first = rng.random(sums.shape) < 1.0 / (1.0 + np.exp(-sums))
    bits = is_first.reshape(batch, blocks, _PAIRS) @ (1 << np.arange(_PAIRS))
    return np.asarray(bits.astype(np.uint16))


def random_words(keys: int, blocks: int, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Draw fair coins: words [keys, J]."""
    return rng.integers(2**_PAIRS, size=(keys, blocks), dtype=np.uint16)
