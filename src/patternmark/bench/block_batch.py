"""Exact ratios of many chains at once, each under a key of its own: for simulations, with torch.

The same sums as `statistics.block_paths`, laid out for a GPU: rows are pairs of a chain and a key,
all chains of a batch have one length. Keys are drawn at random, or with probability proportional
to the ratio that they give a chain (see `statistics.block_exact`).
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import halves_of, pair_of_letter, side_of_letter
from patternmark.core.schemes import Blocks
from patternmark.rates import agreement_rates
from patternmark.statistics.block_paths import (
    AT_START,
    ENTER,
    FIRST_POSITIONS,
    LEAVE,
    Component,
    num_blocks,
    piece_law,
)
from patternmark.statistics.blocks import MIXTURE, Mixture

_PAIRS = 10


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
    device: str = "cpu",
) -> NDArray[np.float64]:
    """Return ln of the mixed ratio of chains [B, n] under keys of one nonce [B, J]: [B]."""
    import torch  # noqa: PLC0415  # an extra

    n = letters.shape[1]
    logs = []
    on = torch.tensor(letters, device=device)
    halves = torch.tensor(halves_of(words), device=device)  # [B, J, V]
    weights = mixture.log_weights(n)
    means: dict[int, Any] = {}
    longest = max(piece_law(block, c.slip).longest for c in mixture.components)
    for component in mixture.components:
        if component.level not in means:
            means[component.level] = _inverse_means(on, component.level, longest)
        logs.append(_forward(on, halves, means[component.level], block, component))
    table = torch.stack(logs, dim=1).cpu().numpy() + weights
    highest = table.max(axis=1)
    return np.asarray(highest + np.log(np.exp(table - highest[:, None]).sum(axis=1)))


def _inverse_means(letters: Any, level: int, longest: int) -> Any:
    """Return 1 / prod cosh(S_p / 2) of pieces by length and end: [longest + 1, B, n + 1]."""
    import torch  # noqa: PLC0415

    batch, n = letters.shape
    like = {"device": letters.device, "dtype": torch.float64}
    half = torch.tensor(letter_weights()[level] * side_of_letter() / 2.0, **like)[letters]
    pair = torch.tensor(np.maximum(pair_of_letter(), 0), device=letters.device)[letters]
    sums = torch.zeros((batch, n + 1, _PAIRS), **like)
    cosh = torch.ones((batch, n + 1), **like)
    result = torch.zeros((longest + 1, batch, n + 1), **like)
    result[0] = 1.0
    for length in range(1, min(longest, n) + 1):
        which = pair[:, : n + 1 - length, None]
        before = sums[:, length:].gather(2, which)
        after = before + half[:, : n + 1 - length, None]
        cosh[:, length:] *= (torch.cosh(after) / torch.cosh(before))[..., 0]
        sums[:, length:].scatter_(2, which, after)
        result[length, :, length:] = 1.0 / cosh[:, length:]
    return result


def _forward(letters: Any, halves: Any, means: Any, block: int, component: Component) -> Any:
    """Return ln of the ratio of one component: [B]."""
    import torch  # noqa: PLC0415

    (batch, n), blocks = letters.shape, halves.shape[1]
    like = {"device": letters.device, "dtype": torch.float64}
    law = piece_law(block, component.slip)
    whole, tail, rest, rest_tail = (torch.tensor(part.copy(), **like) for part in law)
    half = torch.tensor(letter_weights()[component.level] / 2.0, **like)[letters]
    even, odd = torch.cosh(half), torch.sinh(half)
    prior, entering, at, leave, unmarked = _entering(n, block, component)
    at_each = torch.tensor(at, **like)
    state = torch.tensor(entering, **like).repeat(batch, 1)
    total = torch.full((batch,), unmarked, **like)
    scale = torch.zeros(batch, **like)
    reached = (
        blocks if component.begins != "start" else min(blocks, num_blocks(n, block, [component]))
    )
    for j in range(reached):
        if leave:
            total = total + leave * state[:, :n].sum(dim=1)
            state = state * (1.0 - leave)
        chosen = halves[:, j].gather(1, letters).to(torch.float64)
        factor = even + odd * chosen
        after = torch.zeros_like(state)
        after[:, :n] = state[:, :n] * whole[0]
        product = torch.ones_like(state)
        for length in range(1, min(law.longest, n) + 1):
            product[:, length:] *= factor[:, : n + 1 - length]
            begun = state[:, : n + 1 - length] * _by_end(whole[length], tail[length], n, length)
            if j < len(prior) and prior[j]:
                into = prior[j] * at_each[: n + 1 - length] * torch.exp(-scale)[:, None]
                begun = begun + into * _by_end(rest[length], rest_tail[length], n, length)
            after[:, length:] += product[:, length:] * means[length, :, length:] * begun
        total = total + after[:, n]
        after[:, n] = 0.0
        state = after
        if j % 32 == 31:
            largest = torch.maximum(state.amax(dim=1), total).clamp(1e-250, 1e250)
            state, total = state / largest[:, None], total / largest
            scale = scale + largest.log()
    return total.log() + scale


def _by_end(inner: Any, last: Any, n: int, length: int) -> Any:
    """Return the weight of a piece by where it ends: the chain may end inside a block."""
    weights = inner.repeat(n + 1 - length)
    weights[-1] = last
    return weights


def _entering(
    n: int, block: int, component: Component
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, float]:
    """Return the prior of blocks, where the first begins, where others do, leaving, no mark."""
    first = FIRST_POSITIONS // block
    at, entering = np.zeros(n + 1), np.zeros(n + 1)
    if component.begins == "start":
        entering[0] = 1.0
        return np.zeros(0), entering, at, 0.0, 0.0
    prior = np.full(first, 1.0 / first)
    at[0] = 1.0
    if component.begins == "anywhere":
        return prior, entering, at, 0.0, 0.0
    at[:n] = ENTER * np.exp(np.arange(n) * log(1.0 - ENTER))
    return prior * (1 - AT_START), AT_START * at, at, LEAVE, float((1.0 - ENTER) ** n)
