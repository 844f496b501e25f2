"""The p-value of this very sequence: how often fresh keys give it as large an E as this key does.

Keys that do so are rare, so they are not found by drawing keys at random. E itself is a density:
its mean over keys is 1, so keys can be drawn with probability proportional to E. Draw what E
averages over (nonce, component, path) from the prior; then draw each coin on the path from its two
likelihoods given the letters it saw, and all other coins at random. Under such keys E is large, and

    P(E >= t) = mean over drawn keys of  (1 / E where E >= t, else 0).

The mean holds for any sequence. Its error is that of an average of numbers between 0 and 1 / t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from patternmark.core.reading import Reading
from patternmark.likelihood import log_mean_exp
from patternmark.statistics.block_paths import (
    AT_START,
    ENTER,
    FIRST_POSITIONS,
    LEAVE,
    Chain,
    Component,
    num_blocks,
    piece_law,
)
from patternmark.statistics.blocks import UNMARKED, BlockStatistic

DRAWS = 400
_ROOM = 8  # blocks beyond those that E looks at


@dataclass(frozen=True)
class ExactP:
    """ln of the p-value of one sequence, and its relative standard error."""

    log_p: float
    relative_error: float
    draws: int


@dataclass(eq=False)
class DrawnCoins:
    """Coins of a key that was drawn: words [blocks, R] for each chain."""

    block: int
    nonces: int
    drawn: dict[int, NDArray[np.uint16]]

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain: [blocks, R]."""
        return self.drawn[chain][:blocks]


def exact_p(
    statistic: BlockStatistic,
    reading: Reading,
    log_e: float,
    *,
    draws: int = DRAWS,
    seed: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> ExactP:
    """Return the p-value of a record whose ln E is `log_e`; `step` is called after every draw."""
    if not reading.num_scored:
        return ExactP(0.0, 0.0, 0)
    rng = np.random.default_rng(seed)
    terms = np.zeros(draws)
    for number in range(draws):
        drawn = statistic.with_coins(draw_coins(statistic, reading, rng))
        found = float(log_mean_exp(drawn.log_ratios(reading)))
        # Relative to t: numbers between 0 and 1.
        terms[number] = np.exp(log_e - found) if found >= log_e - 1e-9 else 0.0
        step()
    mean = float(terms.mean())
    if mean == 0.0:  # no drawn key reached t: less than one in so many
        return ExactP(min(0.0, log(3.0 / draws) - log_e), 1.0, draws)
    error = float(terms.std(ddof=1)) / np.sqrt(draws) / mean
    return ExactP(min(0.0, log(mean) - log_e), float(error), draws)


def draw_coins(statistic: BlockStatistic, reading: Reading, rng: np.random.Generator) -> DrawnCoins:
    """Draw a key with probability proportional to the E that it gives the record."""
    coins = statistic.coins
    pieces = statistic.pieces(reading)
    branches = statistic.branches(reading)
    weights = np.concatenate([np.exp(branch.log_weights) for branch in branches])
    chosen = int(rng.choice(len(weights), p=weights / weights.sum()))
    choices = [(b.shift, component) for b in branches for component in b.components]
    shift, component = choices[chosen]
    nonce = int(rng.integers(coins.nonces))
    drawn: dict[int, NDArray[np.uint16]] = {}
    every = statistic.mixture.components
    for number, chain in pieces:
        blocks = num_blocks(chain.length, coins.block, every) + _ROOM
        blocks += blocks // 4  # the statistic asks for some more than it needs
        for branch in branches:
            words = rng.integers(2**10, size=(blocks, coins.nonces), dtype=np.uint16)
            drawn.setdefault(number + branch.shift, words)
            if len(drawn[number + branch.shift]) < blocks:
                drawn[number + branch.shift] = words
    for number, chain in pieces:
        if len(pieces) > 1 and rng.random() < UNMARKED:
            continue
        words = drawn[number + shift]
        for block, first, last in draw_path(chain.length, coins.block, component, rng):
            if block < len(words):
                words[block, nonce] = _draw_word(chain, component.level, first, last, rng)
    return DrawnCoins(coins.block, coins.nonces, drawn)


def draw_path(
    length: int, block: int, component: Component, rng: np.random.Generator
) -> list[tuple[int, int, int]]:
    """Draw pieces (block, first, last) of a chain from the prior of a component."""
    law = piece_law(block, component.slip)
    first_block, at, is_rest = 0, 0, False
    if component.begins == "inside":
        at = int(rng.geometric(ENTER)) - 1
        is_rest = rng.random() >= AT_START
    elif component.begins == "anywhere":
        is_rest = True
    if is_rest:
        first_block = int(rng.integers(FIRST_POSITIONS // block))
    path = []
    while at < length:
        if component.begins == "inside" and not is_rest and rng.random() < LEAVE:
            break
        lengths = law.rest if is_rest else law.whole
        size = int(rng.choice(len(lengths), p=lengths / lengths.sum()))
        if size:
            path.append((first_block, at, min(at + size, length)))
        at, first_block, is_rest = at + size, first_block + 1, False
    return path


def _draw_word(chain: Chain, level: int, first: int, last: int, rng: np.random.Generator) -> int:
    """Draw the coins of a block, given the letters that it saw."""
    seen = slice(first, last)
    signed = chain.weights[level, seen] * chain.side[seen]
    scored = chain.pair[seen] >= 0
    sums = np.bincount(chain.pair[seen][scored], weights=signed[scored], minlength=10)
    is_first = rng.random(10) < 1.0 / (1.0 + np.exp(-sums))
    return int(is_first @ (1 << np.arange(10)))
