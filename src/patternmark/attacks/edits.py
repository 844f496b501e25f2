"""Edits that weaken a mark: substitutions, insertions and deletions, cutting, splicing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Symbols = NDArray[np.int64]


def substitute(ids: Symbols, share: float, letters: Symbols, rng: np.random.Generator) -> Symbols:
    """Replace each letter, with probability `share`, by another of `letters`; others stay."""
    edited = ids.copy()
    at = np.flatnonzero((rng.random(len(ids)) < share) & np.isin(ids, letters))
    place = np.searchsorted(letters, ids[at])  # `letters` are in ascending order
    edited[at] = letters[(place + rng.integers(1, len(letters), len(at))) % len(letters)]
    return edited


def insert_and_delete(
    ids: Symbols, rate: float, letters: Symbols, rng: np.random.Generator
) -> Symbols:
    """Lose a symbol with probability rate / 2, gain a random one after it with the same."""
    draw = rng.random(len(ids))
    copies = np.where(draw < rate / 2, 0, np.where(draw >= 1 - rate / 2, 2, 1))
    edited = np.repeat(ids, copies)
    last_of_two = np.cumsum(copies)[copies == 2] - 1
    edited[last_of_two] = rng.choice(letters, size=len(last_of_two))
    return edited


def cut_window(ids: Symbols, length: int, rng: np.random.Generator) -> Symbols:
    """Keep a stretch of some length, from anywhere."""
    start = rng.integers(0, max(len(ids) - length, 0) + 1)
    return ids[start : start + length]


def splice(
    ids: Symbols, length: int, host: Symbols, total: int, rng: np.random.Generator
) -> Symbols:
    """Put a stretch of a sequence somewhere into an unmarked host, `total` symbols together."""
    stretch = cut_window(ids, length, rng)
    around = np.resize(host, total - len(stretch))
    place = rng.integers(0, len(around) + 1)
    return np.concatenate([around[:place], stretch, around[place:]])
