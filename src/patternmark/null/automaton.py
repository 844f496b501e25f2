"""The smallest Markov chain that counts target patterns.

The state in Algorithm 3 of the paper is the last m - 1 keys: l^(m-1) strings. It is enough to know
which prefix of a target pattern they end with (the automaton of Aho and Corasick), and states with
the same future can be merged. For the alternating targets and a uniform null, m - 1 states remain:
this is the paper's Algorithm 4, found automatically.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.chain import KeyChain
from patternmark.errors import ParameterError
from patternmark.statistics.patterns import Patterns

_ROOT = 0


@dataclass(frozen=True, eq=False)
class CountingChain:
    """The moves of the chain: `miss` are those without a hit, `hit` those with one.

    After n >= 1 keys the count has the generating function
    (start_miss + z start_hit) (miss + z hit)^(n-1) (1, ..., 1)^T.
    """

    start_miss: NDArray[np.float64]  # [S] states after a first key that completes no pattern
    start_hit: NDArray[np.float64]  # [S] ... after one that completes a pattern (only if m = 1)
    source: NDArray[np.intp]  # [E] the moves, ordered by target
    target: NDArray[np.intp]  # [E]
    is_hit: NDArray[np.bool_]  # [E]
    probability: NDArray[np.float64]  # [E]

    @property
    def num_states(self) -> int:
        return len(self.start_miss)

    @property
    def is_small(self) -> bool:
        """Whether matrices are faster than lists of moves; with many states they are sparse."""
        return self.num_states <= DENSE_STATES

    @cached_property
    def miss(self) -> NDArray[np.float64]:
        """Moves without a hit as a matrix: [S, S]."""
        return self._matrix(~self.is_hit)

    @cached_property
    def hit(self) -> NDArray[np.float64]:
        """Moves with a hit as a matrix: [S, S]."""
        return self._matrix(self.is_hit)

    def move(self, vectors: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        """Move along every edge with its weight: vectors [..., S], weights [E] or [..., E]."""
        reached, first = self._targets
        moved = np.zeros(vectors.shape, dtype=np.result_type(vectors, weights))
        moved[..., reached] = np.add.reduceat(vectors[..., self.source] * weights, first, axis=-1)
        return moved

    @cached_property
    def _targets(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The states that can be reached by a move, and the index of the first move to each."""
        reached, first = np.unique(self.target, return_index=True)
        return reached, first

    def _matrix(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        matrix = np.zeros((self.num_states, self.num_states))
        at = (self.source[chosen], self.target[chosen])
        np.add.at(matrix, at, self.probability[chosen])
        return matrix


DENSE_STATES = 48  # states up to which moves are stored as matrices


@dataclass(frozen=True)
class _Step:
    state: int
    hit: bool
    probability: float


def counting_chain(patterns: Patterns, null: KeyChain) -> CountingChain:
    """Build the counting chain of `patterns` for keys that follow `null`."""
    if patterns.num_keys != null.num_keys:
        raise ParameterError(
            f"patterns over {patterns.num_keys} keys do not fit a null of {null.num_keys} keys"
        )
    first, steps = _explore(patterns, null)
    block_of = _merge_equivalent(steps)
    size = max(block_of) + 1
    start = np.zeros((2, size))
    for step in first:
        start[int(step.hit), block_of[step.state]] += step.probability
    # All members of a block move in the same way: take the moves of one of them.
    member = {block: state for state, block in enumerate(block_of)}
    moves = sorted(
        (block_of[step.state], block, step.hit, step.probability)
        for block, state in member.items()
        for step in steps[state]
    )
    target, source, is_hit, probability = (np.array(column) for column in zip(*moves, strict=True))
    return CountingChain(start[0], start[1], source, target, is_hit, probability)


def _explore(patterns: Patterns, null: KeyChain) -> tuple[list[_Step], list[list[_Step]]]:
    """Find all states (prefix, last key) from the empty sequence; return first and later steps."""
    goto, completes = _prefix_automaton(patterns)
    number: dict[tuple[int, int], int] = {}
    pending: deque[tuple[int, int]] = deque()

    def steps_from(node: int, probabilities: tuple[float, ...]) -> list[_Step]:
        steps = []
        total = fsum(probabilities)  # 1 within a tolerance; over many keys an error would add up
        for key, share in enumerate(probabilities):
            probability = share / total
            if probability == 0.0:
                continue
            state = (int(goto[node, key]), key)
            if state not in number:
                number[state] = len(number)
                pending.append(state)
            steps.append(_Step(number[state], bool(completes[node, key]), probability))
        return steps

    first = steps_from(_ROOT, null.initial)
    steps: list[list[_Step]] = []
    while pending:
        node, last_key = pending.popleft()
        steps.append(steps_from(node, null.transition[last_key]))
    return first, steps


def _prefix_automaton(patterns: Patterns) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return Aho and Corasick's automaton, whose states are the proper prefixes of the patterns.

    All patterns have one length, so a step completes at most one of them.
    """
    trie = patterns.trie[:-1, :-1]
    num_nodes, num_keys = trie.shape
    goto = np.zeros((num_nodes, num_keys), dtype=np.int64)
    completes = np.zeros((num_nodes, num_keys), dtype=bool)
    fall_back = np.zeros(num_nodes, dtype=np.int64)  # longest proper suffix that is a prefix
    level, depth = [_ROOT], 0
    while level:
        depth += 1
        next_level = []
        for node in level:
            for key in range(num_keys):
                child = int(trie[node, key])
                shorter = int(goto[fall_back[node], key]) if node != _ROOT else _ROOT
                if child < 0:
                    goto[node, key] = shorter
                elif depth == patterns.length:
                    completes[node, key] = True
                    goto[node, key] = shorter
                else:
                    goto[node, key] = child
                    fall_back[child] = shorter
                    next_level.append(child)
        level = next_level
    return goto, completes


def _merge_equivalent(steps: list[list[_Step]]) -> list[int]:
    """Merge states into as few blocks as possible; return the block number of each state.

    Blocks are refined until, for each block, a hit or a miss into any other block has the same
    probability from all its members. Then the count's distribution depends only on the block.
    """
    block_of = [0] * len(steps)
    num_blocks = 1
    while True:
        number: dict[object, int] = {}
        refined = []
        for state, moves in enumerate(steps):
            reach: dict[tuple[int, bool], list[float]] = {}
            for step in moves:
                reach.setdefault((block_of[step.state], step.hit), []).append(step.probability)
            profile = tuple(sorted((target, fsum(p)) for target, p in reach.items()))
            refined.append(number.setdefault((block_of[state], profile), len(number)))
        if len(number) == num_blocks:
            return refined
        block_of, num_blocks = refined, len(number)
