"""Sequences in one array, with gaps between them, so that their pairs are counted together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import SEPARATOR, Alphabet
from patternmark.models.canvas import EMPTY, OUTSIDE
from patternmark_lab.schemes.rules import GAP


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of scored symbols at one distance, in all sequences."""

    left: NDArray[np.int64]  # [n]
    right: NDArray[np.int64]  # [n]
    record: NDArray[np.int64]  # [n] the number of the sequence

    def distinct(self, symbols: int) -> Pairs:
        """Return each different pair of a sequence once."""
        name = (self.record * symbols + self.left) * symbols + self.right
        _, first = np.unique(name, return_index=True)
        return Pairs(self.left[first], self.right[first], self.record[first])


@dataclass(frozen=True, eq=False)
class Layout:
    """Sequences in one array, with a gap before each sequence and between its chains."""

    tokens: NDArray[np.int64]  # [F] scored ids; EMPTY for other ids, OUTSIDE in gaps
    record: NDArray[np.int64]  # [F] the number of the sequence
    count: int

    @classmethod
    def of(cls, sequences: Iterable[str | ArrayLike], alphabet: Alphabet) -> Layout:
        """Lay out sequences, given as letters or ids."""
        encoded = [alphabet.encode(sequence) for sequence in sequences]
        lengths = [len(ids) for ids in encoded]
        ids = np.concatenate([np.zeros(0, dtype=np.int64), *encoded])
        record = np.repeat(np.arange(len(encoded)), lengths)
        is_end = ids == SEPARATOR
        # A separator is one place of its gap already.
        place = np.arange(len(ids)) + GAP * (record + 1) + (GAP - 1) * np.cumsum(is_end)
        size = int(place[-1]) + 1 if len(ids) else 0
        tokens, records = np.full(size, OUTSIDE), np.zeros(size, dtype=np.int64)
        tokens[place] = np.where(is_end, OUTSIDE, np.where(alphabet.is_scored(ids), ids, EMPTY))
        records[place] = record
        return cls(tokens, records, len(encoded))

    def scored(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the scored symbols, and the sequence number of each: [n] both."""
        known = self.tokens >= 0
        return self.tokens[known], self.record[known]

    def pairs(self, lag: int) -> Pairs:
        """Return the pairs of scored symbols that are `lag` places apart in one chain."""
        left, right = self.tokens[:-lag], self.tokens[lag:]
        known = (left >= 0) & (right >= 0)
        return Pairs(left[known], right[known], self.record[lag:][known])

    def counts(
        self, pairs: Pairs, hit: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of hits and of pairs in each sequence: [count] both."""
        return self.per_sequence(pairs.record[hit]), self.per_sequence(pairs.record)

    def per_sequence(self, record: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count how often each sequence number occurs in `record`: [count]."""
        return np.bincount(record, minlength=self.count)


def pairs_to_count(layout: Layout, alphabet: Alphabet, distinct: bool | None) -> Pairs:
    """Return pairs of neighbours, all or (`distinct`) each once; None: once if many symbols."""
    pairs = layout.pairs(1)
    once = alphabet.has_many_symbols if distinct is None else distinct
    return pairs.distinct(alphabet.size) if once else pairs
