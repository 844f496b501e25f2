"""A measure with its sample size and its 95 % interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, sqrt

import numpy as np

from patternmark.intervals import mean_interval, standard_error, student_quantile


@dataclass(frozen=True)
class Measured:
    """A value with its interval (nan if it is unknown), its sample size and the unit of that."""

    name: str
    value: float
    low: float
    high: float
    n: int
    unit: str = "designs"

    def __str__(self) -> str:
        interval = "" if isnan(self.low) else f" ({self.low:.4f} to {self.high:.4f})"
        return f"{self.value:.4f}{interval}"


def mean_of(name: str, values: Sequence[float], unit: str = "designs") -> Measured:
    """Return the mean of independent values.

    >>> print(mean_of("score", [1.0, 2.0, 3.0]))
    2.0000 (-0.4841 to 4.4841)
    """
    found = mean_interval(values)
    return Measured(name, found["mean"], found["low"], found["high"], found["n"], unit)


def difference_of(
    name: str, values: Sequence[float], others: Sequence[float], unit: str = "designs"
) -> Measured:
    """Return the mean of values minus the mean of others; `n` is the number of values.

    The interval is Welch's, because the two may have different variances.

    >>> print(difference_of("score", [1.0, 2.0, 3.0], [1.0, 1.0]))
    1.0000 (-1.4841 to 3.4841)
    """
    a, b = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    parts = [standard_error(of) ** 2 for of in (a, b)]
    error = sqrt(sum(parts))
    spread = sum(part**2 / (len(of) - 1) for part, of in zip(parts, (a, b), strict=True) if part)
    degrees = error**4 / spread if error > 0.0 else len(a) + len(b) - 2
    return with_error(name, float(a.mean() - b.mean()), error, len(a), unit, degrees)


def with_error(
    name: str,
    value: float,
    error: float,
    n: int,
    unit: str = "designs",
    degrees: float | None = None,
) -> Measured:
    """Return a value with its interval, from its standard error and Student's t.

    The degrees of freedom are n - 1 unless given. If the error is unknown (nan), so is the
    interval.
    """
    freedom = n - 1 if degrees is None else degrees
    half = error if isnan(error) else student_quantile(freedom) * error
    return Measured(name, value, value - half, value + half, n, unit)
