"""Find protein chains that are alike: near-duplicates, families, and relatives of given chains.

Needs numba: it compares all chains of the PDB with each other within minutes.

Two chains are **related** if a local alignment (BLOSUM62, a gap of n residues costs 10 + n) around
a shared stretch of a few letters reaches a given score over at least 40 pairs of residues.
Histidine tags, which every fifth chain of the PDB has, are ignored. At usual lengths, one unrelated
pair in about ten million reaches a score of 90. A family holds all chains that are related directly
or through others, so that no chain has a relative in another family.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.masks.blosum import blosum62

FAMILY_SCORE = 90  # alignment score from which two chains are in one family
RELATIVE_SCORE = 75  # alignment score from which a chain is too close to a held-out one to train on

_DUPLICATE_LETTERS = 6  # length of the stretches that are compared
_DUPLICATE_SHARE = 0.5  # of these stretches in common: about 90 % identity
# _SEED: letters in a row that two chains must share to be compared. _WORTH: score without gaps from
# which they are aligned. The finer pair of values is for a few chains against many.
_FAMILY_SEED, _FAMILY_WORTH = 4, 45
_RELATIVE_SEED, _RELATIVE_WORTH = 3, 40
_DROP = 16  # an extension ends when its score is this far below its best
_BAND = 12  # diagonals on either side that gaps may reach
_GAP_OPEN, _GAP_LETTER = 11, 1
_MIN_ALIGNED = 40  # pairs of residues
_TAG = re.compile("[A-Z]{0,16}HHHH+[A-Z]{0,16}")  # with the residues that cloning leaves beside it


def _scores() -> NDArray[np.int32]:
    """Return BLOSUM62 in the order of PROTEIN; X scores -1 against every letter: [21, 21]."""
    table = np.full((PROTEIN.size, PROTEIN.size), -1, dtype=np.int32)
    known, _ = blosum62()
    table[: len(known), : len(known)] = known
    return table


_Index = tuple[NDArray[np.int64], NDArray[np.int64]]
_Row = tuple[
    NDArray[np.int32], NDArray[np.int64]
]  # letters of all chains, and where each chain starts


class Chains:
    """All chains in one array, end to end, with tags replaced by X."""

    def __init__(self, sequences: Sequence[str]) -> None:
        untagged = (_TAG.sub(lambda tag: "X" * len(tag[0]), text) for text in sequences)
        encoded = [PROTEIN.encode(sequence) for sequence in untagged]
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])  # [n + 1]
        self.letters = np.concatenate([*encoded, np.empty(0, np.int64)]).astype(np.int32)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def words(self, letters: int) -> NDArray[np.int64]:
        """Number the stretch of `letters` letters at every place; -1 if it holds an end or an X."""
        size = len(self.letters)
        number = np.zeros(size, dtype=np.int64)
        is_bad = np.zeros(size, dtype=bool)
        chain = np.repeat(np.arange(len(self)), np.diff(self.starts))
        for step in range(letters):
            shifted = np.full(size, 20, dtype=np.int64)
            same = np.zeros(size, dtype=bool)
            if step < size:
                shifted[: size - step] = self.letters[step:]
                same[: size - step] = chain[step:] == chain[: size - step]
            is_bad |= ~same | (shifted == 20)
            number = number * 20 + shifted
        number[is_bad] = -1
        return number


def duplicates(sequences: Sequence[str]) -> NDArray[np.int64]:
    """Return for each chain the kept chain that it nearly equals, or itself: [n].

    Longer chains are kept first; among equally long ones, the first. A chain nearly equals another
    if at least half of its stretches of six letters also occur there.
    """
    chains = Chains(sequences)
    order = np.argsort(-np.diff(chains.starts), kind="stable")
    words = chains.words(_DUPLICATE_LETTERS)
    return np.asarray(_duplicates(words, chains.starts, order, _DUPLICATE_SHARE))


def families(sequences: Sequence[str], score: int = FAMILY_SCORE) -> NDArray[np.int64]:
    """Return the family number of each chain, 0 for the largest family: [n]."""
    chains = Chains(sequences)
    parent = np.arange(len(chains))
    words = chains.words(_FAMILY_SEED)
    index = _index(words, _FAMILY_SEED)
    limits = (_FAMILY_WORTH, score)
    _join(chains.letters, chains.starts, words, index, _scores(), limits, parent)
    roots = np.array([_root(parent, i) for i in range(len(chains))], dtype=np.int64)
    found, number, counts = np.unique(roots, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(found))
    return np.asarray(rank[number])


def have_relatives(
    sequences: Sequence[str], held_out: Sequence[str], score: int = RELATIVE_SCORE
) -> NDArray[np.bool_]:
    """Tell which chains are related to any held-out chain: [n]."""
    chains, others = Chains(sequences), Chains(held_out)
    words = chains.words(_RELATIVE_SEED)
    index = _index(others.words(_RELATIVE_SEED), _RELATIVE_SEED)
    ours, theirs = (chains.letters, chains.starts), (others.letters, others.starts)
    limits = (_RELATIVE_WORTH, score)
    return np.asarray(_have_relatives(ours, words, theirs, index, _scores(), limits))


def _index(words: NDArray[np.int64], letters: int) -> _Index:
    """Return all places sorted by word, and the first index of each word."""
    known = np.flatnonzero(words >= 0)
    places = known[np.argsort(words[known], kind="stable")]
    first = np.searchsorted(words[places], np.arange(20**letters + 1))
    return places, first


@njit(cache=True, nogil=True)
def _duplicates(
    words: NDArray[np.int64], starts: NDArray[np.int64], order: NDArray[np.int64], share: float
) -> NDArray[np.int64]:
    """Go through the chains by length, and keep the words of kept chains in a hash table."""
    buckets = 1 << 22
    head = np.full(buckets, -1, np.int64)
    following = np.full(len(words), -1, np.int64)
    chain_at = np.full(len(words), -1, np.int64)
    shared = np.zeros(len(starts), np.int64)
    last_seen = np.full(len(starts), -1, np.int64)  # so that a word counts once at each place
    found = np.arange(len(starts) - 1)
    for chain in order:
        kept = [np.int64(0) for _ in range(0)]
        total = 0
        for place in range(starts[chain], starts[chain + 1]):
            if words[place] < 0:
                continue
            total += 1
            entry = head[words[place] % buckets]
            while entry >= 0:
                other = chain_at[entry]
                if words[entry] == words[place] and last_seen[other] != place:
                    last_seen[other] = place
                    if shared[other] == 0:
                        kept.append(other)
                    shared[other] += 1
                entry = following[entry]
        best = np.int64(-1)
        for other in kept:
            if shared[other] >= share * total and (best < 0 or shared[other] > shared[best]):
                best = other
        for other in kept:
            shared[other] = 0
        if best >= 0:
            found[chain] = best
            continue
        for place in range(starts[chain], starts[chain + 1]):
            if words[place] >= 0:
                bucket = words[place] % buckets
                chain_at[place], following[place] = chain, head[bucket]
                head[bucket] = place
    return found


@njit(cache=True, nogil=True)
def _root(parent: NDArray[np.int64], item: int) -> int:
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


@njit(cache=True, nogil=True)
def _join(
    letters: NDArray[np.int32],
    starts: NDArray[np.int64],
    words: NDArray[np.int64],
    index: _Index,
    scores: NDArray[np.int32],
    limits: tuple[int, int],
    parent: NDArray[np.int64],
) -> None:
    """Put related chains into one family."""
    places, first = index
    worth, least = limits
    chain_at = np.empty(len(letters), np.int32)
    for chain in range(len(starts) - 1):
        chain_at[starts[chain] : starts[chain + 1]] = chain
    reached = np.full(2 * len(letters), -1, np.int64)  # by diagonal: how far one was extended
    for chain in range(len(starts) - 1):
        begin, end = starts[chain], starts[chain + 1]
        for place in range(begin, end):
            word = words[place]
            if word < 0:
                continue
            for entry in range(first[word], first[word + 1]):
                other_place = places[entry]
                if other_place >= begin:
                    break  # this pair is compared when the loop reaches the other chain
                diagonal = other_place - place + len(letters)
                if reached[diagonal] > place:
                    continue
                other = chain_at[other_place]
                if _root(parent, chain) == _root(parent, other):
                    continue
                bounds = (begin, end, starts[other], starts[other + 1])
                value, right = _extend(letters, letters, place, other_place, bounds, scores)
                reached[diagonal] = right
                if value >= worth and _is_related(
                    letters, letters, place - other_place, bounds, scores, least
                ):
                    parent[_root(parent, chain)] = _root(parent, other)


@njit(cache=True, nogil=True)
def _have_relatives(
    ours: _Row,
    words: NDArray[np.int64],
    theirs: _Row,
    index: _Index,
    scores: NDArray[np.int32],
    limits: tuple[int, int],
) -> NDArray[np.bool_]:
    """Tell which of our chains are related to any of theirs."""
    letters, starts = ours
    other_letters, other_starts = theirs
    places, first = index
    worth, least = limits
    chain_at = np.empty(len(other_letters), np.int32)
    for chain in range(len(other_starts) - 1):
        chain_at[other_starts[chain] : other_starts[chain + 1]] = chain
    found = np.zeros(len(starts) - 1, np.bool_)
    reached = np.full(len(letters) + len(other_letters), -1, np.int64)
    for chain in range(len(starts) - 1):
        begin, end = starts[chain], starts[chain + 1]
        for place in range(begin, end):
            word = words[place]
            if word < 0 or found[chain]:
                continue
            for entry in range(first[word], first[word + 1]):
                other_place = places[entry]
                diagonal = other_place - place + len(letters)
                if reached[diagonal] > place:
                    continue
                other = chain_at[other_place]
                bounds = (begin, end, other_starts[other], other_starts[other + 1])
                value, right = _extend(letters, other_letters, place, other_place, bounds, scores)
                reached[diagonal] = right
                if value >= worth and _is_related(
                    letters, other_letters, place - other_place, bounds, scores, least
                ):
                    found[chain] = True
                    break
    return found


@njit(cache=True, nogil=True)
def _extend(
    ours: NDArray[np.int32],
    theirs: NDArray[np.int32],
    place: int,
    other: int,
    bounds: tuple[int, int, int, int],
    scores: NDArray[np.int32],
) -> tuple[int, int]:
    """Return the best score without gaps around two places, and where our stretch ends."""
    begin, end, other_begin, other_end = bounds
    total = best = 0
    right = place
    steps = min(end - place, other_end - other)
    for step in range(steps):
        total += scores[ours[place + step], theirs[other + step]]
        if total > best:
            best, right = total, place + step
        elif total < best - _DROP:
            break
    total = best
    for step in range(1, min(place - begin, other - other_begin) + 1):
        total += scores[ours[place - step], theirs[other - step]]
        if total > best:
            best = total
        elif total < best - _DROP:
            break
    return best, right


@njit(cache=True, nogil=True)
def _is_related(
    ours: NDArray[np.int32],
    theirs: NDArray[np.int32],
    offset: int,
    bounds: tuple[int, int, int, int],
    scores: NDArray[np.int32],
    least: int,
) -> bool:
    """Align two chains locally, in a band around the diagonal ours - theirs = offset.

    Column b of the band stands for their place = our place - offset + b - BAND - 1. Each alignment
    keeps three numbers: its score, its number of pairs, and its best score so far. The number of
    pairs is checked only at a new best score, so that unlike residues after a tag do not count.
    """
    begin, end, other_begin, other_end = bounds
    none = -(1 << 20)
    score, pairs = np.zeros(2 * _BAND + 3, np.int32), np.zeros(2 * _BAND + 3, np.int32)
    best = np.zeros(2 * _BAND + 3, np.int32)
    gap = np.full(2 * _BAND + 3, none, np.int32)  # alignments that end in a gap of theirs
    gap_pairs, gap_best = np.zeros(2 * _BAND + 3, np.int32), np.zeros(2 * _BAND + 3, np.int32)
    for place in range(begin, end):
        left, left_pairs, left_best = none, 0, 0  # alignments that end in a gap of ours
        for b in range(1, 2 * _BAND + 2):
            other = place - offset + b - 1 - _BAND
            # We moved to our next place, but theirs is the same: the row above, one column right.
            if score[b + 1] - _GAP_OPEN > gap[b + 1] - _GAP_LETTER:
                gap[b], gap_pairs[b] = score[b + 1] - _GAP_OPEN, pairs[b + 1]
                gap_best[b] = best[b + 1]
            else:
                gap[b], gap_pairs[b] = gap[b + 1] - _GAP_LETTER, gap_pairs[b + 1]
                gap_best[b] = gap_best[b + 1]
            if not other_begin <= other < other_end:
                score[b] = pairs[b] = best[b] = 0
                gap[b] = left = none
                continue
            # The band moves with our place, so the pair before is in the same column of the row
            # above.
            now, count, top = score[b] + scores[ours[place], theirs[other]], pairs[b] + 1, best[b]
            if gap[b] > now:
                now, count, top = gap[b], gap_pairs[b], gap_best[b]
            if left > now:
                now, count, top = left, left_pairs, left_best
            if now <= 0:
                now, count, top = 0, 0, 0
            if now > top:
                top = now
                if now >= least and count >= _MIN_ALIGNED:
                    return True
            score[b], pairs[b], best[b] = now, count, top
            left -= _GAP_LETTER
            if now - _GAP_OPEN > left:
                left, left_pairs, left_best = now - _GAP_OPEN, count, top
    return False
