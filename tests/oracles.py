"""Slow and obvious: what the fast code is held against. Exact arithmetic throughout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import product
from math import log

from patternmark import KeyChain

Pattern = tuple[int, ...]


def count_naively(keys: Sequence[int], patterns: Collection[Pattern]) -> int:
    m = len(next(iter(patterns)))
    return sum(tuple(keys[i : i + m]) in patterns for i in range(len(keys) - m + 1))


def enumerate_distribution(n: int, patterns: Collection[Pattern], null: KeyChain) -> list[Fraction]:
    """Sum the probability of every one of the l^n key sequences by its count."""
    law = [Fraction(0)] * (n + 1)
    for keys in product(range(null.num_keys), repeat=n):
        probability = Fraction(1)
        for before, here in zip((None, *keys), keys, strict=False):
            row = null.initial if before is None else null.transition[before]
            probability *= Fraction(row[here])
        law[count_naively(keys, patterns)] += probability
    return law


def convolve(a: Sequence[Fraction], b: Sequence[Fraction]) -> list[Fraction]:
    result = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] += x * y
    return result


def algorithm_4(n: int, m: int) -> list[int]:
    """The paper's alternating special case in whole numbers: 2^(n-1) P_{T,n}(c) for all c.

    State: how long an alternating tail the keys end in, at most m - 1.
    """
    table = {1: [1]}  # tail length -> weights by count
    for _ in range(n - 1):
        following: dict[int, list[int]] = {}
        for tail, weights in table.items():
            moves = [(1, 0), (tail + 1, 0)] if tail < m - 1 else [(1, 0), (tail, 1)]
            for to, hit in moves:
                old = following.setdefault(to, [])
                shifted = [0] * hit + weights
                old.extend([0] * (len(shifted) - len(old)))
                for c, weight in enumerate(shifted):
                    old[c] += weight
        table = following
    law = [0] * (max(map(len, table.values())))
    for weights in table.values():
        for c, weight in enumerate(weights):
            law[c] += weight
    return law


def log_ratio(numerator: int, denominator: int) -> float:
    """ln(numerator / denominator) of whole numbers of any size, to full precision."""
    shift = max(numerator.bit_length(), denominator.bit_length()) - 900
    if shift <= 0:
        return log(Fraction(numerator, denominator))
    top, bottom = numerator.bit_length() - 100, denominator.bit_length() - 100
    top, bottom = max(top, 0), max(bottom, 0)
    leading = Fraction(numerator >> top, denominator >> bottom)
    return log(leading) + (top - bottom) * log(2.0)
