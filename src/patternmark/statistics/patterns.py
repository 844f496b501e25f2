"""Target patterns T: the patterns of keys that the detector `pattern` counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.core.chain import KeyChain, check_patterns
from patternmark.core.schemes import Paper
from patternmark.errors import ParameterError


@dataclass(frozen=True)
class Patterns:
    """A set T of patterns of one length m over the keys 0..l-1.

    >>> Patterns.favoured(KeyChain.alternating(), 3).patterns
    ((0, 1, 0), (1, 0, 1))
    >>> Patterns.favoured(KeyChain.alternating(), 3).count(np.array([0, 1, 0, 1, 1, 0]))
    2
    """

    patterns: tuple[tuple[int, ...], ...]
    num_keys: int

    def __post_init__(self) -> None:
        check_patterns(self.patterns, self.num_keys)

    @classmethod
    def of(cls, patterns: Iterable[Sequence[int]], num_keys: int) -> Patterns:
        """Make a target set from lists of keys, in sorted order."""
        return cls(tuple(sorted(tuple(int(k) for k in p) for p in patterns)), num_keys)

    @classmethod
    def favoured(cls, chain: KeyChain, length: int) -> Patterns:
        """Make the set of patterns of which every step is likelier than by chance (1/l).

        For the paper's alternating chain these are its two alternating patterns; for a cycle of
        l keys, the l rotations.
        """
        steps = chain.favoured_steps(length)
        successors = [np.flatnonzero(row).tolist() for row in steps]
        patterns: list[tuple[int, ...]] = [(key,) for key in range(chain.num_keys)]
        for _ in range(length - 1):
            patterns = [(*p, key) for p in patterns for key in successors[p[-1]]]
        return cls.of(patterns, chain.num_keys)

    @property
    def length(self) -> int:
        """The paper's m."""
        return len(self.patterns[0])

    def hits(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each window whether its m keys are a target pattern: [n - m + 1].

        A window over a position without a key (NO_KEY) is never a hit.
        """
        windows = max(len(keys) - self.length + 1, 0)
        node = np.zeros(windows, dtype=np.int64)
        for offset in range(self.length):
            node = self.trie[node, keys[offset : offset + windows]]
        return np.asarray(node != _DEAD)

    def count(self, keys: NDArray[np.int64]) -> int:
        """Return the number of target patterns in a key sequence (overlaps count)."""
        return int(np.count_nonzero(self.hits(keys)))

    @cached_property
    def trie(self) -> NDArray[np.int64]:
        """The child of each node for each key: [nodes, l + 1]; node 0 is the root.

        The last column (for NO_KEY, -1) and the last row lead to the dead node.
        """
        rows: list[list[int]] = [[_DEAD] * (self.num_keys + 1)]
        for pattern in self.patterns:
            node = 0
            for key in pattern:
                if rows[node][key] == _DEAD:
                    rows[node][key] = len(rows)
                    rows.append([_DEAD] * (self.num_keys + 1))
                node = rows[node][key]
        rows.append([_DEAD] * (self.num_keys + 1))
        return np.array(rows, dtype=np.int64)


def target_patterns(scheme: Paper, length: int | None = None) -> Patterns:
    """Return T of a scheme; `length` replaces its m, but only if T is derived from the chain."""
    if scheme.patterns is None:
        return Patterns.favoured(scheme.chain, scheme.pattern_length if length is None else length)
    if length not in (None, scheme.pattern_length):
        raise ParameterError(
            f"this key lists its target patterns, which have length {scheme.pattern_length}: "
            f"another length (m = {length}) is not possible"
        )
    return Patterns.of(scheme.patterns, scheme.num_keys)


_DEAD = -1  # the index of the trie's last row, a node whose children are all itself
