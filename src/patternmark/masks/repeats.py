"""Find the positions of a record that repeat an earlier stretch, and so are no new evidence.

A p-value that counts positions treats each of them as new evidence. A stretch that occurs twice in
a record, exactly or nearly, would count the same evidence twice: tandem and distant repeats, copies
of a chain, runs such as QQQQQQ or GSGSGSGS. The first copy counts, later ones do not.

The rule. A stretch at lag d (it agrees with the symbols d positions earlier) is scored by the
log-likelihood ratio of "copied" against "unrelated": half of a copy's symbols are kept, the others
agree by chance. Each agreement adds to the score and each disagreement reduces it. The best stretch
around each seed, a word found twice, must reach log(d (1 + log n) / `ACCIDENTS_PER_POSITION`).
Unrelated stretches reach a score s with probability of order exp(-s), so this limit loses the same
small share of a record of any length. It grows with d: chance offers many agreements somewhere in
a long record, but few runs and tandem repeats.

An unscored symbol, such as X, is a wildcard: it agrees with everything and does not change the
score. Words are unbroken runs, so with X at every second place there would be none. So if an
unscored symbol breaks the word that begins at a place, the first letter of the word is the seed.

The same rule fits every alphabet, because rare symbols weigh more: among 400 symbols at a distance
of 100, an exact repeat is one of 7 amino acids or of 4 tokens of text.

A repeat matters if it uses the same secret again. With the paper's scheme every repeat does. The
scheme `turns` has a new half for every block, so a copy farther on in a chain is new evidence:
`reuses_secret` says at which lags it is not. Copies in another chain count only once, because its
phase is unknown and may be the same.

The mask depends only on the symbols, never on a key, so it cannot bias a test that follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR, Alphabet

# Sets how many positions are lost by accident: about 0.1 % of a shuffled protein.
ACCIDENTS_PER_POSITION = 5e-4

_REACH = 48  # symbols that are compared on each side of a seed; longer stretches have several seeds
_MAX_EARLIER = 32  # earlier places of a word that are tried: limits the work for poly-Q
_ALL_OF_NEAREST = 2  # of these places, the nearest, which are always tried; then see _thin_out
_ANCHOR_EVERY = 16  # positions between the seeds of a long stretch that _thin_out keeps
_SEEDS_AT_ONCE = 1024  # seeds that are scored together: limits the memory, and fits the cache
_MIN_WORDS = 4096  # possible words: sets the length of a word

# Codes in an array of symbols besides ids. Both are negative and match nothing.
_UNKNOWN = -1  # an unscored symbol: counts neither for nor against a repeat
_BREAK = -2  # the end of a chain or record: a stretch cannot cross it
_BROKEN = -1e4  # a score so low that a stretch cannot cross a break

Lags = Callable[[NDArray[np.int64]], NDArray[np.bool_]]


def find_repeats(ids: NDArray[np.int64], alphabet: Alphabet = PROTEIN) -> NDArray[np.bool_]:
    """Mark the scored positions that repeat an earlier stretch of the same record: [n].

    >>> first, copy = "MKTAYIAKQRQISF", "MKTAYIWKQRQISF"
    >>> find_repeats(PROTEIN.encode(first + copy)).nonzero()[0].tolist() == list(range(14, 28))
    True
    """
    return find_repeats_many([ids], alphabet)[0]


def find_repeats_many(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet = PROTEIN,
    reuses_secret: Lags | None = None,
) -> list[NDArray[np.bool_]]:
    """Do what `find_repeats` does for each of several records; faster than one by one.

    `reuses_secret` says which lags within a chain count as repeats; None means that all do.
    """
    if not records:
        return []
    lengths = np.array([len(ids) for ids in records], dtype=np.int64)
    starts = _REACH + np.cumsum(lengths + 1) - lengths - 1
    symbols = np.full(2 * _REACH + int(np.sum(lengths + 1)), _BREAK, dtype=np.int32)
    code_of = _code_of_id(alphabet)
    for start, ids in zip(starts.tolist(), records, strict=True):
        symbols[start : start + len(ids)] = code_of[ids]
    marked = _mark(symbols, lengths, alphabet, reuses_secret)
    bounds = zip(starts.tolist(), lengths.tolist(), strict=True)
    return [marked[start : start + length] for start, length in bounds]


@lru_cache(maxsize=8)
def _code_of_id(alphabet: Alphabet) -> NDArray[np.int32]:
    codes = np.arange(alphabet.size + 1, dtype=np.int32)
    codes[list(alphabet.unscored)] = _UNKNOWN
    codes[SEPARATOR] = _BREAK  # index -1: the entry after the last id
    return codes


def _mark(
    symbols: NDArray[np.int32],
    lengths: NDArray[np.int64],
    alphabet: Alphabet,
    reuses_secret: Lags | None,
) -> NDArray[np.bool_]:
    """Mark repeats in all records, which are stored one after another: [len(symbols)]."""
    weights = _weights(alphabet.num_scored)
    # The part of the limit that does not depend on the lag: [batch]
    log_prior = np.log((1 + np.log(np.maximum(lengths, 1))) / ACCIDENTS_PER_POSITION)
    begin: list[NDArray[np.int64]] = []
    end: list[NDArray[np.int64]] = []
    record_of = np.repeat(np.arange(len(lengths)), lengths + 1)  # the first entry is place _REACH
    chain_of = np.cumsum(symbols == _BREAK)
    for earlier, later in _seeds(symbols, record_of, alphabet):
        left, right = _sums_around(symbols, earlier, later, weights)
        score = np.maximum(left.max(axis=1), 0) + right.max(axis=1)
        bar = np.log(later - earlier) + log_prior[record_of[later - _REACH]]
        is_repeat = score >= bar
        if reuses_secret is not None:
            is_repeat &= (chain_of[earlier] != chain_of[later]) | reuses_secret(later - earlier)
        found = np.flatnonzero(is_repeat)
        if found.size:
            left, right, here = left[found], right[found], later[found]
            begin.append(here - np.where(left.max(axis=1) > 0, left.argmax(axis=1) + 1, 0))
            end.append(here + right.argmax(axis=1) + 1)
    if not begin:
        return np.zeros(len(symbols), dtype=bool)
    size = len(symbols) + 1
    depth = np.bincount(np.concatenate(begin), minlength=size)
    depth -= np.bincount(np.concatenate(end), minlength=size)
    return (np.cumsum(depth[:-1]) > 0) & (symbols >= 0)


def _weights(num_scored: int) -> tuple[np.float32, np.float32]:
    """Return the log-likelihood ratios of an agreement and of a disagreement.

    Some symbols are more frequent than others, so two unrelated ones agree more often than 1 in the
    number of symbols: a fifth more often for amino acids, and in text about 1 in 100 for a
    vocabulary of any size.
    """
    chance = max(1.2 / max(num_scored, 2), 0.01)
    copied = (1 + chance) / 2
    return (
        np.float32(math.log(copied / chance)),
        np.float32(math.log((1 - copied) / (1 - chance))),
    )


def _seeds(
    symbols: NDArray[np.int32], record_of: NDArray[np.int64], alphabet: Alphabet
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of places of one record (earlier, later) at which the same word begins."""
    words, places, broken = _words(symbols, alphabet)
    yield from _pairs(symbols, record_of, words, places)
    if broken.size:
        # In records with broken words, a letter is a seed if a word is broken at one of its places.
        hit = np.isin(record_of[places - _REACH], record_of[broken - _REACH])
        single = np.sort(np.concatenate([places[hit], broken]))
        is_broken = np.zeros(len(symbols), dtype=bool)
        is_broken[broken] = True
        for earlier, later in _pairs(symbols, record_of, symbols[single], single):
            kept = is_broken[earlier] | is_broken[later]
            if kept.any():
                yield earlier[kept], later[kept]


def _pairs(
    symbols: NDArray[np.int32],
    record_of: NDArray[np.int64],
    words: NDArray[np.integer],
    places: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of places of one record with the same word, the nearest pairs first."""
    order = np.argsort(words, kind="stable")
    words, places = words[order], places[order]
    record = record_of[places - _REACH]
    same = (words[1:] == words[:-1]) & (record[1:] == record[:-1])
    # For each place, the number of later places with the same word and record.
    last_of_kind = np.append(np.flatnonzero(~same), len(words) - 1)
    first = np.flatnonzero(same)
    num_following = last_of_kind[np.searchsorted(last_of_kind, first)] - first
    waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for step in range(1, _MAX_EARLIER + 1):
        if not first.size:
            break
        pairs = places[first], places[first + step]
        waiting.append(pairs if step <= _ALL_OF_NEAREST else _thin_out(symbols, *pairs))
        if sum(len(earlier) for earlier, _ in waiting) >= _SEEDS_AT_ONCE:
            yield from _in_blocks(waiting)
            waiting = []
        more = num_following > step
        first, num_following = first[more], num_following[more]
    if waiting:
        yield from _in_blocks(waiting)


def _words(
    symbols: NDArray[np.int32], alphabet: Alphabet
) -> tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.int64]]:
    """Return the words of known symbols as numbers, their places, and the places of broken words.

    A word is broken if it begins with a known symbol and contains an unknown one.
    """
    length = 3
    while alphabet.num_scored > 1 and alphabet.num_scored**length < _MIN_WORDS:
        length += 1
    stop = len(symbols) - length + 1
    numbers, signs = symbols[:stop].astype(np.int64), symbols[:stop]
    lowest = signs
    for shift in range(1, length):
        # A product above 64 bits wraps around. If two words then get the same number, this only
        # costs time: the symbols themselves are compared later.
        numbers = numbers * alphabet.size + symbols[shift : shift + stop]
        signs = signs | symbols[shift : shift + stop]  # negative if any of them is
        lowest = np.minimum(lowest, symbols[shift : shift + stop])
    places = np.flatnonzero(signs >= 0)
    small = alphabet.size**length <= 1 << 16  # numpy sorts 16 bits in linear time
    broken = np.flatnonzero((lowest == _UNKNOWN) & (symbols[:stop] >= 0))
    return numbers[places].astype(np.uint16 if small else np.int64), places, broken


def _thin_out(
    symbols: NDArray[np.int32], earlier: NDArray[np.int64], later: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Drop most seeds that continue another seed, because they lie in the same stretch."""
    before = symbols[earlier - 1]
    continues = (before == symbols[later - 1]) & (before >= 0)
    kept = ~continues | (later % _ANCHOR_EVERY == 0)
    return earlier[kept], later[kept]


def _in_blocks(
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    earlier, later = (np.concatenate(places) for places in zip(*pairs, strict=True))
    for start in range(0, len(earlier), _SEEDS_AT_ONCE):
        block = slice(start, start + _SEEDS_AT_ONCE)
        yield earlier[block], later[block]


def _sums_around(
    symbols: NDArray[np.int32],
    earlier: NDArray[np.int64],
    later: NDArray[np.int64],
    weights: tuple[np.float32, np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the scores of the stretches to the left and to the right of each seed.

    Entry r of a row scores the r + 1 symbols next to the seed's start: [seeds, _REACH], twice.
    """
    # Row i of this view has the symbols from i to i + 2 * _REACH - 1. It is made by hand, because
    # numpy's own functions take several microseconds more for a usual protein.
    shape = (len(symbols) - 2 * _REACH + 1, 2 * _REACH)
    around: NDArray[np.int32] = np.ndarray(shape, np.int32, symbols, strides=symbols.strides * 2)
    one, other = around[earlier - _REACH], around[later - _REACH]  # [seeds, 2 * _REACH]
    score = np.where(one == other, *weights)
    lowest = np.minimum(one, other)
    score[lowest == _UNKNOWN] = 0
    score[lowest == _BREAK] = _BROKEN
    return score[:, _REACH - 1 :: -1].cumsum(axis=1), score[:, _REACH:].cumsum(axis=1)
