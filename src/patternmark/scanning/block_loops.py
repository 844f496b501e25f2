"""The loops of the first stage for block keys, compiled by numba.

A lane is one nonce of a key. One word says with which of 64 lanes a residue agrees, and the words
of eight phases stand side by side. `patternmark.fast.lanes` adds them up.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from patternmark.fast.lanes import CHUNK, LANES, PLANES, WORDS_PER_VECTOR, add_up, reaching
from patternmark.scanning.byte_lanes import ones, place_letters  # as many at once as a CHUNK

SEGMENT, KEY = 0, 1  # the columns of `hits`

_EVERY = uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True, error_model="numpy")
def lay_out(letters, begins, known, width, places, edges, scored):
    """Write where in a table the words of each residue begin, segment by segment.

    A table has a row of `width` words for each letter, with one word for each position. Row 0 is
    empty. It is used for letters that are not scored (their bit of `known` is 0) and to fill the
    last chunk of a segment. `letters` must be padded with one chunk. The places are the same for
    all keys.
    """
    at = 0
    for s in range(len(begins) - 1):
        edges[s] = at
        begin, size = begins[s], begins[s + 1] - begins[s]
        total = 0
        for i in range(0, size, CHUNK):
            total += place_letters(letters, begin + i, size - i, known, width, i, places, at + i)
        scored[s] = total
        at += -(-size // CHUNK) * CHUNK
    edges[len(begins) - 1] = at


@njit(cache=True, nogil=True, error_model="numpy")
def passing_keys(
    tables, places, edges, scored, first, nonces, keys, limits, passing, planes, tally, hits
):
    """Judge segments from `first` on; return how many pairs passed, and the next segment.

    The keys share one word, or one key has several words: `tables` is [words, rows * width].
    `limits` has the counts of each level of the tally, [n + 1, levels]; pairs pass at level
    `passing`. `planes` is working memory: [words, phases / 8, PLANES, 8].
    """
    words, groups = planes.shape[:2]
    flat = planes.reshape(words, -1)
    found = 0
    for s in range(first, len(scored)):
        if found + keys > len(hits):
            return found, s
        for w in range(words):
            for g in range(groups):
                add_up(tables[w], places, edges[s], edges[s + 1], g * WORDS_PER_VECTOR, flat[w])
        for level in range(limits.shape[1]):
            limit = limits[scored[s], level]
            if limit > scored[s]:
                break
            reached = uint64(0)
            for w in range(words):
                for g in range(groups):
                    reached |= reaching(flat[w], g * WORDS_PER_VECTOR, limit)
            if reached == 0:
                break
            of_keys = _keys_of_lanes(reached, nonces, keys)
            tally[level] += np.int64(ones(of_keys))
            if level == passing:
                for k in range(keys):
                    if (of_keys >> uint64(k)) & uint64(1):
                        hits[found, SEGMENT], hits[found, KEY] = s, k
                        found += 1
    return found, len(scored)


@njit(cache=True, nogil=True, error_model="numpy")
def _keys_of_lanes(reached, nonces, keys):
    """Return one bit for each key: whether any of its lanes has reached the limit."""
    if nonces == 1:
        return reached
    if keys == 1:
        return uint64(reached != 0)
    own = _EVERY >> uint64(LANES - nonces)
    found = uint64(0)
    for k in range(keys):
        found |= uint64(((reached >> uint64(k * nonces)) & own) != 0) << uint64(k)
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def count(tables, places, edges, planes, counts):
    """Write the count of every lane and phase: [segments, words * 64, phases]."""
    words, groups = planes.shape[:2]
    flat = planes.reshape(words, -1)
    for s in range(len(counts)):
        for w in range(words):
            for g in range(groups):
                add_up(tables[w], places, edges[s], edges[s + 1], g * WORDS_PER_VECTOR, flat[w])
            for lane in range(LANES):
                for phase in range(counts.shape[2]):
                    total = 0
                    for b in range(PLANES):
                        word = planes[w, phase // WORDS_PER_VECTOR, b, phase % WORDS_PER_VECTOR]
                        total |= np.int64((word >> uint64(lane)) & uint64(1)) << b
                    counts[s, w * LANES + lane, phase] = total
