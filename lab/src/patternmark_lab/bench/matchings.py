"""Sets of good matchings that share few pairs, from which a key could draw one in secret.

With a single public matching, an attacker who swaps a letter for its partner certainly reverses its
vote. If a key draws one of several matchings in secret, the attacker does not know the partner.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

_MAX_ROUNDS = 40  # of improving each matching; ends earlier if no matching changes


def best_matching(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the perfect matching of greatest weight: weights [V, V], V even, to pairs [V / 2, 2].

    It is exact, by dynamic programming over the sets of letters that are already paired: the first
    free letter is paired with each other free letter in turn. For V = 20 there are 10,945 sets.

    >>> best_matching(np.array([[0, 3, 2, 0], [3, 0, 0, 2], [2, 0, 0, 0], [0, 2, 0, 0]])).tolist()
    [[0, 2], [1, 3]]
    """
    size = len(weights)
    value = np.full(2**size, -np.inf)
    value[-1] = 0.0
    for paired, first in reversed(_sets(size)):
        best = np.full(len(paired), -np.inf)
        for second in range(1, size):
            free = np.flatnonzero((paired >> second & 1 == 0) & (first < second))
            after = paired[free] | 1 << first[free] | 1 << second
            best[free] = np.maximum(best[free], value[after] + weights[first[free], second])
        value[paired] = best
    return _read_pairs(weights, value)


def _read_pairs(weights: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Find the best pairs, given the value of every set."""
    size, paired = len(weights), 0
    pairs: list[tuple[int, int]] = []
    while len(pairs) < size // 2:
        free = [letter for letter in range(size) if not paired >> letter & 1]
        first, rest = free[0], free[1:]
        second = max(rest, key=lambda b: value[paired | 1 << first | 1 << b] + weights[first, b])
        pairs.append((first, second))
        paired |= 1 << first | 1 << second
    return np.array(pairs)


@cache
def _sets(size: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the sets of letters after 0, 1, ... pairs, as bits, and the first free letter of each.

    Each pair starts with the letter that is the first free one at that time, so after k pairs at
    least k letters are below the first free one.
    """
    numbers = np.arange(2**size - 1)
    count = np.zeros(len(numbers), dtype=np.int64)
    for letter in range(size):
        count += numbers >> letter & 1
    free = ~numbers & (numbers + 1)  # the lowest bit that is not set
    first = np.round(np.log2(free)).astype(np.int64)
    reached = first >= count // 2
    return [
        (numbers[chosen], first[chosen])
        for pairs in range(size // 2)
        for chosen in [np.flatnonzero(reached & (count == 2 * pairs))]
    ]


def spread_matchings(
    weights: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    number: int,
    *,
    spreading: float,
    rng: np.random.Generator,
    starts: int = 12,
) -> NDArray[np.int64]:
    """Return matchings of large weight that share few pairs: [number, V / 2, 2].

    They maximise


        mean weight / weight of the best matching
            - spreading * sum over letters a, b of frequency(a) * share(a, b)^2

    where share(a, b) is the share of the matchings that pair a with b. Each matching in turn is
    replaced by the exact best one, given the others. The best result of several starts is returned.
    """
    most = total_weight(weights, best_matching(weights)[None])[0]
    cost = frequencies[:, None] + frequencies
    best = np.repeat(best_matching(weights)[None], number, axis=0)
    best_value = -np.inf
    for _ in range(starts):
        found = np.array(
            [best_matching(rng.random(weights.shape) * weights) for _ in range(number)]
        )
        for _ in range(_MAX_ROUNDS):
            before = found.copy()
            for at in range(number):
                others = partners(np.delete(found, at, axis=0), len(weights))
                gain = weights / most - spreading * cost * (2 * others + 1) / number
                found[at] = best_matching(gain)
            if np.array_equal(before, found):
                break
        share = partners(found, len(weights)) / number
        value = total_weight(weights, found).mean() / most
        value -= spreading * float(frequencies @ (share**2).sum(axis=1))
        if value > best_value:
            best, best_value = found, value
    return best


def partners(matchings: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Count the matchings [M, V / 2, 2] that contain each pair of letters: [V, V]."""
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (matchings[..., 0], matchings[..., 1]), 1)
    return counts + counts.T


def total_weight(weights: NDArray[np.float64], matchings: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the weights of each matching's pairs: [M]."""
    return np.asarray(weights[matchings[..., 0], matchings[..., 1]].sum(axis=-1))


def certain_share(matchings: NDArray[np.int64], frequencies: NDArray[np.float64]) -> float:
    """Return how often a letter's likeliest partner is its partner, weighted by frequencies.

    This is how often a swap for that letter certainly reverses a vote; otherwise the new vote is
    random.
    """
    share = partners(matchings, len(frequencies)) / len(matchings)
    return float(frequencies @ share.max(axis=1))
