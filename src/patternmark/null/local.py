"""The best marked segment of a sequence, and the exact null of its score.

It is a local alignment to the two phases of a mark: like the slip walk (see `walk`), but an
agreement adds `match`, a disagreement adds `-mismatch`, and neither V0 nor V1 falls below 0, so a
segment may begin anywhere. The score is the largest value that V0 or V1 ever has.

P(score >= s after n signs) is the probability that the chain (V0, V1) enters {max >= s} within n
steps. Only the larger value M and its lead D matter, and a lead above the slip cost c has the same
effect as c: there are at most s * (c + 1) states. One pass of dynamic programming, which only adds
and multiplies, gives the answer for *every* n. Once the chain has settled, a geometric series
bounds the rest from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.null.arguments import whole_numbers
from patternmark.null.bounds import local_log_bound

_MIN_PASS = 256  # steps
_SETTLED = 1e-14  # largest difference in growth between states for which the series is used
_CHECK_EVERY = 16  # steps between tests whether the chain has settled
_ROUNDING = 4e-15  # relative error of one step: a few sums and products
_MAX_STATES = 2**15  # more would make passes slow, for p-values that nobody distinguishes
_MAX_EXPONENT = 600.0  # floats can represent e^-700 to e^700
_MIN_LOG_TAIL = log(1e-9)  # smaller tails are left out of a mean


@dataclass(frozen=True)
class LocalRules:
    """The gain of an agreement, and the costs of a disagreement and of a change of phase."""

    match: int = 2
    mismatch: int = 3
    slip: int = 14

    def __post_init__(self) -> None:
        if min(self.match, self.mismatch, self.slip) < 1:
            wrong = f"match, mismatch and slip must be whole numbers from 1 up, not {self}"
            raise ParameterError(wrong)


DEFAULT_RULES = LocalRules()


@dataclass(frozen=True, eq=False)
class LocalScores:
    """The best segment of every row: `start` to `end`, half-open; both 0 if there is none."""

    score: NDArray[np.int64]  # [B]
    start: NDArray[np.int64]  # [B]
    end: NDArray[np.int64]  # [B]


def local_scores(signs: NDArray[np.int8], rules: LocalRules = DEFAULT_RULES) -> LocalScores:
    """Find the best segment of every row of `signs` [B, n]; shorter rows are padded with 0.

    A sign of 0 is an unscored position: it may lie inside a segment and changes nothing. If
    several segments have the best score, the one that ends first is returned.

    >>> local_scores(np.array([[-1, 1, -1, 0, 1, 1, 1, 1, 1, -1, 1, -1]], dtype=np.int8))
    LocalScores(score=array([10]), start=array([4]), end=array([9]))
    """
    value = np.zeros((2, len(signs)), dtype=np.int64)  # [phase, B]
    begun = np.zeros_like(value)
    best, start, end = np.zeros((3, len(signs)), dtype=np.int64)
    for position, sign in enumerate(np.ascontiguousarray(signs.T)):
        scored = sign != 0
        begun[value == 0] = position
        slipped = value[::-1] - rules.slip > value
        begun = np.where(slipped, begun[::-1], begun)
        value = np.where(slipped, value[::-1] - rules.slip, value)
        gain = np.where(np.stack([sign, -sign]) > 0, rules.match, -rules.mismatch)
        value = np.maximum(value + gain * scored, 0)
        leader = value.argmax(axis=0)[None]
        highest = np.take_along_axis(value, leader, axis=0)[0]
        better = highest > best
        best[better], end[better] = highest[better], position + 1
        start[better] = np.take_along_axis(begun, leader, axis=0)[0][better]
    return LocalScores(best, start, end)


class LocalNull:
    """The null of the best segment's score.

    It is exact up to a score of 2,184 (with the default rules; there p is below 1e-80 even for a
    million positions). Above it a pass would be slow, and the p-value is a bound: that of
    `local_log_bound`, or the exact tail of the highest exact score if that is smaller.

    >>> null = LocalNull()
    >>> round(float(np.exp(null.log_tail(8, 4))), 12)  # four agreements: two of 16
    0.125
    >>> null.log_tail([30, 60, 120], 400).round(4)
    array([ -0.888 ,  -4.4001, -12.6021])
    """

    def __init__(self, rules: LocalRules = DEFAULT_RULES) -> None:
        self.rules = rules
        self._tilt, self._highest = _safe_tilt(rules)
        self._passages: dict[int, _Passage] = {}

    def log_tail(self, score: ArrayLike, scored: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(best segment of `scored` fair signs >= score)."""
        s, n = whole_numbers(score, scored)
        result = np.zeros(s.shape)
        result[s > self.rules.match * n] = -np.inf
        open_question = (s > 0) & (s <= self.rules.match * n)
        beyond = open_question & (s > self._highest)
        if beyond.any():
            result[beyond] = self._bound(s[beyond], n[beyond])
        within = np.flatnonzero(open_question & ~beyond)
        # Group by score: each group is one look-up in the passage of that score.
        ordered = within[np.argsort(s.flat[within], kind="stable")]
        scores, first = np.unique(s.flat[ordered], return_index=True)
        for each, group in zip(scores.tolist(), np.split(ordered, first[1:]), strict=False):
            lengths = n.flat[group]
            result.flat[group] = self._passage(each, int(lengths.max())).log_tail(lengths)
        return result

    def mean(self, scored: ArrayLike) -> NDArray[np.float64]:
        """Return the expected score of the best segment: the sum of its tails.

        Tails below 1e-9 are left out; their sum is of that order.
        """
        n, _ = whole_numbers(scored, 0)
        total = np.zeros(n.shape)
        for score in range(1, self._highest + 1):
            log_p = self.log_tail(score, n)
            total += np.exp(log_p)
            if np.all(log_p < _MIN_LOG_TAIL):
                break
        return total

    def _bound(self, s: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
        rules = self.rules
        by_tilt = local_log_bound(s, n, 2, rules.match, rules.mismatch, rules.slip)
        return np.minimum(by_tilt, self.log_tail(self._highest, n))

    def _passage(self, score: int, longest: int) -> _Passage:
        """Return the first passage to `score`, computed at least up to `longest` steps."""
        known = self._passages.get(score)
        if known is None or not known.reaches(longest):
            steps = max(_MIN_PASS, 2 ** (longest - 1).bit_length())
            known = self._passages[score] = _passage(score, steps, self.rules, self._tilt)
        return known


@dataclass(frozen=True, eq=False)
class _Passage:
    """The probabilities that the chain first reaches a score, divided by e^log_scale.

    Let f be the probability of a first passage at step N, the last one computed. If `log_growth` is
    given, the probability j steps later is at most f e^(j log_growth): see `_passage`.
    """

    reached: NDArray[np.float64]  # [N + 1]: by step 0, 1, ..., N
    last: float  # at step N
    log_growth: float | None
    log_scale: float

    def reaches(self, length: int) -> bool:
        return self.log_growth is not None or length < len(self.reached)

    def log_tail(self, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        longest = len(self.reached) - 1
        total = self.reached[np.minimum(lengths, longest)]
        if self.log_growth is not None:
            total = total + self._after(np.maximum(lengths - longest, 0))
        with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf
            return np.asarray(np.minimum(np.log(total) + self.log_scale, 0.0))

    def _after(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        g = self.log_growth
        if self.last == 0.0 or g is None:
            return np.zeros(steps.shape)
        series = np.expm1(np.minimum(steps * g, 700.0)) / expm1(g) if g else steps
        return np.asarray(self.last * exp(g) * series)


def _passage(score: int, steps: int, rules: LocalRules, tilt: float) -> _Passage:
    """Follow the chain below `score` for `steps`, or until it has settled.

    Let x_t be the probabilities of the states after t steps: x_(t+1) = x_t Q for a matrix Q >= 0.
    If x_(N+1) <= r x_N in every state, then x_(N+1+j) <= r^j x_(N+1), and the probability to reach
    the score from these states has the same bound. The largest ratio serves as r. When all ratios
    agree, the bound is exact except for their difference.

    The probability of a state at height M is stored times e^(tilt M): see `_safe_tilt`.
    """
    target, weight = _moves(score, rules, tilt)
    size = weight.shape[1]
    state = np.zeros(size)
    state[0] = 1.0  # both phases at 0
    entered = [0.0]
    growth = None
    for step in range(1, steps + 1):
        shares = (weight * state).ravel()
        moved = np.bincount(target, shares, size + 1).astype(np.float64, copy=False)
        entered.append(float(moved[size]))
        before, state = state, moved[:size]
        if step % _CHECK_EVERY == 0:
            growth = _settled_growth(before, state)
            if growth is not None:
                break
    return _Passage(np.cumsum(entered), entered[-1], growth, -tilt * score)


def _settled_growth(before: NDArray[np.float64], after: NDArray[np.float64]) -> float | None:
    """Return the largest ln(after / before) if all are equal within _SETTLED, else None."""
    alive = before > 0.0
    if np.any(after[~alive] > 0.0):
        return None
    if not alive.any():
        return 0.0  # no state is left from which the score can be reached
    ratios = after[alive] / before[alive]
    largest = float(ratios.max())
    if largest - float(ratios.min()) > _SETTLED:
        return None
    return log1p(largest - 1.0 + _ROUNDING)


def _moves(
    score: int, rules: LocalRules, tilt: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the target [2 * size] and the weight [2, size] of each move.

    States are the pairs (M, D) with 0 <= M < score and 0 <= D <= min(M, slip), in this order; the
    number `size` means that the score is reached. The first half are moves that favour the leader.
    """
    grid_high, grid_lead = np.mgrid[:score, : rules.slip + 1]
    valid = grid_lead <= grid_high
    high, low = grid_high[valid], (grid_high - grid_lead)[valid]
    size = len(high)
    number = np.full((score, rules.slip + 1), size)
    number[valid] = np.arange(size)
    ahead = np.stack([high + rules.match, np.maximum(low - rules.mismatch, 0)])
    back = np.stack([np.maximum(high - rules.mismatch, 0), low + rules.match])
    after = np.stack([ahead, back])  # [2 signs, 2 phases, size]
    new_high = after.max(axis=1)
    lead = np.minimum(new_high - after.min(axis=1), rules.slip)
    inside = new_high < score
    target = np.where(inside, number[np.where(inside, new_high, 0), lead], size)
    # A move that overshoots the score gets the weight of the score itself.
    weight = 0.5 * np.exp(tilt * (np.minimum(new_high, score) - high))
    return target.ravel(), weight


def _safe_tilt(rules: LocalRules) -> tuple[float, int]:
    """Return a tilt that keeps all states in the range of floats, and the largest score for it.

    If a height M can be reached, its probability lies between 2^-(M / match), in the fewest steps,
    and 1. A weight of e^(tilt M) with half of that slope centres this range on 1.
    """
    steepest = log(2.0) / rules.match
    by_range = int(2.0 * _MAX_EXPONENT / steepest)
    return 0.5 * steepest, min(by_range, _MAX_STATES // (rules.slip + 1))
