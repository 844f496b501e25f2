"""Bounds for marks of more than two phases, for which an exact null would need their joint law.

Each of F phases has a fair sign at every scored position, independent of earlier positions; signs
of different phases may depend on each other in any way. A path moves along the positions in one
phase or slips, up or down the ring of phases, at `cost` for each phase. Let W_f be the best score
of a path that ends in phase f, including a slip from any other: W_f >= W_g - cost * |f - g|.

**One step.** Let Z be the sum over f of e^(x W_f) and q = e^(-x cost). A position adds a_f to
each W_f; then a phase that lags too far is raised by a slip. Raising f by a slip from g adds, at
distance d,

    (e^(x (W_g + a_g)) q^d - e^(x (W_f + a_f)))^+  <=  e^(x W_g) q^d (e^(x a_g) - e^(x a_f))^+

because W_f did not lag farther before. The right side is 0 unless a_g agrees and a_f does not, and
a_g agrees half the time: its expectation is at most e^(x W_g) q^d (e^(x match) -
e^(-x mismatch)) / 2. Summed over f and g, a position multiplies E[Z] by at most

    r(x) = E[e^(x a)] + K(q) (e^(x match) - e^(-x mismatch)) / 2,   K(q) = sum of q^|f - g|, g != f.

(A union over all paths gives E[e^(x a)] (1 + K), which is larger: it counts slips that gain
nothing.) Z begins at F and is at least e^(x S): the bounds follow by Markov's and Ville's
inequalities.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.null.arguments import check_cost, check_phases, whole_numbers

_Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_TILTS = np.geomspace(1e-4, 50.0, 96)  # per agreement; at the largest only agreements matter
_GOLDEN_STEPS = 24  # steps of the search that refines the best tilt of the grid
_GOLDEN = (5.0**0.5 - 1.0) / 2.0


def slip_log_bound(
    score: ArrayLike, scored: ArrayLike, phases: int, cost: int
) -> NDArray[np.float64]:
    """Bound ln P(S >= score), where S is the best sum of signs of a path of `scored` positions.

    After n positions, E[e^(x S)] <= F r(x)^(n-1) cosh(x), because no slip follows the last one, and
    P(S >= s) <= e^(-x s) E[e^(x S)] for every x > 0 (Markov). The smallest bound is returned.

    >>> slip_log_bound([40, 80, 120], 400, phases=12, cost=16).round(2)
    array([  0.  ,  -1.95, -14.51])
    """
    s, n = _check_arguments(score, scored, phases, cost)

    def log_bound(x: NDArray[np.float64]) -> NDArray[np.float64]:
        log_r = np.log(_growth(x, 1, 1, cost, phases))
        return np.asarray(log(phases) - x * s + (n - 1) * log_r + np.log(np.cosh(x)))

    return _clip_bound(_minimise(log_bound, s.shape, 1), s, n, 1)


def local_log_bound(
    score: ArrayLike, scored: ArrayLike, phases: int, match: int, mismatch: int, cost: int
) -> NDArray[np.float64]:
    """Bound ln P(S >= score), where S is the best score of a path over any segment.

    From the start of a segment, Z_t / r(x)^t is a supermartingale that begins at F: the chance
    that Z_t >= e^(x s) within m positions is at most F e^(-x s) max(1, r)^m (Ville). The sum over
    the n possible starts, m = 1..n, is a bound for every x > 0, and the smallest is returned. At a
    root of r(x) = 1 it is n F e^(-x s); if slips are so cheap that no root exists, it grows faster
    with n.
    """
    s, n = _check_arguments(score, scored, phases, cost)

    def log_bound(x: NDArray[np.float64]) -> NDArray[np.float64]:
        log_r = np.log(np.maximum(_growth(x, match, mismatch, cost, phases), 1.0))
        return np.asarray(log(phases) - x * s + _log_power_sum(log_r, n))

    return _clip_bound(_minimise(log_bound, s.shape, match), s, n, match)


def _growth(
    x: NDArray[np.float64], match: int, mismatch: int, cost: int, phases: int
) -> NDArray[np.float64]:
    """Return r(x)."""
    # Other phases are 1, 2, ... slips away on either side: two geometric series, and one phase on
    # the opposite side if the number of phases is even.
    one = np.exp(-x * cost)
    slips = 2.0 * one * (1.0 - one ** ((phases - 1) // 2)) / (1.0 - one)
    if phases % 2 == 0:
        slips += one ** (phases // 2)
    agree, disagree = np.exp(x * match), np.exp(-x * mismatch)
    return np.asarray(0.5 * (agree + disagree) + 0.5 * slips * (agree - disagree))


def _check_arguments(
    score: ArrayLike, scored: ArrayLike, phases: int, cost: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    check_phases(phases)
    check_cost(cost)
    s, n = whole_numbers(score, scored)
    return s.astype(float), n.astype(float)


def _clip_bound(
    bound: NDArray[np.float64], s: NDArray[np.float64], n: NDArray[np.float64], most: int
) -> NDArray[np.float64]:
    """Set the certain cases: P = 1 for scores up to 0, and P = 0 above `most` per position."""
    return np.where(s <= 0, 0.0, np.where(s > most * n, -np.inf, np.minimum(bound, 0.0)))


def _minimise(curve: _Curve, shape: tuple[int, ...], match: int) -> NDArray[np.float64]:
    """Minimise many functions at once: the best of a grid of tilts, refined by golden sections.

    Every tilt gives a valid bound, so an inexact minimum only makes the bound a little larger.
    """
    tilts = _TILTS / match
    smallest, at = np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
    for index, tilt in enumerate(tilts):
        here = curve(np.full(shape, tilt))
        at = np.where(here < smallest, index, at)
        smallest = np.minimum(smallest, here)
    low, high = tilts[np.maximum(at - 1, 0)], tilts[np.minimum(at + 1, len(tilts) - 1)]
    for _ in range(_GOLDEN_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = curve(left), curve(right)
        smallest = np.minimum(smallest, np.minimum(at_left, at_right))
        go_left = at_left < at_right
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
    return smallest


def _log_power_sum(log_r: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(r + r^2 + ... + r^n) for r >= 1: ln(r^n (1 - r^-n) / (1 - 1/r)), or ln n."""
    still = log_r < 1e-300
    g = np.where(still, 1.0, log_r)
    ratio = np.where(still, n, np.expm1(-n * g) / np.expm1(-g))
    return np.asarray(n * log_r + np.log(np.maximum(ratio, 1.0)))
