"""Markov chains over keys: they generate key sequences, and they describe the null hypothesis.

The paper's generator draws its keys from a chain (A, Q). Under the null hypothesis the recovered
keys follow a chain too, with uniform transitions. Both are a :class:`KeyChain`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import ParameterError

MAX_FAVOURED = 100_000  # patterns in a target set that is derived from the chain
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class KeyChain:
    """Transition probabilities A (one row per key) and initial probabilities Q.

    >>> KeyChain.alternating().follow(1, [0.1, 0.9, 0.4])
    array([1, 0, 1, 0])
    >>> KeyChain.of([[0.3, 0.6], [0.5, 0.5]], [0.5, 0.5])
    Traceback (most recent call last):
    patternmark.errors.ParameterError: row 1 of the transition matrix A sums to 0.9, not 1
    """

    transition: tuple[tuple[float, ...], ...]
    initial: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.num_keys < 2:
            raise ParameterError("a chain needs at least 2 keys")
        if len(self.transition) != self.num_keys:
            sizes = f"{len(self.transition)} rows, but Q has {self.num_keys} entries"
            raise ParameterError(f"the transition matrix A has {sizes}")
        for number, row in enumerate(self.transition, start=1):
            _check_distribution(row, self.num_keys, f"row {number} of the transition matrix A")
        _check_distribution(self.initial, self.num_keys, "the initial distribution Q")

    @classmethod
    def of(cls, transition: Iterable[Iterable[float]], initial: Iterable[float]) -> KeyChain:
        """Make a chain from any iterables of numbers: rows of a matrix, and a vector."""
        try:
            rows = tuple(tuple(float(x) for x in row) for row in transition)
            start = tuple(float(x) for x in initial)
        except (TypeError, ValueError):
            wanted = "A must be a list of rows of numbers, and Q a list of numbers"
            raise ParameterError(wanted) from None
        return cls(rows, start)

    @classmethod
    def alternating(cls) -> KeyChain:
        """Make the paper's chain: two keys alternate, and either may be first."""
        return cls.cycle(2)

    @classmethod
    def cycle(cls, num_keys: int) -> KeyChain:
        """Make the chain 0, 1, ..., l-1, 0, ... that begins with any key, all equally likely."""
        shift = np.roll(np.eye(num_keys), 1, axis=1)
        return cls.of(shift, [1.0 / num_keys] * num_keys)

    @classmethod
    def independent(cls, probabilities: Iterable[float]) -> KeyChain:
        """Make a chain of independent keys: the null for parts of these probabilities."""
        row = [float(p) for p in probabilities]
        return cls.of([row] * len(row), row)

    @classmethod
    def uniform(cls, num_keys: int) -> KeyChain:
        """Make the chain of the paper's null hypothesis: at every position all keys are equal."""
        return cls.independent([1.0 / num_keys] * num_keys)

    @property
    def num_keys(self) -> int:
        return len(self.initial)

    @property
    def is_deterministic(self) -> bool:
        """Whether the first key determines all the others, as in a cycle."""
        return all(1.0 in row for row in self.transition)

    def draw_first(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Turn numbers in [0, 1) into first keys, by inverting the cumulative Q: [B] -> [B]."""
        return np.searchsorted(_cumulative(self.initial), uniforms, side="right")

    def follow(self, first: int, uniforms: Iterable[float]) -> NDArray[np.int64]:
        """Return the first key and the keys after it, one for each number in [0, 1)."""
        keys = [first]
        for number in uniforms:
            keys.append(bisect_right(self._cumulative_rows[keys[-1]], number))
        return np.array(keys, dtype=np.int64)

    def orbits(self, length: int) -> NDArray[np.int64]:
        """Return the keys of a deterministic chain from each first key on: [l, length]."""
        keys = np.arange(self.num_keys)[:, None]
        jump = self.likeliest_next()  # for each key, the one that follows keys.shape[1] steps later
        while keys.shape[1] < length:
            keys = np.concatenate([keys, jump[keys]], axis=1)
            jump = jump[jump]
        return keys[:, :length]

    def likeliest_next(self) -> NDArray[np.intp]:
        """Return the most likely next key for each key: [l]."""
        return np.array([np.argmax(row) for row in self.transition])

    def favoured_steps(self, length: int) -> NDArray[np.bool_]:
        """Return which steps are likelier than chance (1/l): [l, l].

        Raise ParameterError if no pattern of this length consists of such steps, or if more than
        MAX_FAVOURED do.
        """
        if length < 2:
            raise ParameterError(f"a pattern of a chain has at least 2 keys, not {length}")
        advice = "or name the target patterns"
        steps = np.asarray(self.transition) > (1.0 + 1e-12) / self.num_keys
        patterns_from = np.ones(self.num_keys)  # how many patterns begin with each key
        for _ in range(length - 1):
            patterns_from = steps @ patterns_from
            if patterns_from.sum() > MAX_FAVOURED:
                many = f"more than {MAX_FAVOURED} patterns of length {length}"
                raise ParameterError(f"this chain favours {many}: choose a smaller m {advice}")
        if not patterns_from.any():
            none = "no pattern more than chance does (its rows are uniform)"
            raise ParameterError(f"this chain favours {none}: choose another matrix A {advice}")
        return steps

    @cached_property
    def _cumulative_rows(self) -> list[list[float]]:
        return [_cumulative(row) for row in self.transition]


def check_patterns(patterns: Collection[Sequence[int]], num_keys: int) -> int:
    """Return the length m of the patterns of a target set T; raise ParameterError if T is wrong."""
    if not patterns:
        raise ParameterError("the target set T is empty: name at least one pattern")
    lengths = sorted({len(pattern) for pattern in patterns})
    if len(lengths) > 1:
        raise ParameterError(f"the target set T mixes lengths {lengths}: all need one length m")
    if lengths[0] < 1:
        raise ParameterError("a target pattern is empty: it needs at least one key")
    if len(set(patterns)) != len(patterns):
        raise ParameterError("the target set T contains a pattern twice")
    for pattern in patterns:
        if not all(0 <= key < num_keys for key in pattern):
            raise ParameterError(f"pattern {list(pattern)} uses a key outside 0..{num_keys - 1}")
    return lengths[0]


def _check_distribution(row: tuple[float, ...], size: int, what: str) -> None:
    if len(row) != size:
        raise ParameterError(f"{what} has {len(row)} entries, not {size}")
    if not all(0.0 <= p <= 1.0 for p in row):  # also catches nan
        raise ParameterError(f"{what} has an entry outside 0..1: {list(row)}")
    if abs(sum(row) - 1.0) > _SUM_TOLERANCE:
        raise ParameterError(f"{what} sums to {sum(row):.10g}, not 1")


def _cumulative(row: tuple[float, ...]) -> list[float]:
    sums = np.cumsum(row)
    # Rounding must not leave a gap below 1, or a uniform number could select an impossible key.
    sums[np.max(np.flatnonzero(row)) :] = 1.0
    return [float(s) for s in sums]
