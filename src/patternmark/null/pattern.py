"""The exact null of the pattern count, P_{T,n}: one interface for two ways to compute it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from patternmark.core.chain import KeyChain
from patternmark.null.automaton import counting_chain
from patternmark.null.direct import distributions, tail_from
from patternmark.null.tilted import TiltedCount
from patternmark.statistics.patterns import Patterns

TABLE_LENGTH = 1024  # keys up to which a table is used; longer tails are computed one by one
_MAX_TABLE_WORK = 2e8  # moves x keys x counts; a large target set gets a shorter table
_TABLE_FLOOR = 1e-280  # smaller tails may have lost terms of the table by underflow
_MAX_CACHED = 2**16  # tails


class PatternNull:
    """The number of target patterns in a sequence without a mark.

    Keys follow `null`: the paper's uniform chain unless another is given. Unscored symbols split a
    sequence into segments, whose `lengths` are given. Each segment starts from the initial
    distribution of `null`, and the null of the total is the exact convolution.

    >>> null = PatternNull(Patterns.favoured(KeyChain.alternating(), 3))
    >>> round(null.tail(2, [4]), 12)  # 0101 and 1010 of 16
    0.125
    >>> round(null.log_tail(4998, [5000]) / log(2), 6)  # the two alternating sequences
    -4999.0
    >>> round(null.mean([10]), 12)
    2.0
    """

    def __init__(self, patterns: Patterns, null: KeyChain | None = None) -> None:
        self.patterns = patterns
        self.null = null if null is not None else KeyChain.uniform(patterns.num_keys)
        self.chain = counting_chain(patterns, self.null)
        affordable = int((_MAX_TABLE_WORK / len(self.chain.source)) ** 0.5)
        self._table_length = TABLE_LENGTH if self.chain.is_small else min(TABLE_LENGTH, affordable)
        # A scan asks for the same few lengths and counts many times.
        self._known_tails: dict[tuple[int, tuple[int, ...]], float] = {}
        self._known_lengths: dict[int, tuple[float, int]] = {}

    def log_tail(self, count: int, lengths: Sequence[int]) -> float:
        """Return ln P(C >= count) over segments of the given lengths."""
        question = (int(count), tuple(sorted(lengths)))
        if question not in self._known_tails:
            if len(self._known_tails) >= _MAX_CACHED:
                self._known_tails.clear()
            self._known_tails[question] = self._log_tail(*question)
        return self._known_tails[question]

    def tail(self, count: int, lengths: Sequence[int]) -> float:
        """Return P(C >= count); 0.0 if that is too small for a float."""
        return float(np.exp(self.log_tail(count, lengths)))

    def largest_count(self, lengths: Sequence[int]) -> int:
        """Return the largest count that segments of these lengths can reach."""
        return sum(self._of_length(n)[1] for n in lengths)

    def distribution(self, lengths: Sequence[int]) -> NDArray[np.float64]:
        """Return P(C = c) for c = 0, 1, ...: by convolution, or by transform if long."""
        if sum(lengths) > self._table_length:
            return TiltedCount(self.chain, lengths).distribution()
        return self._short_distribution(tuple(lengths))

    def mean(self, lengths: Sequence[int]) -> float:
        """Return the expected count."""
        return sum(self._of_length(n)[0] for n in lengths)

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """P(C = c) after n keys of one segment, for all n up to the table's length."""
        return distributions(self.chain, self._table_length)

    def _log_tail(self, count: int, lengths: tuple[int, ...]) -> float:
        if count <= 0:
            return 0.0
        if sum(lengths) <= self._table_length:
            tail = tail_from(self._short_distribution(lengths), count)
            if tail > _TABLE_FLOOR:
                return min(log(tail), 0.0)
        return TiltedCount(self.chain, lengths).log_tail(count)

    def _short_distribution(self, lengths: tuple[int, ...]) -> NDArray[np.float64]:
        total = np.ones(1)
        for n in lengths:
            most = max(n - self.patterns.length + 1, 0)
            total = np.convolve(total, self.table[n, : most + 1])
        return total

    def _of_length(self, length: int) -> tuple[float, int]:
        """Return the expected and the largest count of one segment."""
        if length not in self._known_lengths:
            largest = TiltedCount(self.chain, [length]).largest_count
            self._known_lengths[length] = (self._mean(length), largest)
        return self._known_lengths[length]

    def _mean(self, length: int) -> float:
        """Return the expected count of one segment: the sum of the hits along the chain."""
        if length < 1:
            return 0.0
        if not self.chain.is_small:
            return self._mean_by_moves(length)
        S = self.chain.num_states
        step = np.zeros((S + 1, S + 1))  # the last coordinate collects the hits
        step[:S, :S] = self.chain.miss + self.chain.hit
        step[:S, S] = self.chain.hit.sum(axis=1)
        step[S, S] = 1.0
        start = np.append(self.chain.start_miss + self.chain.start_hit, self.chain.start_hit.sum())
        return float((start @ np.linalg.matrix_power(step, length - 1))[S])

    def _mean_by_moves(self, length: int) -> float:
        """Do what `_mean` does for many states: key by key, along the list of moves."""
        chain = self.chain
        state, mean = chain.start_miss + chain.start_hit, float(chain.start_hit.sum())
        for _ in range(length - 1):
            mean += float(state[chain.source] @ (chain.probability * chain.is_hit))
            state = chain.move(state, chain.probability)
        return mean


def signature_of(null: KeyChain) -> str:
    """Return a short name for a chain: "uniform", its probabilities, or a hash.

    >>> signature_of(KeyChain.uniform(3)), signature_of(KeyChain.independent([0.25, 0.75]))
    ('uniform', '0.25,0.75')
    """
    if null == KeyChain.uniform(null.num_keys):
        return "uniform"
    if set(null.transition) == {null.initial}:
        return ",".join(map(repr, null.initial))
    content = repr((null.transition, null.initial)).encode()
    return f"markov-{hashlib.sha256(content).hexdigest()[:8]}"
