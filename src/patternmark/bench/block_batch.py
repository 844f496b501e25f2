"""Exact ratios of many chains of one length, each under a key of its own: for simulations.

Keys have one nonce. They are drawn at random, or with probability proportional to the ratio that
they give a chain (see `statistics.block_exact`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import halves_of, pair_of_letter, side_of_letter
from patternmark.core.schemes import Blocks
from patternmark.likelihood import log_mean_exp
from patternmark.rates import agreement_rates
from patternmark.statistics.block_paths import (
    AT_START,
    ENTER,
    FIRST_POSITIONS,
    LEAVE,
    Chain,
    Component,
    log_ratios,
    num_blocks,
    piece_law,
)
from patternmark.statistics.blocks import MIXTURE, Mixture

_PAIRS = 10


@cache
def letter_weights() -> NDArray[np.float64]:
    """Return the log-odds of agreement of each letter at every level: [levels, V]."""
    rates = agreement_rates(PROTEIN, Blocks.name)
    return np.asarray(np.log(rates / (1.0 - rates)))


def random_words(batch: int, blocks: int, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Draw the coins of keys of one nonce: [B, J]."""
    return rng.integers(2**_PAIRS, size=(batch, blocks), dtype=np.uint16)


def likely_words(
    letters: NDArray[np.int64], block: int, rng: np.random.Generator, mixture: Mixture = MIXTURE
) -> NDArray[np.uint16]:
    """Draw keys with probability proportional to the ratio that they give each chain: [B, J]."""
    batch, n = letters.shape
    blocks = num_blocks(n, block, mixture.components)
    words = random_words(batch, blocks, rng)
    weights = np.exp(mixture.log_weights(n))
    chosen = rng.choice(len(weights), size=batch, p=weights / weights.sum())
    for number, component in enumerate(mixture.components):
        rows = np.flatnonzero(chosen == number)
        if len(rows):
            words[rows] = _tilted(letters[rows], words[rows], block, component, rng)
    return words


def _tilted(
    letters: NDArray[np.int64],
    words: NDArray[np.uint16],
    block: int,
    component: Component,
    rng: np.random.Generator,
) -> NDArray[np.uint16]:
    """Draw the coins on a path of each chain from their likelihoods: [B, J]."""
    (batch, n), blocks = letters.shape, words.shape[1]
    block_of = _paths(batch, n, blocks, block, component, rng)  # [B, n], -1: not marked
    signed = (letter_weights()[component.level] * side_of_letter())[letters]
    pair = pair_of_letter()[letters]
    seen = (block_of >= 0) & (pair >= 0)
    rows = np.broadcast_to(np.arange(batch)[:, None], letters.shape)
    coin = (rows * blocks + block_of) * _PAIRS + pair
    sums = np.bincount(coin[seen], weights=signed[seen], minlength=batch * blocks * _PAIRS)
    is_first = rng.random(sums.shape) < 1.0 / (1.0 + np.exp(-sums))
    bits = is_first.reshape(batch, blocks, _PAIRS) @ (1 << np.arange(_PAIRS))
    return np.asarray(bits.astype(np.uint16))


def _paths(
    batch: int,
    n: int,
    blocks: int,
    block: int,
    component: Component,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw which block each position of a chain lies on: [B, n]."""
    law = piece_law(block, component.slip)
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
    on_path = (position >= at[:, None]) & (number < left[:, None])
    block_of = np.minimum(first[:, None] + number, blocks - 1)
    return np.where(on_path & (first[:, None] + number < blocks), block_of, -1)


def mixed_log_ratios(
    letters: NDArray[np.int64],
    words: NDArray[np.uint16],
    block: int,
    mixture: Mixture = MIXTURE,
) -> NDArray[np.float64]:
    """Return ln of the mixed ratio of chains [B, n] under keys of one nonce [B, J]: [B]."""
    log_weights = mixture.log_weights(letters.shape[1])
    found = np.empty(len(letters))
    for row, (ids, own) in enumerate(zip(letters, words, strict=True)):
        chain = Chain(ids, letter_weights()[:, ids], pair_of_letter()[ids], side_of_letter()[ids])
        ratios = log_ratios(chain, halves_of(own[None]), block, mixture.components)[0]
        found[row] = log_mean_exp(ratios + log_weights, total=True)
    return found
