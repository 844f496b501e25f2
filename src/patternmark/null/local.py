"""The best marked segment inside an unmarked whole, and the exact null of its score.

A local alignment to the two phases of a mark: as the slip walk (see `walk`), but an agreement
scores `match`, a disagreement `-mismatch`, and neither V0 nor V1 falls below 0, so that a segment
may begin anywhere. The score is the largest value either ever takes.

P(score >= s after n signs) is the probability that the chain (V0, V1) enters {max >= s} within n
steps. Of the two only the larger M and its lead D matter, and a lead beyond the slip cost c is as
good as c: s * (c + 1) states at most. One pass by dynamic programming, which only ever adds and
multiplies, gives the answer for *every* n; from where the chain has settled the rest is a
geometric series that bounds it from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.null.arguments import whole_numbers
from patternmark.null.bounds import local_log_bound

_SHORTEST_PASS = 256
_SETTLED = 1e-14  # how far the growth of any two states may differ where the series takes over
_CHECK_EVERY = 16
_ROUNDING = 4e-15  # of one step: a few sums and products
_MOST_STATES = 2**15  # more would make a pass slow where no p-value matters
_LARGEST_EXPONENT = 600.0  # floats hold e^-700 to e^700
_SMALLEST_SHARE = log(1e-9)  # of a mean


@dataclass(frozen=True)
class LocalRules:
    """What an agreement earns, and what a disagreement and a change of phase cost."""

    match: int = 2
    mismatch: int = 3
    slip: int = 14

    def __post_init__(self) -> None:
        if min(self.match, self.mismatch, self.slip) < 1:
            raise ParameterError(f"match, mismatch and slip are whole numbers from 1 up: {self}")


DEFAULT_RULES = LocalRules()


@dataclass(frozen=True, eq=False)
class LocalScores:
    """The best segment of every row: `start` to `end`, half-open, both 0 where none is scored."""

    score: NDArray[np.int64]  # [B]
    start: NDArray[np.int64]  # [B]
    end: NDArray[np.int64]  # [B]


def local_scores(signs: NDArray[np.int8], rules: LocalRules = DEFAULT_RULES) -> LocalScores:
    """Find the best segment of every row of `signs` [B, n], shorter rows filled up with 0.

    A sign of 0 is an unscored position: it may lie inside a segment and changes nothing. Of
    segments that score alike the one that ends first is taken.

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
    """How well the best segment of an unmarked sequence scores.

    Exact up to a score of 2,184 (by the default rules, where p is below 1e-80 even in a million).
    Beyond it a pass would be slow, and the p-value is a bound: that of `local_log_bound` or the
    exact one of the highest score, whichever is less.

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
        highest = self.rules.match * n
        result[s > highest] = -np.inf
        no_flaw = (s > 0) & (s == highest)  # all signs favour one of the phases: 2 of 2^n
        result[no_flaw] = (1 - n[no_flaw]) * log(2.0)
        open_question = (s > 0) & (s < highest)
        beyond = open_question & (s > self._highest)
        if beyond.any():
            result[beyond] = self._bound(s[beyond], n[beyond])
        within = np.flatnonzero(open_question & ~beyond)
        # Grouped by score: each group is one look-up in the passage of that score.
        ordered = within[np.argsort(s.flat[within], kind="stable")]
        scores, first = np.unique(s.flat[ordered], return_index=True)
        for each, group in zip(scores.tolist(), np.split(ordered, first[1:]), strict=False):
            lengths = n.flat[group]
            result.flat[group] = self._passage(each, int(lengths.max())).log_tail(lengths)
        return result

    def mean(self, scored: ArrayLike) -> NDArray[np.float64]:
        """Return the expected score of the best segment: the sum of its tails.

        What is left out, where tails have fallen below 1e-9, is of that order.
        """
        n, _ = whole_numbers(scored, 0)
        total = np.zeros(n.shape)
        for score in range(1, self._highest + 1):
            log_p = self.log_tail(score, n)
            total += np.exp(log_p)
            if np.all(log_p < _SMALLEST_SHARE):
                break
        return total

    def _bound(self, s: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
        rules = self.rules
        by_tilt = local_log_bound(s, n, 2, rules.match, rules.mismatch, rules.slip)
        return np.minimum(by_tilt, self.log_tail(self._highest, n))

    def _passage(self, score: int, longest: int) -> _Passage:
        """Return what is known of reaching `score`, at least as far as `longest`."""
        known = self._passages.get(score)
        if known is None or not known.reaches(longest):
            steps = max(_SHORTEST_PASS, 2 ** (longest - 1).bit_length())
            known = self._passages[score] = _passage(score, steps, self.rules, self._tilt)
        return known


@dataclass(frozen=True, eq=False)
class _Passage:
    """When the chain first reaches a score, its probabilities divided by e^log_scale.

    Where `log_growth` is given, the probability f of a first passage at step N, the last computed,
    is followed by no more than f e^(j log_growth) j steps later: see `_passage`.
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
        with np.errstate(divide="ignore"):  # not reached at all: the logarithm is -inf
            return np.asarray(np.minimum(np.log(total) + self.log_scale, 0.0))

    def _after(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        g = self.log_growth
        if self.last == 0.0 or g is None:
            return np.zeros(steps.shape)
        series = np.expm1(np.minimum(steps * g, 700.0)) / expm1(g) if g else steps
        return np.asarray(self.last * exp(g) * series)


def _passage(score: int, steps: int, rules: LocalRules, tilt: float) -> _Passage:
    """Follow the chain below `score` for `steps`, or until it has settled.

    With x_t the probabilities of the states after t steps, x_(t+1) = x_t Q for a matrix Q >= 0. So
    if x_(N+1) <= r x_N in every state, x_(N+1+j) <= r^j x_(N+1) too, and so is what enters the
    score from them. The largest ratio serves as r. When all ratios agree, the bound is exact but
    for their difference.

    A state at height M is kept times e^(tilt M): see `_safe_tilt`.
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
    """Return the largest ln(after / before) if all are alike, else None."""
    alive = before > 0.0
    if np.any(after[~alive] > 0.0):
        return None
    if not alive.any():
        return 0.0  # nothing is left to enter
    ratios = after[alive] / before[alive]
    largest = float(ratios.max())
    if largest - float(ratios.min()) > _SETTLED:
        return None
    return log1p(largest - 1.0 + _ROUNDING)


def _moves(
    score: int, rules: LocalRules, tilt: float
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return where each state goes [2 * size] with what weight [2, size].

    States are the pairs (M, D) with 0 <= M < score and 0 <= D <= min(M, slip), in this order;
    `size` itself stands for the score reached. The first half favours the leader.
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
    # What enters is weighed as if at the score itself, however far it overshoots.
    weight = 0.5 * np.exp(tilt * (np.minimum(new_high, score) - high))
    return target.ravel(), weight


def _safe_tilt(rules: LocalRules) -> tuple[float, int]:
    """Return a tilt that keeps all states within floats, and up to what score.

    A height M is reached, if at all, with a probability between 2^-(M / match), in the fewest
    steps, and 1. A weight of e^(tilt M) with the tilt halfway between leaves the least to either
    side.
    """
    steepest = log(2.0) / rules.match
    by_range = int(2.0 * _LARGEST_EXPONENT / steepest)
    return 0.5 * steepest, min(by_range, _MOST_STATES // (rules.slip + 1))
