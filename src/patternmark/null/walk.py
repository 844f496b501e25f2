"""Exact nulls of two walks along a mark that alternates between two phases.

Every position has a sign: +1 if its symbol agrees with phase 0, -1 if it agrees with phase 1, 0 if
it is not scored. Without a mark the signs that are not 0 are fair coins.

- **phase**: the agreement with the better phase. Its null is a doubled binomial.
- **slip**: the best agreement minus disagreement of a path that may change phase at a cost c,
  as after an insertion or a deletion: V0' = max(V0, V1 - c) + a and
  V1' = max(V1, V0 - c) - a from V0 = V1 = 0; the score is max(V0, V1) at the end.

The slip null uses the same method as the pattern count. Besides the maximum M of (V0, V1), only the
lead D of one over the other matters, and a lead above c has the same effect as c. D determines how
M moves: by -1, 0 or +1. So (M + n) / 2 grows by 0 or 1 (or by a half, which is stored in the
state): it is a count along a small Markov chain, with the same table and transform.

A sign of 0 changes nothing: V0' = max(V0, V1 - c) is the same maximum that the next step takes, and
it does not change the larger of the two. So unscored positions can be left out.
"""

from __future__ import annotations

from functools import cached_property
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.null.arguments import check_cost, check_phases, whole_numbers
from patternmark.null.automaton import CountingChain
from patternmark.null.binomial import binomial_log_tail, log_point
from patternmark.null.direct import distributions
from patternmark.null.tilted import TiltedCount

TABLE_LENGTH = 1024  # signs up to which a table is used: 2^-1024, the smallest tail, fits a float
_MAX_CACHED = 2**16  # tails


def phase_log_tail(
    agreements: ArrayLike, scored: ArrayLike, phases: int = 2
) -> NDArray[np.float64]:
    """Return ln P(the best of `phases` agrees at `agreements` of `scored` positions or more).

    Two phases are opposites: A >= k or n - A >= k. If 2k > n, both cannot hold, so twice the
    binomial tail is exact; if 2k <= n, one of them always holds. For more phases, only the fair
    coins of each phase are assumed: the sum of their tails is a bound.

    >>> round(float(np.exp(phase_log_tail(4, 4))), 12)  # two of 16
    0.125
    >>> round(float(phase_log_tail(5000, 5000)) / log(2), 6)
    -4999.0
    """
    check_phases(phases)
    k, n = whole_numbers(agreements, scored)
    result = np.zeros(k.shape)
    result[k > n] = -np.inf
    # If 2k <= n, the better of two phases always agrees k times, and a tail is at least 1/2.
    in_tail = (2 * k > n) & (k <= n)
    if in_tail.any():
        tails = binomial_log_tail(k[in_tail], n[in_tail], 0.5)
        result[in_tail] = np.minimum(log(phases) + tails, 0.0)
    return result


def phase_mean(scored: ArrayLike) -> NDArray[np.float64]:
    """Return the expected agreement with the better of two phases.

    It is (n + E|A - (n - A)|) / 2, and the average distance of a fair walk from its start, after 2m
    or 2m - 1 steps, is 2m P(A_2m = m).
    """
    n, _ = whole_numbers(scored, 0)
    half = (n + 1) // 2
    middle = np.exp(log_point(np.maximum(half, 1), np.maximum(2 * half, 2), 0.5))
    return np.asarray(n / 2.0 + half * middle)


def slip_scores(signs: NDArray[np.int8], cost: int) -> NDArray[np.int64]:
    """Return the slip score of every row of `signs` [B, n]; shorter rows are padded with 0.

    >>> slip_scores(np.array([[1, 1, 1, 1, -1, -1, 0, -1, -1]], dtype=np.int8), cost=2)
    array([6])
    """
    check_cost(cost)
    in_phase_0 = np.zeros(len(signs), dtype=np.int64)
    in_phase_1 = np.zeros(len(signs), dtype=np.int64)
    for sign in np.ascontiguousarray(signs.T):
        to_0 = np.maximum(in_phase_0, in_phase_1 - cost)
        to_1 = np.maximum(in_phase_1, in_phase_0 - cost)
        in_phase_0, in_phase_1 = to_0 + sign, to_1 - sign
    return np.maximum(in_phase_0, in_phase_1)


class SlipNull:
    """The null of the slip score.

    >>> null = SlipNull(cost=6)
    >>> round(float(np.exp(null.log_tail(4, 4))), 12)  # two of 16
    0.125
    >>> null.log_tail([4, 5], [4, 4]).round(3)
    array([-2.079,   -inf])
    """

    def __init__(self, cost: int) -> None:
        check_cost(cost)
        self.cost = cost
        # If score + n is even, (M + n) / 2 is rounded down, if it is odd, up. With an even cost
        # nothing needs rounding.
        down = _lead_chain(cost, round_up=False)
        self._chains = (down, down if cost % 2 == 0 else _lead_chain(cost, round_up=True))
        self._known_tails: dict[tuple[int, int], float] = {}
        self._known_means = np.zeros(1)
        self._lead = np.eye(1, cost + 1)[0]  # P(D = d) after the last step whose mean is known

    def log_tail(self, score: ArrayLike, scored: ArrayLike) -> NDArray[np.float64]:
        """Return ln P(S >= score) after `scored` fair signs."""
        s, n = whole_numbers(score, scored)
        result = np.zeros(s.shape)
        result[s > n] = -np.inf
        open_question = (s > 0) & (s <= n)
        short = open_question & (n <= TABLE_LENGTH)
        if short.any():
            double = s[short] + n[short]
            result[short] = self._table[double % len(self._table), n[short], (double + 1) // 2]
        for index in np.argwhere(open_question & ~short):
            at = tuple(index)
            result[at] = self._long_log_tail(int(s[at]), int(n[at]))
        return result

    def mean(self, scored: ArrayLike) -> NDArray[np.float64]:
        """Return the expected score: M gains 1 if D = 0, on average 1/2 if D = 1, else 0."""
        n, _ = whole_numbers(scored, 0)
        longest = int(n.max(initial=0))
        if longest >= len(self._known_means):
            self._extend_means(longest)
        return np.asarray(self._known_means[n])

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        """Ln P(count >= c) after n signs, for each way of rounding: [1 or 2, n, c]."""
        logs = []
        for chain in dict.fromkeys(self._chains):
            laws = distributions(chain, TABLE_LENGTH)
            with np.errstate(divide="ignore"):  # impossible counts have the logarithm -inf
                logs.append(np.minimum(np.log(np.cumsum(laws[:, ::-1], axis=1)[:, ::-1]), 0.0))
        return np.stack(logs)

    def _long_log_tail(self, score: int, scored: int) -> float:
        question = (score, scored)
        if question not in self._known_tails:
            if len(self._known_tails) >= _MAX_CACHED:
                self._known_tails.clear()
            chain = self._chains[(score + scored) % 2]
            count = (score + scored + 1) // 2
            self._known_tails[question] = TiltedCount(chain, [scored]).log_tail(count)
        return self._known_tails[question]

    def _extend_means(self, longest: int) -> None:
        lead, gains = self._lead, []
        move = np.zeros((self.cost + 1, self.cost + 1))
        for d in range(self.cost + 1):
            for _, to in _lead_steps(d, self.cost):
                move[d, to] += 0.5
        for _ in range(longest + 1 - len(self._known_means)):
            gains.append(lead[0] + 0.5 * lead[1])
            lead = lead @ move
        more = self._known_means[-1] + np.cumsum(gains)
        self._known_means, self._lead = np.append(self._known_means, more), lead


def _lead_steps(lead: int, cost: int) -> list[tuple[int, int]]:
    """Return (gain of M, next D) for a sign that favours the leader, and for the other sign."""
    ahead = (1, min(lead + 2, cost))
    if lead == 0:
        return [ahead, ahead]
    return [ahead, (-1, lead - 2) if lead > 1 else (0, 1)]


def _lead_chain(cost: int, *, round_up: bool) -> CountingChain:
    """Return the chain whose count after n signs is (M + n) / 2, rounded.

    Its states are (D, whether a half was rounded). With an even cost D stays even; with an odd cost
    it stays odd once it has reached the cost.
    """
    number: dict[tuple[int, bool], int] = {}
    pending: list[tuple[int, bool]] = []

    def steps_from(lead: int, rounded: bool) -> list[tuple[int, int]]:
        steps = []
        for gain, to in _lead_steps(lead, cost):
            half = (1 + gain - rounded) if round_up else (1 + gain + rounded)
            state = (to, half % 2 == 1)
            if state not in number:
                number[state] = len(number)
                pending.append(state)
            steps.append((number[state], (half + round_up) // 2))
        return steps

    first = steps_from(0, False)[0]  # after the first sign one phase leads, whatever the sign
    moves = []
    while pending:
        state = pending.pop()
        moves += [(to, number[state], hit) for to, hit in steps_from(*state)]
    target, source, hits = np.array(sorted(moves)).T
    start = np.eye(2 * len(number))[2 * first[0] + first[1]].reshape(-1, 2)  # [S, (miss, hit)]
    return CountingChain(
        start[:, 0], start[:, 1], source, target, hits == 1, np.full(len(moves), 0.5)
    )
