"""The p-value of one given sequence: how often fresh keys give it at least the E of this key.

Such keys are rare, so random keys hardly ever include one. But E is a density: its mean over keys
is 1, so keys can be drawn with probability proportional to E. Draw what E averages over (nonce,
component, path) from the prior; then draw each coin on the path from its two likelihoods given the
letters that it covers, and all other coins at random. Under such keys E is large, and

    P(E >= t) = mean over drawn keys of  (1 / E where E >= t, else 0).

The key under test is counted as one more draw, with 1 / t:

    p = (1 / t + sum over n drawn keys of (1 / E where E >= t, else 0)) / (n + 1).

So p is a valid p-value for any number of draws and any sequence, like a rank among fresh keys.
Proof: let Q be the law of drawn keys, whose density against fair keys is E. A fair key is then
a draw from Q with weight w = 1 / E. Key and draws together are exchangeable under Q, so that
P(p <= a) is the mean under Q of (1 / (n + 1)) times the sum of the w of those draws k whose own p
is at most a. These are draws k for which the w of all draws at least as large as k sum to at most
a (n + 1), so their own w do too. If E was screened, it is smaller than that density, 1 / E is
larger than w, and p errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite, log

import numpy as np
from numpy.typing import NDArray

from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.fast.compiled import repeated
from patternmark.statistics.block_draws import draw_paths, draw_words, random_words
from patternmark.statistics.block_paths import Component, num_blocks
from patternmark.statistics.block_ratio import UNMARKED, BlockStatistic, NumberedChain
from patternmark.statistics.likelihood import log_mean_exp

DRAWS = 400  # keys that are drawn for one sequence
_TOLERANCE = 1e-9  # values of ln E that differ by less count as equal, because sums are rounded


@dataclass(frozen=True)
class ExactP:
    """ln of the p-value of one sequence, and the relative standard error of its estimate."""

    log_p: float
    relative_error: float
    draws: int


@dataclass(eq=False)
class DrawnCoins:
    """Coins of a drawn key: fair ones, except those that `draw_coins` set."""

    block: int
    nonces: int
    rng: np.random.Generator
    drawn: dict[int, NDArray[np.uint16]] = field(default_factory=dict)  # [blocks, R] by chain

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain: [blocks, R]."""
        known = self.drawn.get(chain, np.zeros((0, self.nonces), dtype=np.uint16))
        if len(known) < blocks:
            more = random_words(blocks - len(known), self.nonces, self.rng)
            known = self.drawn[chain] = np.concatenate([known, more])
        return known[:blocks]


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
    if not reading.num_scored or not isfinite(log_e):
        return ExactP(0.0, 0.0, 0)
    rng = np.random.default_rng(seed)
    terms = np.zeros(draws)  # t / E: numbers between 0 and 1
    with repeated(draws):
        for number in range(draws):
            drawn = statistic.with_coins(draw_coins(statistic, reading, rng))
            found = float(log_mean_exp(drawn.log_ratios(reading)))
            reached = found >= log_e - _TOLERANCE
            terms[number] = np.exp(min(log_e - found, 0.0)) if reached else 0.0
            step()
    terms = np.append(terms, 1.0)  # the key under test; if no draw reaches E, the error is 100 %
    mean = float(terms.mean())
    error = float(terms.std()) / np.sqrt(len(terms)) / mean
    return ExactP(min(0.0, log(mean) - log_e), float(error), draws)


EXACT = {Blocks.name: exact_p}  # by scheme: the function that computes the p-value of one sequence


def draw_coins(statistic: BlockStatistic, reading: Reading, rng: np.random.Generator) -> DrawnCoins:
    """Draw a key with probability proportional to the E that it gives the record."""
    coins = DrawnCoins(statistic.coins.block, statistic.coins.nonces, rng)
    branches = statistic.branches(reading)
    weights = np.concatenate([np.exp(branch.log_weights) for branch in branches])
    choices = [(branch, component) for branch in branches for component in branch.components]
    branch, component = choices[int(rng.choice(len(weights), p=weights / weights.sum()))]
    nonce = int(rng.integers(coins.nonces))
    pieces = branch.chains_in_design(statistic.pieces(reading))
    for piece in pieces:
        if len(pieces) > 1 and rng.random() < UNMARKED:
            continue
        words = _likely_words(piece, coins.block, component, rng)
        coins.words(piece.number + branch.shift, len(words))[:, nonce] = words
    return coins


def _likely_words(
    piece: NumberedChain, block: int, component: Component, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """Draw the coins of one nonce given a chain that they marked: [J]."""
    chain = piece.chain
    blocks = num_blocks(chain.length, block, (component,))
    block_of = draw_paths(1, chain.length, blocks, block, component, rng)
    signed = chain.weights[component.level] * chain.side
    words: NDArray[np.uint16] = draw_words(signed[None], chain.pair[None], block_of, blocks, rng)[0]
    return words
