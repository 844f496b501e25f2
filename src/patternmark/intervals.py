"""The exact interval of a rate and the tail of a count, fast for millions of trials."""

from __future__ import annotations

from math import exp, lgamma, log, log1p, sqrt

_TINY = 1e-300
_STEPS = 10_000
_HALVINGS = 60


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
    """Return the probability of so many hits or more.

    >>> round(binomial_tail(2, 3, 0.5), 12)
    0.5
    """
    return 1.0 if hits <= 0 else _beta_cdf(rate, hits, trials - hits + 1)


def student_quantile(degrees: int, confidence: float = 0.95) -> float:
    """Return how many standard errors of so few values the middle of Student's t reaches.

    >>> round(student_quantile(5), 3), round(student_quantile(10_000), 2)
    (2.571, 1.96)
    """
    share = _beta_quantile(confidence, 0.5, degrees / 2.0)  # of t^2 / (t^2 + degrees)
    return sqrt(degrees * share / (1.0 - share))


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
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation; it converges fast on the side of the mean that `_beta_cdf` chooses."""
    c, d = 1.0, 1.0 / _away_from_0(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away_from_0(1.0 + term * d)
            c = _away_from_0(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away_from_0(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
