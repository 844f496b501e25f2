"""Which positions of a record repeat an earlier stretch of it, and so say nothing new.

A p-value that counts positions takes each of them for fresh evidence. A stretch that stands in the
record twice, exactly or nearly so, speaks twice with one voice: tandem and distant repeats, copies
of a chain, runs such as QQQQQQ or GSGSGSGS. The first copy counts, later ones do not.

How it is decided. A stretch at lag d (it agrees with what stands d positions earlier) is scored by
the log-likelihood ratio of "copied" against "unrelated": half of a copy's symbols are kept, the
others agree by chance. Each agreement adds and each disagreement takes away, and the best stretch
around each seed, a word found twice, must reach log(d (1 + log n) / `ACCIDENTS_PER_POSITION`).
An unrelated pair of stretches reaches a score s with probability of order exp(-s), so the bar
spends the same small loss on a record of any length. It spends it by 1/d: a run or a tandem repeat
is held to less than an agreement somewhere in a long record, of which chance offers many.

An unscored symbol, such as X, is a wildcard: it agrees with everything and says nothing. Words are
unbroken runs, so that X at every second place would leave none. So where an unscored symbol breaks
the word that begins at a place, its first letter alone is the seed.

The same rule fits every alphabet, because rare symbols weigh more: among 400 symbols at a distance
of 100, an exact repeat is one of 7 amino acids or of 4 tokens of text.

A repeat matters where it meets the same secret again. With the paper's scheme every position does;
a schedule that takes turns has a fresh half for every block, so that a copy further on in a chain
is news: `matters` says at which lags it is not. Copies in another chain always count once, for its
phase is unknown and may be the same.

The mask looks at the symbols only, never at a key, so that it cannot bias a test that follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR, Alphabet

# Sets how much is lost by accident: about 0.1 % of the positions of a shuffled protein.
ACCIDENTS_PER_POSITION = 5e-4

_REACH = 48  # how far a stretch is followed from its seed; longer ones have several seeds
_MAX_EARLIER = 32  # how many earlier places of one word are tried: bounds the work on poly-Q
_ALL_OF_NEAREST = 2  # of places further back, only some are tried where many follow each other
_ANCHOR_EVERY = 16  # namely the first, and one in so many
_SEEDS_AT_ONCE = 1024  # bounds the memory, and stays in the cache
_WORDS_AT_LEAST = 4096  # seeds are as long as it takes to have so many different words

# What an array of symbols holds besides ids. Both are negative and match nothing.
_UNKNOWN = -1  # an unscored symbol: speaks neither for nor against a repeat
_BREAK = -2  # the end of a chain or record: no stretch reaches across
_BROKEN = -1e4  # a score from which no stretch recovers

Lags = Callable[[NDArray[np.int64]], NDArray[np.bool_]]


def repeated(ids: NDArray[np.int64], alphabet: Alphabet = PROTEIN) -> NDArray[np.bool_]:
    """Mark the scored positions that repeat an earlier stretch of the same record: [n].

    >>> first, copy = "MKTAYIAKQRQISF", "MKTAYIWKQRQISF"
    >>> repeated(PROTEIN.encode(first + copy)).nonzero()[0].tolist() == list(range(14, 28))
    True
    """
    return repeated_many([ids], alphabet)[0]


def repeated_many(
    records: Sequence[NDArray[np.int64]],
    alphabet: Alphabet = PROTEIN,
    matters: Lags | None = None,
) -> list[NDArray[np.bool_]]:
    """Do the same for every record by itself; faster than one by one.

    `matters` tells which lags within a chain count as repeats; without it all do.
    """
    if not records:
        return []
    lengths = np.array([len(ids) for ids in records], dtype=np.int64)
    starts = _REACH + np.cumsum(lengths + 1) - lengths - 1
    symbols = np.full(2 * _REACH + int(np.sum(lengths + 1)), _BREAK, dtype=np.int32)
    code_of = _code_of_id(alphabet)
    for start, ids in zip(starts.tolist(), records, strict=True):
        symbols[start : start + len(ids)] = code_of[ids]
    marked = _mark(symbols, lengths, alphabet, matters)
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
    matters: Lags | None,
) -> NDArray[np.bool_]:
    """Mark what repeats, in all records laid end to end: [len(symbols)]."""
    weights = _weights(alphabet.num_scored)
    # What the bar of a record holds besides the lag: [batch]
    log_prior = np.log((1 + np.log(np.maximum(lengths, 1))) / ACCIDENTS_PER_POSITION)
    begin: list[NDArray[np.int64]] = []
    end: list[NDArray[np.int64]] = []
    record_of = np.repeat(np.arange(len(lengths)), lengths + 1)  # where place _REACH comes first
    chain_of = np.cumsum(symbols == _BREAK)
    for earlier, later in _seeds(symbols, record_of, alphabet):
        left, right = _sums_around(symbols, earlier, later, weights)
        score = np.maximum(left.max(axis=1), 0) + right.max(axis=1)
        bar = np.log(later - earlier) + log_prior[record_of[later - _REACH]]
        is_repeat = score >= bar
        if matters is not None:
            is_repeat &= (chain_of[earlier] != chain_of[later]) | matters(later - earlier)
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

    Symbols are used unequally, so two unrelated ones agree more often than 1 in the number of
    symbols: a fifth more often among amino acids, and in text about 1 in 100 for a vocabulary of
    any size.
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
        # In records with a broken word every letter is a seed, if at one of its two places.
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
    """Yield pairs of places of one record that have the same word: the nearest of each."""
    order = np.argsort(words, kind="stable")
    words, places = words[order], places[order]
    record = record_of[places - _REACH]
    same = (words[1:] == words[:-1]) & (record[1:] == record[:-1])
    # How many of the places that follow, in this order, have the same word and record.
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
    """Return the words of known symbols as numbers, where they begin, and where one is broken.

    A word is broken where it begins with a known symbol and holds an unknown one.
    """
    length = 3
    while alphabet.num_scored > 1 and alphabet.num_scored**length < _WORDS_AT_LEAST:
        length += 1
    stop = len(symbols) - length + 1
    numbers, signs = symbols[:stop].astype(np.int64), symbols[:stop]
    lowest = signs
    for shift in range(1, length):
        # A product beyond 64 bits wraps around. Words that then fall together cost time only:
        # the symbols themselves are compared later.
        numbers = numbers * alphabet.size + symbols[shift : shift + stop]
        signs = signs | symbols[shift : shift + stop]  # negative if any of them is
        lowest = np.minimum(lowest, symbols[shift : shift + stop])
    places = np.flatnonzero(signs >= 0)
    small = alphabet.size**length <= 1 << 16  # 16 bits are sorted in linear time
    broken = np.flatnonzero((lowest == _UNKNOWN) & (symbols[:stop] >= 0))
    return numbers[places].astype(np.uint16 if small else np.int64), places, broken


def _thin_out(
    symbols: NDArray[np.int32], earlier: NDArray[np.int64], later: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Drop most seeds that continue another one, for they lie in the same stretch."""
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
    # Row i of this view: the symbols from i to i + 2 * _REACH - 1. Made by hand, because numpy's
    # own helpers for it cost a usual protein several microseconds more.
    shape = (len(symbols) - 2 * _REACH + 1, 2 * _REACH)
    around: NDArray[np.int32] = np.ndarray(shape, np.int32, symbols, strides=symbols.strides * 2)
    one, other = around[earlier - _REACH], around[later - _REACH]  # [seeds, 2 * _REACH]
    score = np.where(one == other, *weights)
    lowest = np.minimum(one, other)
    score[lowest == _UNKNOWN] = 0
    score[lowest == _BREAK] = _BROKEN
    return score[:, _REACH - 1 :: -1].cumsum(axis=1), score[:, _REACH:].cumsum(axis=1)
