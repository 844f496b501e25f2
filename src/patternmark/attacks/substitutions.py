"""Substitutions as in evolution: how often BLOSUM62 says each letter is replaced by another."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from patternmark.masks.blosum import blosum62


@cache
def aligned_frequencies() -> NDArray[np.float64]:
    """Return how often two letters are aligned, as the scores imply: [20, 20], with sum 1.

    It is p(a) p(b) e^(x s). With the nominal x of half bits, ln(2) / 2, the sum would be 1.04
    because scores are rounded; we use the x for which it is 1.
    """
    scores, frequencies = blosum62()
    by_chance = frequencies[:, None] * frequencies
    low, high = 0.1, 1.0  # the sum dips below 1 and then grows with x
    for _ in range(60):
        x = (low + high) / 2.0
        low, high = (x, high) if (by_chance * np.exp(x * scores)).sum() < 1.0 else (low, x)
    return np.asarray(by_chance * np.exp(low * scores))


@cache
def replacement_law() -> NDArray[np.float64]:
    """Return the probability of each new letter, given the letter that it replaces: [20, 20]."""
    law = aligned_frequencies().copy()
    np.fill_diagonal(law, 0.0)
    return np.asarray(law / law.sum(axis=1, keepdims=True))
