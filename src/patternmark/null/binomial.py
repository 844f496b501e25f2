"""Exact tails of counts: how often unmarked draws fall into a list at least k times.

- **binomial**: independent draws, each in the list with probability p;
- **hypergeometric**: different symbols, drawn without replacement;
- **trinomial**: draws of three classes with different weights.

All are logarithms and keep many correct digits even for tiny probabilities: large logarithms are
never subtracted, and only positive terms are added.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma, log, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.intervals import beta_fraction
from patternmark.null.arguments import whole_numbers

_TOLERANCE = 1e-9  # values of a statistic that differ by less are equal except for rounding


def binomial_log_tail(
    count: ArrayLike, trials: ArrayLike, chance: ArrayLike
) -> NDArray[np.float64]:
    """Return ln P(A >= count), where A counts the successes of `trials` independent trials.

    >>> np.exp(binomial_log_tail([1, 3], 3, 0.25)).round(6)  # 1 - 27/64 and 1/64
    array([0.578125, 0.015625])
    >>> round(float(binomial_log_tail(5000, 5000, 0.5)) / log(2), 6)
    -5000.0
    """
    p = np.asarray(chance, dtype=np.float64)
    if np.any((p < 0.0) | (p > 1.0)):
        raise ParameterError("a chance must lie between 0 and 1")
    k, n = whole_numbers(count, trials)
    k, n, p = np.broadcast_arrays(k, n, p)
    result = np.where((k <= 0) | ((k <= n) & (p == 1.0)), 0.0, -np.inf)
    inside = (k > 0) & (k <= n) & (p > 0.0) & (p < 1.0)
    # Below the mean, compute the other tail: it is the small one and keeps its digits.
    upper = inside & (k > n * p)
    lower = inside & ~upper
    result[upper] = upper_log_tail(k[upper], n[upper], p[upper])
    other = upper_log_tail(n[lower] - k[lower] + 1, n[lower], 1.0 - p[lower])
    result[lower] = np.log1p(-np.exp(other))
    return result


def least_count(trials: ArrayLike, log_p: float, ways: int = 1) -> NDArray[np.int64]:
    """Return the smallest count of fair coins for which `ways` times the tail is at most p.

    It is trials + 1 if not even the count `trials` is enough.

    >>> least_count([4, 5, 10], log(0.125), ways=2)  # 2/16, 2/32 and 2 * 56/1024
    array([4, 5, 8])
    """
    n, _ = whole_numbers(trials, 0)
    # The tail falls as the count grows: bisect.
    low, high = np.full(n.shape, -1), n + 1
    while np.any(high - low > 1):
        middle = (low + high) // 2
        is_enough = log(ways) + binomial_log_tail(middle, n, 0.5) <= log_p
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return np.asarray(high)


def upper_log_tail(
    k: NDArray[np.int64], n: NDArray[np.int64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ln P(A >= k) for k above the mean n p, up to n.

    The tail is its first term times the continued fraction of the incomplete beta function
    I_p(k, n - k + 1). That takes about sqrt(n) steps near the mean, and a few farther out.
    """
    if not k.size:
        return np.zeros(k.shape)
    a, b = k.astype(float), (n - k + 1).astype(float)
    fraction = beta_fraction(p, a, b, int(np.max(n)) + 2)
    return np.asarray(log_point(k, n, p) + np.log((1.0 - p) * fraction))


def log_point(
    k: NDArray[np.int64], n: NDArray[np.int64], p: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return ln P(A = k) for 1 <= k <= n by Loader's method, without subtracting large logarithms.

    ln n! = (n + 1/2) ln n - n + ln(2 pi) / 2 + e(n). The large parts of the three factorials
    combine into n times a relative entropy, which is small where the probability is large.
    """
    rest = np.maximum(n - k, 1)  # k = n is corrected at the end
    off = k - n * p  # distance from the mean
    entropy = k * np.log1p(off / (n * p)) + rest * np.log1p(-off / (n * (1.0 - p)) * (k < n))
    remainders = stirling_error(n) - stirling_error(k) - stirling_error(rest)
    log_p = remainders - entropy - 0.5 * np.log(2.0 * pi * k * (rest / np.maximum(n, 1)))
    return np.where(k == n, n * np.log(p), log_p)


def stirling_error(n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ln n! - ((n + 1/2) ln n - n + ln(2 pi) / 2) for n >= 1."""
    x = 1.0 / np.maximum(n, len(_SMALL_ERRORS))
    y = x * x
    series = x * (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188))))
    return np.where(n < len(_SMALL_ERRORS), _SMALL_ERRORS[np.minimum(n, 15)], series)


_SMALL_ERRORS = np.array(
    [0.0] + [lgamma(n + 1) - (n + 0.5) * log(n) + n - 0.5 * log(2 * pi) for n in range(1, 16)]
)


def log_factorial(n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ln n! for n >= 0."""
    some = np.maximum(n, 1)
    stirling = (some + 0.5) * np.log(some) - some + 0.5 * log(2 * pi) + stirling_error(some)
    return np.where(n <= 1, 0.0, stirling)


def hypergeometric_log_tail(
    count: ArrayLike, drawn: ArrayLike, listed: int, symbols: int
) -> NDArray[np.float64]:
    """Return ln P(A >= count), where A of the `drawn` different symbols are in a list.

    `listed` of all `symbols` are in the list.

    >>> round(float(np.exp(hypergeometric_log_tail(2, 2, 3, 6))), 12)  # 3/6 times 2/5
    0.2
    """
    k, n = whole_numbers(count, drawn)
    tails = [_hypergeometric(int(d), listed, symbols) for d in n.ravel().tolist()]
    found = [
        tail[max(c, 0)] if c < len(tail) else -np.inf
        for c, tail in zip(k.ravel().tolist(), tails, strict=True)
    ]
    return np.array(found).reshape(k.shape)


@lru_cache(maxsize=4096)
def _hypergeometric(drawn: int, listed: int, symbols: int) -> NDArray[np.float64]:
    """Return ln P(A >= k) for k = 0, ..., the largest possible count."""
    most = min(drawn, listed)
    least = max(0, drawn + listed - symbols)
    k = np.arange(least, most + 1)
    of = [(listed, k), (symbols - listed, drawn - k)]
    log_p = np.sum([_log_choose(np.full_like(k, n), x) for n, x in of], axis=0)
    log_p -= _log_choose(np.array(symbols), np.array(drawn))
    tail = np.minimum(np.logaddexp.accumulate(log_p[::-1])[::-1], 0.0)
    tail[0] = 0.0
    return np.concatenate([np.zeros(least), tail])


def _log_choose(n: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(log_factorial(n) - log_factorial(k) - log_factorial(n - k))


def trinomial_log_tail(
    counts: ArrayLike, trials: ArrayLike, chances: tuple[float, float], weights: tuple[float, float]
) -> NDArray[np.float64]:
    """Return ln P(S >= s), where S = w1 A + w2 B, and s is the S of `counts` [..., 2].

    A trial is of the first class, of the second, or of neither. All pairs (A, B) are added up.

    >>> law = trinomial_log_tail([[2, 0], [1, 1], [0, 2]], 2, (0.25, 0.25), (1.0, 2.0))
    >>> (np.exp(law) * 16).round(9)  # of the 16 ways that two trials can end
    array([8., 3., 1.])
    """
    pairs = np.asarray(counts)
    n = np.broadcast_to(np.asarray(trials), pairs.shape[:-1])
    value = pairs @ np.array(weights)
    result = np.zeros(value.shape)
    for number in np.unique(n).tolist():
        values, tails = _trinomial(number, chances, weights)
        here = n == number
        result[here] = tails[np.searchsorted(values, value[here] - _TOLERANCE)]
    return result


@lru_cache(maxsize=512)
def _trinomial(
    trials: int, chances: tuple[float, float], weights: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the possible values of S, ascending, and ln P(S >= value) for each."""
    a, b = np.divmod(np.arange((trials + 1) ** 2), trials + 1)
    possible = a + b <= trials
    a, b = a[possible], b[possible]
    counted = ((a, chances[0]), (b, chances[1]), (trials - a - b, 1.0 - sum(chances)))
    log_p = np.full(len(a), log_factorial(np.array(trials)))
    for number, chance in counted:
        log_chance = log(chance) if chance > 0.0 else -np.inf
        log_p += np.where(number > 0, number, 1) * np.where(number > 0, log_chance, 0.0)
        log_p -= log_factorial(number)
    value = a * weights[0] + b * weights[1]
    order = np.argsort(value, kind="stable")
    tails = np.logaddexp.accumulate(log_p[order][::-1])[::-1]
    return value[order], np.minimum(tails, 0.0)
