"""Paths through many phases that may slip to a neighbouring one: the best, and its best stretch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.null.local import LocalRules


def best_paths(signs: NDArray[np.int8], cost: int) -> NDArray[np.int64]:
    """Return the best score of a path through the phases: signs [n, B, P] -> [B].

    Zeros that fill up a row change nothing: a slip without a gain is a loss.
    """
    _, batch, period = signs.shape
    ring = np.zeros((batch, period + 2), dtype=np.int32)  # the ends repeat each other
    score, moved = ring[:, 1:-1], np.empty((batch, period), dtype=np.int32)
    for row in signs:
        ring[:, 0], ring[:, -1] = score[:, -1], score[:, 0]
        np.maximum(ring[:, :-2], ring[:, 2:], out=moved)
        moved -= cost
        np.maximum(score, moved, out=score)
        score += row
    return np.asarray(score.max(axis=1), dtype=np.int64)


def local_paths(signs: NDArray[np.int8], rules: LocalRules) -> NDArray[np.int64]:
    """Return score, start and end of the best stretch of any path: signs [n, B, P] -> [B, 3]."""
    _, batch, period = signs.shape
    score, start = np.zeros((2, batch, period), dtype=np.int32)
    best = np.zeros((batch, 3), dtype=np.int64)
    rows = np.arange(batch)
    gains = np.array([0, rules.match, -rules.mismatch], dtype=np.int32)  # of the signs 0, 1, -1
    for position, row in enumerate(signs):
        for shift in (1, -1):
            other = np.roll(score, shift, axis=1) - rules.slip
            better = other > score
            if better.any():
                score = np.where(better, other, score)
                start = np.where(better, np.roll(start, shift, axis=1), start)
        start[score <= 0] = position
        score = np.maximum(score, 0) + gains[row]
        top = np.argmax(score, axis=1)
        value = score[rows, top]
        higher = value > best[:, 0]
        if higher.any():
            best[higher, 0], best[higher, 2] = value[higher], position + 1
            best[higher, 1] = start[rows, top][higher]
    return best
