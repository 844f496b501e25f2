"""Records that are alike: they share residues at equal positions, or words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet

ALIKE = 0.3  # share of identical residues, or of words, above which two records are alike
Groups = tuple[tuple[int, ...], ...]
_WORD = 4  # symbols
_NOTHING = -1  # separators and unscored symbols: equal to none


def similar_groups(records: Sequence[NDArray[np.int64]], alphabet: Alphabet) -> Groups:
    """Group records that are alike, directly or through others.

    Alike are two that have more than 30 % of the shorter one's residues in common at equal
    positions, or more than 30 % of its words of four (which a shift does not hide).
    """
    cleaned = [np.where(alphabet.is_scored(ids), ids, _NOTHING) for ids in records]
    leader = list(range(len(records)))

    def first_of(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    by_place, by_word = _PlaceIndex(cleaned), _WordIndex(cleaned, alphabet.size)
    for i in range(1, len(records)):
        for j in np.flatnonzero(by_place.alike_before(i) | by_word.alike_before(i)).tolist():
            one, other = sorted((first_of(i), first_of(j)))
            leader[other] = one
    members: dict[int, list[int]] = {}
    for i in range(len(records)):
        members.setdefault(first_of(i), []).append(i)
    return tuple(tuple(group) for group in members.values())


class _PlaceIndex:
    """Finds records with identical residues at equal positions."""

    def __init__(self, records: Sequence[NDArray[np.int64]]) -> None:
        longest = max(map(len, records), default=0)
        self._table = np.full((len(records), longest), _NOTHING, dtype=np.int32)
        for row, ids in zip(self._table, records, strict=True):
            row[: len(ids)] = ids
        self._sizes = np.count_nonzero(self._table != _NOTHING, axis=1)

    def alike_before(self, i: int) -> NDArray[np.bool_]:
        """Return which of the records before number `i` are like it: [i]."""
        own = self._table[i]
        places = np.flatnonzero(own != _NOTHING)
        same = np.count_nonzero(self._table[:i, places] == own[places], axis=1)
        return np.asarray(same > ALIKE * np.minimum(self._sizes[:i], self._sizes[i]))


class _WordIndex:
    """Finds records that share words, wherever they stand."""

    def __init__(self, records: Sequence[NDArray[np.int64]], size: int) -> None:
        self._words = [_words(ids, size) for ids in records]
        self._sizes = np.array([len(words) for words in self._words])
        self._holders: dict[int, list[int]] = {}
        for i, words in enumerate(self._words):
            for word in words.tolist():
                self._holders.setdefault(word, []).append(i)

    def alike_before(self, i: int) -> NDArray[np.bool_]:
        """Return which of the records before number `i` are like it: [i]."""
        holders = [self._holders[word] for word in self._words[i].tolist()]
        shared = np.bincount(
            np.array([j for row in holders for j in row], dtype=np.int64), minlength=i
        )
        return np.asarray(shared[:i] > ALIKE * np.minimum(self._sizes[:i], self._sizes[i]))


def _words(ids: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the different words of a record as numbers; those with gaps are left out."""
    if len(ids) < _WORD:
        return np.zeros(0, dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, _WORD)
    whole = windows[(windows != _NOTHING).all(axis=1)]
    # A product beyond 64 bits wraps around: words that fall together make groups larger, no more.
    return np.unique(whole @ (np.int64(size) ** np.arange(_WORD)))
