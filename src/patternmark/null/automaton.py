"""The smallest Markov chain that counts target patterns.

Algorithm 3 of the paper carries the last m - 1 keys as its state: l^(m-1) strings. All that
matters of them is how much of a target pattern they have begun (the automaton of Aho and
Corasick), and states with the same future can be one state. For the alternating targets and a
uniform null that leaves m - 1 states: the paper's Algorithm 4, found rather than written by hand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from patternmark.chain import KeyChain
from patternmark.errors import ParameterError
from patternmark.patterns import Patterns

_ROOT = 0


@dataclass(frozen=True, eq=False)
class CountingChain:
    """Transfer matrices of the count: `miss` moves without a hit, `hit` moves with one.

    After n >= 1 keys the count has the generating function
    (start_miss + z start_hit) (miss + z hit)^(n-1) (1, ..., 1)^T.
    """

    start_miss: NDArray[np.float64]  # [S]: the first key, where it completes no pattern
    start_hit: NDArray[np.float64]  # [S]: ... where it does (only if m = 1)
    miss: NDArray[np.float64]  # [S, S]
    hit: NDArray[np.float64]  # [S, S]

    @property
    def num_states(self) -> int:
        return len(self.miss)


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
    matrices = np.zeros((2, size, size))
    filled: set[int] = set()
    for state, block in enumerate(block_of):
        if block in filled:
            continue  # every member of a block moves alike: one of them fills its row
        filled.add(block)
        for step in steps[state]:
            matrices[int(step.hit), block, block_of[step.state]] += step.probability
    return CountingChain(start[0], start[1], matrices[0], matrices[1])


def _explore(patterns: Patterns, null: KeyChain) -> tuple[list[_Step], list[list[_Step]]]:
    """Walk (prefix begun, last key) from the empty sequence; return first and further steps."""
    goto, completes = _prefix_automaton(patterns)
    number: dict[tuple[int, int], int] = {}
    pending: deque[tuple[int, int]] = deque()

    def steps_from(node: int, probabilities: tuple[float, ...]) -> list[_Step]:
        steps = []
        for key, probability in enumerate(probabilities):
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
    """Aho and Corasick's automaton, its states the proper prefixes of the patterns.

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
    """Number the coarsest blocks of states whose members reach every block alike.

    Blocks are refined until, for each block, a hit or a miss into any other block has the same
    probability from all its members: the count's distribution then depends on the block alone.
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
