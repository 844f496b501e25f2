"""The loops of `block_screen`, compiled by numba: they return the same whole numbers."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from patternmark.fast.lanes import (
    CHUNK,
    CHUNK_PLANES,
    LANES,
    WORDS_PER_VECTOR,
    count_chunk,
    extend_stretch,
    path_step_32,
    path_step_64,
)


@njit(cache=True, nogil=True, error_model="numpy")
def _paths_of_word(
    words, width, letters, weights, expected, strays, block, front, cost, narrow, rows
):
    """Write the best path of each lane of one word to the first row."""
    lanes = 32 if narrow else LANES
    rows[:] = np.int16(-16384)
    drift = strays[-1]
    before, after = rows[0], rows[1]
    for lane in range(lanes):
        before[(drift + 1) * lanes + lane] = 0
    for i in range(len(letters)):
        weight = np.int64(weights[i])
        position = expected[i] - strays[i] + front * block
        within = position % block
        place = np.int64(letters[i]) * width + position // block
        for s in range(drift - strays[i], drift + strays[i] + 1):
            at = (s + 1) * lanes
            if narrow:
                path_step_32(words, place, weight, cost, before, after, at)
            else:
                path_step_64(words, place, weight, cost, before, after, at)
            within += 1
            if within == block:
                within = 0
                place += 1
        before, after = after, before
    for lane in range(lanes):
        best = before[lanes + lane]
        for s in range(2 * drift + 1):
            best = max(best, before[(s + 1) * lanes + lane])
        rows[2, lane] = best


@njit(cache=True, nogil=True, error_model="numpy")
def best_paths(words, letters, weights, expected, strays, block, front, cost, narrow):
    """Do what `block_screen._best_paths` does; `narrow`: only 32 lanes of each word are used."""
    width = np.int64(words.shape[2])
    found = np.zeros((len(words), LANES), dtype=np.int64)
    rows = np.empty((3, (2 * strays[-1] + 3) * LANES), dtype=np.int16)
    for w in range(len(words)):
        _paths_of_word(
            words[w].reshape(-1), width, letters, weights, expected, strays, block, front, cost,
            narrow, rows,
        )  # fmt: skip
        for lane in range(32 if narrow else LANES):
            found[w, lane] = rows[2, lane]
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _places(letters, block, width, empty):
    """Return where each letter's words begin in a table: [rest of a shift, letters in full chunks].

    Row `empty` of the table has no bits set; it fills the last chunk.
    """
    places = np.empty((block, -(-len(letters) // CHUNK) * CHUNK), dtype=np.int64)
    for rest in range(block):
        for i in range(places.shape[1]):
            letter = letters[i] if i < len(letters) else empty
            places[rest, i] = letter * width + (i + rest) // block
    return places


@njit(cache=True, nogil=True, error_model="numpy")
def _stretches_of_word(words, places, bias, cost, block, front, first, groups, rows, planes, found):
    """Find the best stretch of each lane of one word: see `best_stretches`."""
    best, label = found
    rows[:] = 0
    before, after = rows[0], rows[1]
    for s in range(len(bias)):
        at = s * CHUNK
        # Skip groups of shifts that put the whole segment before the start of the schedule.
        begin = max(0, (-(at // block) - (front - WORDS_PER_VECTOR) - first) // WORDS_PER_VECTOR)
        for rest in range(block):
            for g in range(begin, groups):
                start = front + first + g * WORDS_PER_VECTOR
                count_chunk(words, places[rest], at, start, planes)
                for which in range(WORDS_PER_VECTOR):
                    shift = (g * WORDS_PER_VECTOR + which) * block + rest
                    extend_stretch(
                        planes, which, bias[s], cost, before, after, (shift + 1) * LANES, best,
                        label, shift,
                    )  # fmt: skip
        before, after = after, before


@njit(cache=True, nogil=True, error_model="numpy")
def best_stretches(words, letters, bias, cost, block, front, first, groups):
    """Do what `block_screen._best_stretches` does."""
    width = words.shape[2]
    places = _places(letters, block, width, words.shape[1] - 1)
    scores = np.zeros((len(words), LANES), dtype=np.uint8)
    shifts = np.zeros((len(words), LANES), dtype=np.uint16)
    rows = np.empty((2, (groups * WORDS_PER_VECTOR * block + 2) * LANES), dtype=np.uint8)
    planes = np.empty(CHUNK_PLANES * WORDS_PER_VECTOR, dtype=np.uint64)
    for w in range(len(words)):
        _stretches_of_word(
            words[w].reshape(-1), places, bias, cost, block, front, first, groups, rows, planes,
            (scores[w], shifts[w]),
        )  # fmt: skip
    return scores, shifts
