"""Confidence intervals of rates and means, and binomial tails, fast for millions of trials."""

from __future__ import annotations

from math import exp, lgamma, log, log1p, nan, sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MAX_STEPS = 10_000  # of the continued fraction
_HALVINGS = 60  # of the interval in which a quantile lies
_Number = TypeVar("_Number", float, NDArray[np.float64])


def rate_interval(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a rate: quantiles of two beta distributions.

    >>> [round(x, 4) for x in rate_interval(5, 10)]
    [0.1871, 0.8129]
    >>> [round(x, 7) for x in rate_interval(0, 1_000_000)]
    [0.0, 3.7e-06]
    """
    alpha = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else _beta_quantile(alpha, hits, trials - hits + 1)
    high = 1.0 if hits == trials else _beta_quantile(1.0 - alpha, hits + 1, trials - hits)
    return low, high


def binomial_tail(hits: int, trials: int, rate: float) -> float:
    """Return the probability of `hits` hits or more.

    >>> round(binomial_tail(2, 3, 0.5), 12)
    0.5
    """
    return 1.0 if hits <= 0 else _beta_cdf(rate, hits, trials - hits + 1)


def student_quantile(degrees: float, confidence: float = 0.95) -> float:
    """Return the half width, in standard errors, of the middle `confidence` of Student's t.

    >>> round(student_quantile(5), 3), round(student_quantile(10_000), 2)
    (2.571, 1.96)
    """
    share = _beta_quantile(confidence, 0.5, degrees / 2.0)  # of t^2 / (t^2 + degrees)
    return sqrt(degrees * share / (1.0 - share))


def mean_interval(values: ArrayLike) -> dict[str, Any]:
    """Return the mean of independent values with its 95 % interval by Student's t.

    `half` is the half width. For a single value, `low`, `high` and `half` are nan.

    >>> {name: round(x, 4) for name, x in mean_interval([1.0, 2.0, 3.0]).items()}
    {'mean': 2.0, 'low': -0.4841, 'high': 4.4841, 'half': 2.4841, 'n': 3}
    """
    found = np.asarray(values, dtype=np.float64)
    mean, n = float(found.mean()), len(found)
    half = student_quantile(n - 1) * standard_error(found) if n > 1 else nan
    return {"mean": mean, "low": mean - half, "high": mean + half, "half": half, "n": n}


def standard_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of a mean; nan for a single value."""
    return float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else nan


def _beta_quantile(share: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _beta_cdf(middle, a, b) < share else (low, middle)
    return (low + high) / 2.0


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * beta_fraction(x, a, b, _MAX_STEPS) / a
    return 1.0 - front * beta_fraction(1.0 - x, b, a, _MAX_STEPS) / b


def beta_fraction(x: _Number, a: _Number, b: _Number, most_steps: int) -> _Number:
    """Return the continued fraction of the incomplete beta function, for numbers or arrays.

    I_x(a, b) is x^a (1 - x)^b / (a B(a, b)) times this. Lentz's method. If x is below the mean
    a / (a + b) or a little above it, it converges fast and denominators stay away from 0.
    """
    c, d = x * 0.0 + 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, most_steps):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            value = value * (c * d)
        if np.all(abs(c * d - 1.0) < 1e-15):
            break
    return value
