"""Exact nulls of two walks along a mark that alternates between two phases.

Every scored position shows a sign: +1 where its symbol agrees with phase 0, -1 where it agrees
with phase 1, 0 where nothing is scored. Without a mark the signs that are not 0 are fair coins.

- **phase**: the agreement with the better phase. Its null is a doubled binomial.
- **slip**: the best agreement minus disagreement of a path that may change phase at a cost c,
  which is what an insertion or a deletion does: V0' = max(V0, V1 - c) + a and
  V1' = max(V1, V0 - c) - a from V0 = V1 = 0; the score is max(V0, V1) at the end.

The slip null needs no machinery of its own. What matters of (V0, V1) besides their maximum M is
the lead D of one over the other, and D beyond c is as good as c: M is a walk that D drives. It
moves by -1, 0 or +1, and (M + n) / 2 by 0 or 1 (or by a half, which is carried in the state): a
count along a small Markov chain, as the pattern count is, with the same table and transform.

A sign of 0 changes nothing: V0' = max(V0, V1 - c) is what the next step would have taken anyway,
and it leaves the larger of the two alone. So unscored positions count as if they were not there.
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

TABLE_LENGTH = 1024  # one table up to here: no path is less likely than 2^-1024, still a float
_MOST_KNOWN = 2**16


def phase_log_tail(
    agreements: ArrayLike, scored: ArrayLike, phases: int = 2
) -> NDArray[np.float64]:
    """Return ln P(the best of `phases` agrees at `agreements` of `scored` positions or more).

    Two phases are mirror images: either A >= k or n - A >= k, never both where 2k > n and always
    one where 2k <= n, so twice the binomial tail is exact. Of more phases nothing is assumed but
    that each agrees by fair coins: their tails add up to a bound.

    >>> round(float(np.exp(phase_log_tail(4, 4))), 12)  # two of 16
    0.125
    >>> round(float(phase_log_tail(5000, 5000)) / log(2), 6)
    -4999.0
    """
    check_phases(phases)
    k, n = whole_numbers(agreements, scored)
    result = np.zeros(k.shape)
    result[k > n] = -np.inf
    # With 2k <= n the better of two phases always agrees so often, and a tail is at least 1/2.
    in_tail = (2 * k > n) & (k <= n)
    if in_tail.any():
        tails = binomial_log_tail(k[in_tail], n[in_tail], 0.5)
        result[in_tail] = np.minimum(log(phases) + tails, 0.0)
    return result


def phase_mean(scored: ArrayLike) -> NDArray[np.float64]:
    """Return the expected agreement with the better of two phases.

    It is (n + E|A - (n - A)|) / 2, and a fair walk of 2m or of 2m - 1 steps ends
    2m P(A_2m = m) away from where it began, on average.
    """
    n, _ = whole_numbers(scored, 0)
    half = (n + 1) // 2
    middle = np.exp(log_point(np.maximum(half, 1), np.maximum(2 * half, 2), 0.5))
    return np.asarray(n / 2.0 + half * middle)


def slip_scores(signs: NDArray[np.int8], cost: int) -> NDArray[np.int64]:
    """Return the slip score of every row of `signs` [B, n], shorter rows filled up with 0.

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
    """How far the slip score gets by chance.

    >>> null = SlipNull(cost=6)
    >>> round(float(np.exp(null.log_tail(4, 4))), 12)  # two of 16
    0.125
    >>> null.log_tail([4, 5], [4, 4]).round(3)
    array([-2.079,   -inf])
    """

    def __init__(self, cost: int) -> None:
        check_cost(cost)
        self.cost = cost
        # (M + n) / 2 rounded down answers where score + n is even, rounded up where it is odd. An
        # even cost leaves nothing to round.
        down = _lead_chain(cost, round_up=False)
        self._chains = (down, down if cost % 2 == 0 else _lead_chain(cost, round_up=True))
        self._known_tails: dict[tuple[int, int], float] = {}
        self._known_means = np.zeros(1)
        self._lead = np.eye(1, cost + 1)[0]  # P(D = d) after as many steps as means are known

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
        """Return the expected score: M gains 1 where D = 0, on average 1/2 where D = 1, else 0."""
        n, _ = whole_numbers(scored, 0)
        longest = int(n.max(initial=0))
        if longest >= len(self._known_means):
            self._extend_means(longest)
        return np.asarray(self._known_means[n])

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        """Ln P(count >= c) after n signs, by either rounding: [1 or 2, n, c]."""
        logs = []
        for chain in dict.fromkeys(self._chains):
            laws = distributions(chain, TABLE_LENGTH)
            with np.errstate(divide="ignore"):  # what cannot happen has the logarithm -inf
                logs.append(np.minimum(np.log(np.cumsum(laws[:, ::-1], axis=1)[:, ::-1]), 0.0))
        return np.stack(logs)

    def _long_log_tail(self, score: int, scored: int) -> float:
        question = (score, scored)
        if question not in self._known_tails:
            if len(self._known_tails) >= _MOST_KNOWN:
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
    """Return (gain of M, next D) for a sign that favours the leader, and for one that does not."""
    ahead = (1, min(lead + 2, cost))
    if lead == 0:
        return [ahead, ahead]
    return [ahead, (-1, lead - 2) if lead > 1 else (0, 1)]


def _lead_chain(cost: int, *, round_up: bool) -> CountingChain:
    """Return the chain whose count after n signs is (M + n) / 2, rounded.

    Its states are (D, whether a half was rounded). With an even cost D stays even, and with an odd
    one it becomes odd for good once it has reached the cost.
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

    first = steps_from(0, False)[0]  # the first sign makes a leader, whichever it is
    moves = []
    while pending:
        state = pending.pop()
        moves += [(to, number[state], hit) for to, hit in steps_from(*state)]
    target, source, hits = np.array(sorted(moves)).T
    start = np.eye(2 * len(number))[2 * first[0] + first[1]].reshape(-1, 2)  # [S, (miss, hit)]
    return CountingChain(
        start[:, 0], start[:, 1], source, target, hits == 1, np.full(len(moves), 0.5)
    )
