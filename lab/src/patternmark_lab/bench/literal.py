"""Algorithm 3 of the paper, transcribed line by line, for comparison only.

States are strings of m - 1 keys, every sum is written out, and nothing is vectorised. With
``one=Fraction(1)`` its arithmetic is exact, so that tests use it as a reference.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from typing import Any


def algorithm_3(
    n: int, m: int, targets: Collection[tuple[int, ...]], num_keys: int, one: Any = 1.0
) -> list[list[Any]]:
    """Return P_{T,i}(c) for i = m - 1, ..., n, one row each; `one` sets the type of numbers."""
    keys = range(num_keys)
    states = list(product(keys, repeat=m - 1))
    uniform = one / num_keys
    P = {(0, s): uniform ** (m - 1) for s in states}
    rows = [[sum(P[0, s] for s in states)]]
    for i in range(m, n + 1):
        previous = P
        P = {(c, s): 0 * one for c in range(i - m + 2) for s in states}
        for s in states:
            for c in range(i - m + 1):
                for k in keys:
                    if (k, *s) not in targets:
                        P[c, s] += uniform * previous[c, (k, *s)[:-1]]
            for c in range(1, i - m + 2):
                for k in keys:
                    if (k, *s) in targets:
                        P[c, s] += uniform * previous[c - 1, (k, *s)[:-1]]
        rows.append([sum(P[c, s] for s in states) for c in range(i - m + 2)])
    return rows
