"""The upper tail of the normal distribution."""

from __future__ import annotations

from math import erfc, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

_LARGE_Z = 30.0  # beyond it, erfc comes near the smallest positive float


def normal_log_tail(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln P(Z >= z): [n].

    >>> np.exp(normal_log_tail(np.array([0.0, 1.6448536, 100.0]))).round(6).tolist()
    [0.5, 0.05, 0.0]
    """
    return np.array([_log_tail(float(value)) for value in z])


def _log_tail(z: float) -> float:
    if z > _LARGE_Z:  # an upper bound, too large by about one part in z^2
        return -0.5 * z * z - log(z * sqrt(2.0 * pi))
    return log(0.5 * erfc(z / sqrt(2.0)))
