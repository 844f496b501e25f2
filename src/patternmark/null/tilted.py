"""A single tail probability, even far below 1e-300, in time that grows more slowly than n.

The count C has the generating function F(z) = E[z^C] = u(z) M(z)^(n-1) 1, a product of small
matrices; the functions of several segments are multiplied. To compute P(C >= c):

1. **Tilt.** Choose t >= 0 where log F(e^t) - t c is smallest. Under the tilted law
   Q(C = k) = P(C = k) e^(tk) / F(e^t) the observed count is a typical one, and
   P(C >= c) = F(e^t) e^(-tc) * sum over k >= c of Q(C = k) e^(-t(k - c)).
2. **Invert.** Q follows by a Fourier transform of F at K points on the circle of radius e^t.
   Errors are relative to Q's peak, which is now at c: the tail keeps its relative accuracy.
3. **Bound.** K points alias counts that are K apart. Q's spread is about sqrt(n), so K can be far
   smaller than n; Chernoff's inequality, from F at a few real points, bounds the error of aliasing
   and of cutting the sum at c + K/2. K doubles until that is below 1e-13 of the result.
4. **Check.** Under the tilt c is the mean, but Q may have little mass near it (long patterns come
   in clumps, sticky nulls in two heaps). If the sum is not far above its rounding error, dynamic
   programming is used instead; if that would take hours, the sum is raised by its largest possible
   error, so that a p-value is never too small.

M(z)^(n-1) takes log2(n) squarings, so the cost is about sqrt(n) log n and the memory sqrt(n).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, inf, log, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.null import direct
from patternmark.null.automaton import CountingChain

_LN2 = log(2.0)
_MAX_ALIASING = 1e-13  # relative to the result
_MAX_TILT = 500.0  # larger tilts overflow, and no p-value needs them
_MAX_TILTED_STATES = 300.0  # tilt x states above which squaring loses the first keys
_MAX_WORK = 1e11  # operations of the dynamic programme: about a minute
_TOLERANCE = 1e-9  # relative to the result; above some 250,000 keys rounding errors are larger
_GRID = np.linspace(0.0, 1.0, 33)
_SPREADS = np.geomspace(0.05, 64.0, 48)  # shifts for Chernoff's bound, in standard deviations


_LENGTHS_AT_ONCE = 64  # segment lengths whose states are in memory together
_Scaled = tuple[NDArray[Any], NDArray[np.float64]]  # vectors [K, S] and their exponents [K]


@dataclass(frozen=True, eq=False)
class _ScaledLog:
    """A logarithm stored as log(mantissa) + exponent * ln 2, so that differences are exact."""

    mantissa: NDArray[Any]  # [K], complex if the points are
    exponent: NDArray[np.float64]  # [K], whole numbers

    def minus(self, other: _ScaledLog) -> NDArray[Any]:
        difference = (self.exponent - other.exponent) * _LN2
        return np.asarray(self.mantissa - other.mantissa + difference)


class TiltedCount:
    """Tail probabilities of the pattern count over segments of given lengths."""

    def __init__(self, chain: CountingChain, lengths: Sequence[int]) -> None:
        self._chain = chain
        self._multiplicity = dict(sorted(Counter(n for n in lengths if n > 0).items()))

    @cached_property
    def largest_count(self) -> int:
        """The largest count that has a positive probability."""
        return sum(
            times * _largest_count(self._chain, n) for n, times in self._multiplicity.items()
        )

    def log_tail(self, count: int) -> float:
        """Return ln P(C >= count); the relative error of the probability is about n * 1e-15."""
        if count <= 0:
            return 0.0
        if count > self.largest_count:
            return -inf
        # At the largest count the best tilt is infinite; half a count less serves as well.
        tilt = self._best_tilt(min(count, self.largest_count - 0.5))
        at_tilt = self._log_gf(np.array([tilt]))
        limit = log(_MAX_ALIASING) - 10.0
        if tilt == 0.0 and self._log_bound(count - 1, tilt, at_tilt, -1.0) < limit:
            return 0.0  # smaller counts are almost impossible
        total, doubt = self._tilted_sum(count, tilt, at_tilt)
        if not doubt <= max(_TOLERANCE, 4.0 * self._rounding) * total:  # also if one is nan
            if direct.work(self._chain, self._multiplicity) <= _MAX_WORK:
                return min(direct.log_tail(self._chain, self._multiplicity, count, tilt), 0.0)
            total = min(total + doubt, 1.0) if doubt < 1.0 else 1.0
        mantissa = float(at_tilt.mantissa[0]) + log(total)
        return min(mantissa + float(at_tilt.exponent[0]) * _LN2 - tilt * count, 0.0)

    def distribution(self) -> NDArray[np.float64]:
        """Return P(C = c) for c = 0..largest_count, with an absolute error of about 1e-13."""
        size = 2 ** ceil(log2(self.largest_count + 1))
        here = self._log_gf(np.zeros(1))
        pmf = np.fft.irfft(np.conj(self._on_circle(0.0, here, size)), size)
        return np.clip(pmf[: self.largest_count + 1], 0.0, 1.0)

    def _best_tilt(self, target: float) -> float:
        """Minimise the convex log F(e^t) - t * target over t >= 0 on grids that zoom in."""
        low, high = 0.0, 4.0
        while True:
            grid = low + (high - low) * _GRID
            height = _real(self._log_gf(grid)) - grid * target
            best = int(np.argmin(height))
            step = float(grid[1] - grid[0])
            if best == len(grid) - 1 and high < _MAX_TILT:
                high = min(high * 4.0, _MAX_TILT)
                continue
            # A quarter of a standard deviation is close enough for the transform.
            if step * self._spread(float(grid[best])) < 0.25 or step < 1e-12:
                return float(grid[best])
            low, high = max(float(grid[best]) - step, 0.0), float(grid[best]) + step

    def _spread(self, tilt: float) -> float:
        """Return the standard deviation of the count under the tilt, at least about 0.1."""
        h = 1e-3
        left, mid, right = _real(self._log_gf(tilt + np.array([-h, 0.0, h])))
        return sqrt(max((left - 2.0 * mid + right) / h**2, 0.01))

    def _tilted_sum(self, count: int, tilt: float, at_tilt: _ScaledLog) -> tuple[float, float]:
        """Return the sum over k >= count of Q(C = k) e^(-tilt (k - count)), and its error."""
        if tilt * len(self._chain.start_miss) > _MAX_TILTED_STATES:
            return 0.0, inf  # the terms of the first keys would underflow in squared matrices
        size = 2 ** ceil(log2(16.0 * self._spread(tilt) + 32.0))
        while True:
            ratio = self._on_circle(tilt, at_tilt, size)
            law = np.fft.irfft(np.conj(ratio), size)
            weights = np.zeros(size)
            offsets = np.arange(size // 2)
            weights[(count + offsets) % size] = np.exp(-tilt * offsets)
            total = float(law @ weights)
            # The sum is linear in the ratios, so their rounding errors bound its own.
            share = np.abs(ratio) * np.abs(np.fft.rfft(weights))
            rounding = self._rounding * 2.0 * float(share.sum()) / size
            if size > 2 * self.largest_count:  # no aliasing is possible
                return total, rounding
            outside = self._outside(count, tilt, at_tilt, size)
            hopeless = tilt > 0.0 and not rounding < total
            if outside <= _MAX_ALIASING * total or hopeless:
                return total, rounding + outside
            size *= 2

    @property
    def _rounding(self) -> float:
        """The relative error of F: a few roundings for each key."""
        return 1e-15 * sum(n * times for n, times in self._multiplicity.items())

    def _on_circle(self, tilt: float, at_tilt: _ScaledLog, size: int) -> NDArray[Any]:
        angles = 2.0 * np.pi * np.arange(size // 2 + 1) / size
        return np.asarray(np.exp(self._log_gf(tilt + 1j * angles).minus(at_tilt)))

    def _outside(self, count: int, tilt: float, at_tilt: _ScaledLog, size: int) -> float:
        """Bound Q(C <= count - size/2) + 2 Q(C >= count + size/2)."""
        above = self._log_bound(count + size // 2, tilt, at_tilt, 1.0)
        below = self._log_bound(count - size // 2, tilt, at_tilt, -1.0)
        return 2.0 * exp(above) + exp(below)

    def _log_bound(self, edge: int, tilt: float, at_tilt: _ScaledLog, sign: float) -> float:
        """Bound ln Q(C >= edge), or ln Q(C <= edge) for sign -1, by Chernoff's inequality."""
        shift = sign * _SPREADS / self._spread(tilt)
        shift = shift[np.abs(tilt + shift) < _MAX_TILT]
        log_ratio = np.real(self._log_gf(tilt + shift).minus(at_tilt))
        bound = (log_ratio - shift * edge)[np.isfinite(log_ratio)]  # not finite: F underflowed
        return min(float(bound.min(initial=0.0)), 0.0)

    def _log_gf(self, t: NDArray[Any]) -> _ScaledLog:
        """Return log F(e^t) at each point: the product over segments of u M^(n-1) 1."""
        z = np.exp(t)
        mantissa = np.zeros(len(z), dtype=z.dtype)
        total = np.zeros(len(z))
        for n, (vector, exponent) in self._advanced(z):
            times = self._multiplicity[n]
            value = vector.sum(axis=1)
            with np.errstate(divide="ignore"):  # F may be 0 on the circle: then log F is -inf
                mantissa += times * np.log(np.abs(value))
            if np.iscomplexobj(value):
                mantissa += 1j * (times * np.angle(value))
            total += times * exponent
        return _ScaledLog(mantissa, total)

    def _advanced(self, z: NDArray[Any]) -> Iterator[tuple[int, _Scaled]]:
        """Yield u(z) M(z)^(n-1) for each segment length, with only a few in memory at once."""
        lengths = list(self._multiplicity)
        if not self._chain.is_small:
            yield from _by_moves(self._chain, z, lengths).items()
            return
        for start in range(0, len(lengths), _LENGTHS_AT_ONCE):
            few = lengths[start : start + _LENGTHS_AT_ONCE]
            yield from _by_squaring(self._chain, z, few).items()


def _real(value: _ScaledLog) -> NDArray[np.float64]:
    return np.asarray(np.real(value.mantissa) + value.exponent * _LN2)


def _by_squaring(chain: CountingChain, z: NDArray[Any], lengths: list[int]) -> dict[int, _Scaled]:
    """Return u(z) M(z)^(n-1) for each length; all lengths share log2(n) squarings."""
    start = chain.start_miss + z[:, None] * chain.start_hit
    states = {n: (start, np.zeros(len(z))) for n in lengths}
    matrix = chain.miss + z[:, None, None] * chain.hit  # [K, S, S]
    matrix, exponent = _normalise(matrix, np.zeros(len(z)))
    for bit in range((max(lengths, default=1) - 1).bit_length()):
        for n, (vector, scale) in states.items():
            if (n - 1) >> bit & 1:
                moved = np.matmul(vector[:, None, :], matrix)[:, 0]
                states[n] = _normalise(moved, scale + exponent)
        matrix, exponent = _normalise(np.matmul(matrix, matrix), 2.0 * exponent)
    return states


def _by_moves(chain: CountingChain, z: NDArray[Any], lengths: list[int]) -> dict[int, _Scaled]:
    """Do what `_by_squaring` does for many states: key by key, along the list of moves."""
    state = (chain.start_miss + z[:, None] * chain.start_hit, np.zeros(len(z)))
    weights = chain.probability * np.where(chain.is_hit, z[:, None], 1.0)  # [K, E]
    states = {}
    for n in range(1, max(lengths, default=0) + 1):
        if n > 1:
            state = _normalise(chain.move(state[0], weights), state[1])
        if n in lengths:
            states[n] = state
    return states


def _normalise(
    array: NDArray[Any], exponent: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Scale every array[i] by a power of two (exact), so that its largest entry is near 1."""
    axes = tuple(range(1, array.ndim))
    shift = np.clip(np.frexp(np.abs(array).max(axis=axes))[1], -1000, 1000)
    scale = np.ldexp(1.0, -shift).reshape((-1,) + (1,) * len(axes))
    return array * scale, exponent + shift


def _largest_count(chain: CountingChain, length: int) -> int:
    """Return the largest possible count of `length` keys, by the (max, +) algebra."""
    vector = np.where(chain.start_hit > 0, 1.0, np.where(chain.start_miss > 0, 0.0, -inf))
    if not chain.is_small:
        for _ in range(length - 1):
            best = np.full_like(vector, -inf)
            np.maximum.at(best, chain.target, vector[chain.source] + chain.is_hit)
            vector = best
        return int(vector.max())
    matrix = np.where(chain.hit > 0, 1.0, np.where(chain.miss > 0, 0.0, -inf))
    steps = length - 1
    while steps:
        if steps & 1:
            vector = (vector[:, None] + matrix).max(axis=0)
        steps >>= 1
        if steps:
            matrix = (matrix[:, :, None] + matrix[None, :, :]).max(axis=1)
    return int(vector.max())
