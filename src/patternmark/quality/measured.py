"""A measure with its sample size and its 95 % interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np

_Z = 1.959963984540054  # of a normal distribution's middle 95 %


@dataclass(frozen=True)
class Measured:
    """A value, its interval (nan where one value tells nothing of it), and what it is of."""

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
    2.0000 (0.8684 to 3.1316)
    """
    found = np.asarray(values, dtype=np.float64)
    return around(name, float(found.mean()), _error(found), len(found), unit)


def difference_of(
    name: str, values: Sequence[float], others: Sequence[float], unit: str = "designs"
) -> Measured:
    """Return by how much the mean of values is above that of others; `n` is of the values.

    >>> print(difference_of("score", [1.0, 3.0], [1.0, 1.0]))
    1.0000 (-0.9600 to 2.9600)
    """
    a, b = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    error = sqrt(_error(a) ** 2 + _error(b) ** 2)
    return around(name, float(a.mean() - b.mean()), error, len(a), unit)


def around(name: str, value: float, error: float, n: int, unit: str = "designs") -> Measured:
    """Return a value with the interval that its standard error gives."""
    return Measured(name, value, value - _Z * error, value + _Z * error, n, unit)


def _error(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Return the standard error of a mean; nan of one value."""
    return float(values.std(ddof=1) / sqrt(len(values))) if len(values) > 1 else nan
