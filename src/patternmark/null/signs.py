"""The null of a weighted agreement: a sum of weights with random signs.

S = sum of e_i w_i, where each sign e_i is +1 or -1 by a fair coin and each weight w_i is a whole
number. Let B be the sum of the weights whose sign is +1, and K the sum of all: S = 2 B - K. The law
of B is computed by adding one weight at a time. Only positive numbers are added and multiplied, so
every probability keeps its relative accuracy.

For up to a thousand weights the smallest probability, 2^-1000, is a normal float, and one table
gives all tails. For more weights each tail is computed separately, with signs tilted so that the
sum in question is typical:  P(B = b) = M(t) e^(-tb) P_t(B = b),  M the moment generating function.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil, inf, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError

_MAX_TABLE_WEIGHTS = 1000
_HALVINGS = 60  # of the interval in which the tilt lies
_LN2 = log(2.0)


class SignedSum:
    """The sum of weights with fair random signs.

    >>> null = SignedSum([3, 1, 1])
    >>> [round(float(np.exp(null.log_tail(value))), 12) for value in (5, 3)]  # 1 and 3 of 8
    [0.125, 0.375]
    """

    def __init__(self, weights: ArrayLike) -> None:
        given = np.asarray(weights)
        if given.size and not np.issubdtype(given.dtype, np.integer):
            raise ParameterError("the weights of a signed sum must be whole numbers")
        sizes = np.abs(given.astype(np.int64))  # both signs are equally likely
        self._weights = np.sort(sizes[sizes > 0])  # small first, so that the law grows slowly
        self.most = int(self._weights.sum())

    @property
    def log_floor(self) -> float:
        """Ln of the smallest probability: all signs are +1."""
        return -len(self._weights) * _LN2

    def log_tail(self, value: int) -> float:
        """Return ln P(S >= value)."""
        least = ceil((value + self.most) / 2)  # S >= value means B >= least
        if least <= 0:
            return 0.0
        if least > self.most:
            return -inf  # larger than the sum of all weights
        if len(self._weights) <= _MAX_TABLE_WEIGHTS:
            return float(self._table[least])
        return self._tilted_log_tail(least)

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        """Ln P(B >= b) for b = 0, ..., K."""
        law = _law(self._weights, np.full(len(self._weights), 0.5))
        return np.asarray(np.minimum(np.log(np.cumsum(law[::-1])[::-1]), 0.0))

    def _tilted_log_tail(self, least: int) -> float:
        if least == self.most:
            return self.log_floor
        tilt = self._tilt_for(least)
        exponents = tilt * self._weights
        law = _law(self._weights, 1.0 / (1.0 + np.exp(-exponents)))
        beyond = np.arange(self.most - least + 1)
        share = float(law[least:] @ np.exp(-tilt * beyond))
        log_moment = float(np.logaddexp(0.0, exponents).sum()) + self.log_floor
        return min(log_moment - tilt * least + log(share), 0.0)

    def _tilt_for(self, mean: int) -> float:
        """Return the tilt under which B has this mean, or 0 if its mean without tilt is larger."""

        def excess(tilt: float) -> float:
            return float((self._weights / (1.0 + np.exp(-tilt * self._weights))).sum()) - mean

        low, high = 0.0, 1.0
        if excess(low) >= 0.0:
            return 0.0
        while excess(high) < 0.0:
            low, high = high, 2.0 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
        return low


def _law(weights: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(B = b) for b = 0, ..., K, if each weight counts with its probability."""
    law = np.zeros(int(weights.sum()) + 1)
    law[0], end = 1.0, 1
    for weight, p in zip(weights.tolist(), probabilities.tolist(), strict=True):
        counted = p * law[:end]
        law[:end] *= 1.0 - p
        law[weight : end + weight] += counted
        end += weight
    return law
