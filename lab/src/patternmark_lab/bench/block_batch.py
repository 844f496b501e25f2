"""Exact likelihood ratios of many chains of one length, each under its own key, for simulations.

Keys have one nonce. They are drawn at random, or with probability proportional to the ratio of the
chain under them (see `statistics.block_draws`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import halves_of, pair_of_letter, side_of_letter
from patternmark.core.schemes import Blocks
from patternmark.statistics.block_draws import draw_paths, draw_words, random_words
from patternmark.statistics.block_paths import BlockChain, log_ratios, num_blocks
from patternmark.statistics.block_ratio import MIXTURE, Mixture
from patternmark.statistics.likelihood import log_mean_exp
from patternmark.statistics.rates import agreement_rates


@cache
def letter_weights() -> NDArray[np.float64]:
    """Return the log-odds of agreement of each letter at every level: [levels, V]."""
    rates = agreement_rates(PROTEIN, Blocks.name)
    return np.asarray(np.log(rates / (1.0 - rates)))


def likely_words(
    letters: NDArray[np.int64],
    block: int,
    rng: np.random.Generator,
    mixture: Mixture = MIXTURE,
) -> NDArray[np.uint16]:
    """Draw a key for each chain, with probability proportional to the chain's ratio: [B, J]."""
    batch, n = letters.shape
    blocks = num_blocks(n, block, mixture.every)
    words = random_words(batch, blocks, rng)
    weights = np.exp(_log_weights(letters, mixture))
    picked = rng.random((batch, 1)) * weights.sum(axis=1, keepdims=True)
    chosen = (picked > np.cumsum(weights, axis=1)[:, :-1]).sum(axis=1)
    for number, component in enumerate(mixture.every):
        rows = np.flatnonzero(chosen == number)
        if len(rows):
            own = letters[rows]
            block_of = draw_paths(len(rows), n, blocks, block, component, rng)
            signed = (letter_weights()[component.level] * side_of_letter())[own]
            words[rows] = draw_words(signed, pair_of_letter()[own], block_of, blocks, rng)
    return words


def _log_weights(letters: NDArray[np.int64], mixture: Mixture) -> NDArray[np.float64]:
    """Return ln of the component weights of each chain: [B, C]; X does not count as a residue."""
    scored = (pair_of_letter()[letters] >= 0).sum(axis=1)
    return np.stack([mixture.log_weights(count) for count in scored.tolist()])


def mixed_log_ratios(
    letters: NDArray[np.int64],
    words: NDArray[np.uint16],
    block: int,
    mixture: Mixture = MIXTURE,
) -> NDArray[np.float64]:
    """Return ln of the mixed ratio of chains [B, n] under keys [B, J] with one nonce: [B]."""
    log_weights = _log_weights(letters, mixture)
    found = np.empty(len(letters))
    for row, (ids, own) in enumerate(zip(letters, words, strict=True)):
        chain = BlockChain(
            ids, letter_weights()[:, ids], pair_of_letter()[ids], side_of_letter()[ids]
        )
        ratios = log_ratios(chain, halves_of(own[None]), block, mixture.every)[0]
        found[row] = log_mean_exp(ratios + log_weights[row], total=True)
    return found
