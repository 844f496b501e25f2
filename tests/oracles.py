"""Slow and obvious: what the fast code is held against. Exact arithmetic throughout."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from itertools import product
from math import lgamma, log, log1p

import numpy as np

from patternmark.core.chain import KeyChain

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


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a rate, by sums over all larger counts."""
    alpha = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else _bisect(lambda p: _upper_tail(hits, trials, p), alpha)
    high = 1.0 if hits == trials else _bisect(lambda p: _upper_tail(hits + 1, trials, p), 1 - alpha)
    return low, high


def _upper_tail(hits: int, trials: int, p: float) -> float:
    """P(Bin(trials, p) >= hits), which grows with p."""
    if not 0.0 < p < 1.0:
        return float(p >= 1.0)
    k = np.arange(hits, trials + 1)
    log_choose = np.array([lgamma(trials + 1) - lgamma(i + 1) - lgamma(trials - i + 1) for i in k])
    return float(np.exp(log_choose + k * log(p) + (trials - k) * log1p(-p)).sum())


def _bisect(rising: Callable[[float], float], target: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2.0
