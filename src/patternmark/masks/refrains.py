"""Texts that repeat themselves: lists, tables, refrains, one sentence over and over.

The p-value for natural text was counted on natural English, where few words stand again and again,
few pairs of words return, and a word that returns does so at even and odd places alike. A text that
is different meets the same secret coins too often. Two shares of a text tell, each with a limit
that most natural texts keep: beyond, a text repeats itself. The third measure tells how
much more often words return at places of one parity, as they do in texts that another key marked;
for it the p-value is raised. Only the tokens are looked at, never a key.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading

# Of all pairs of places, those that hold the same token; a short text has few to count.
_SAME, _SAME_IN_SHORT = 0.020, 0.7
# Of neighbouring tokens, those that stood side by side before; more in a long text.
_RETURNING, _RETURNING_EACH, _LONG = 0.13, 0.0001, 1000
# By how much ln p rises with each standard deviation of the surplus beyond the first half: fitted
# to 2,189 translations that other keys marked, judged by 25 keys.
_RISE, _USUAL = 0.45, 0.5
_SPREAD = 4.0  # so that a few returning words are no surplus


def repeats_itself(reading: Reading) -> bool:
    """Whether a text repeats itself more than natural texts do.

    >>> prose = np.arange(60)
    >>> repeats_itself(Reading(prose, (slice(0, 60),)))
    False
    >>> repeats_itself(Reading(prose % 20, (slice(0, 60),)))  # the same 20 tokens three times
    True
    """
    parts = [part[part != UNREAD] for part in reading.parts]
    symbols = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    length = len(symbols)
    if length < 2:
        return False
    pairs = [pair for part in parts for pair in pairwise(part.tolist())]
    same = _coincidences(symbols) > _SAME + _SAME_IN_SHORT / length
    returning = len(pairs) - len(set(pairs))
    most = _RETURNING + _RETURNING_EACH * min(length, _LONG)
    return bool(same or returning > most * len(pairs))


def _coincidences(symbols: NDArray[np.int64]) -> float:
    """Return the share of all pairs of places that hold the same symbol."""
    counts = np.unique(symbols, return_counts=True)[1]
    return float((counts * (counts - 1)).sum() / (len(symbols) * (len(symbols) - 1)))


def log_surplus(reading: Reading) -> float:
    """Return what to add to ln p because words return at places of one parity; 0 for most texts.

    Of the pairs of places that hold one token, those of equal parity are counted for and the others
    against; the surplus is measured in what it varies by in natural text.

    >>> log_surplus(Reading(np.arange(60), (slice(0, 60),)))
    0.0
    >>> even = np.where(np.arange(60) % 2, np.arange(60), np.arange(60) % 20)  # returns after 20
    >>> round(log_surplus(Reading(even, (slice(0, 60),))), 2)
    2.09
    """
    surplus, pairs = 0.0, 0.0
    for part in reading.parts:
        read = part != UNREAD
        _, kind, count = np.unique(part[read], return_inverse=True, return_counts=True)
        signs = 1.0 - 2.0 * (np.flatnonzero(read) % 2)
        sums = np.bincount(kind, weights=signs, minlength=len(count))
        surplus += float((sums**2 - count).sum() / 2.0)
        pairs += float((count * (count - 1)).sum() / 2.0)
    return _RISE * max(surplus / float(np.sqrt(pairs + _SPREAD)) - _USUAL, 0.0)
