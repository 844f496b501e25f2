"""Agreement with the keys of a phase: of the best one, with slips, and of the best stretch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.key import Key
from patternmark.likelihood import UNREAD, PhaseScores
from patternmark.null.bounds import local_log_bound, slip_log_bound
from patternmark.null.local import LocalNull, LocalRules, local_scores
from patternmark.null.walk import (
    TABLE_LENGTH,
    SlipNull,
    phase_log_tail,
    phase_mean,
    slip_scores,
)
from patternmark.reading import Reading
from patternmark.statistics.base import (
    CURVE_POINTS,
    Measurement,
    NullCurve,
    combined,
    padded,
)

SLIP_COST = 6
_MARKED_RATE = 0.7  # how often marked symbols agree, to choose nonces by
_LONE_NONCES = 2  # how many nonces are searched for slips: those that agree best


class _OfPhases:
    """What the three share: signs along phases, for keys that promote half of the symbols."""

    name = ""
    signature = ""

    def __init__(self, key: Key) -> None:
        self._schedule = key.schedule
        self.num_phases = self._schedule.period * self._schedule.nonces
        if not key.profile.is_hardened and key.profile.num_keys != 2:
            raise ParameterError(
                f"the detector {self.name} needs keys that promote half of the symbols each: "
                "take auto, lr or pattern for this key"
            )
        promoted = [self._schedule.promoted(nonce) for nonce in range(self._schedule.nonces)]
        self._promoted = np.stack(promoted)  # [R, P, V]
        unread = np.zeros((*self._promoted.shape[:2], 1))  # the logarithm of its factor
        ratio = np.where(self._promoted, log(2 * _MARKED_RATE), log(2 * (1 - _MARKED_RATE)))
        self._agreements = PhaseScores(np.exp(np.append(self._promoted, unread, axis=2)))
        self._ratios = PhaseScores(np.exp(np.append(ratio, unread, axis=2)))

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""
        return [self._judge(reading) for reading in readings]

    def _judge(self, reading: Reading) -> Measurement:
        raise NotImplementedError

    @property
    def is_mirrored(self) -> bool:
        """Whether the two phases are each other's opposite, as in the paper's scheme."""
        return self.num_phases == 2

    def agreements(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return how many symbols agree with each nonce and phase: [chains, R, P]."""
        return np.asarray(np.rint(self._agreements(padded(chains))).astype(np.int64))

    def signs(self, chain: NDArray[np.int64], nonce: int) -> NDArray[np.int8]:
        """Return +1, -1 or 0 (unread) for every position under every phase: [n, P]."""
        period = self._schedule.period
        key = (np.arange(len(chain))[:, None] + np.arange(period)) % period
        agrees = self._promoted[nonce][key, chain[:, None]]
        signs = np.where(agrees, 1, -1).astype(np.int8)
        signs[chain == UNREAD] = 0
        return np.asarray(signs)

    def likely_nonces(self, chain: NDArray[np.int64]) -> list[int]:
        """Return the nonces that are worth a look."""
        best = np.round(self.nonce_scores([chain])[0], 9)
        return [int(nonce) for nonce in np.argsort(-best, kind="stable")[:_LONE_NONCES]]

    def nonce_scores(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Return how well each nonce explains the best part of each chain: [chains, R]."""
        return self._ratios.best_in_part(padded(chains))


def _num_scored(chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.array([np.count_nonzero(chain != UNREAD) for chain in chains], dtype=np.int64)


def _law_of_sum(
    log_tail: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]],
    scored: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return P(sum over chains = 0, 1, ...) from ln P(chain >= value) of each."""
    law = np.ones(1)
    for n in scored.tolist():
        values = np.arange(n + 2)
        law = np.convolve(law, -np.diff(np.exp(log_tail(values, np.full(n + 2, n)))))
    return law


def _range_of(statistic: float, low: float, most: float) -> NDArray[np.int64]:
    """Choose values to draw a tail at: from `low` to beyond the statistic, where it can go."""
    high = min(most, 1.1 * max(statistic, low + 0.3 * (most - low)))
    return np.unique(np.linspace(low, max(high, low + 1), CURVE_POINTS).astype(np.int64))


class PhaseStatistic(_OfPhases):
    """The agreement of the best phase: exact for two phases, a sum of tails for more.

    Half of the false positives are granted to the starts of the schedule, half to any phase.
    """

    name = "phase"

    def _judge(self, reading: Reading) -> Measurement:
        """Count agreements; chains of a record are combined by Fisher's method."""
        chains = reading.parts
        if not chains:
            return Measurement(0, 0.0, 0.0, 0.0)
        scored = _num_scored(chains)
        best, from_start = self._best(chains)
        log_p = self._log_p(best, from_start, scored)
        floor = self._log_p(scored, scored, scored)
        return Measurement(
            statistic=int(best.sum()),
            # Of many phases only a bound is known.
            expected=float(phase_mean(scored).sum()) if self.is_mirrored else None,
            log_p=combined(log_p.tolist()),
            log_p_floor=combined(floor.tolist()),
        )

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution of two phases; of more, the tail that decided."""
        chains, name = reading.parts, "agreement with the best phase"
        scored = _num_scored(chains)
        if self.is_mirrored:
            return NullCurve.of_law(_law_of_sum(phase_log_tail, scored), statistic, name)
        best, from_start = self._best(chains)
        if len(chains) != 1:
            return NullCurve.of_combined(self._log_p(best, from_start, scored).tolist())
        of_start, of_any = self._both_log_ps(best, from_start, scored)
        phases, observed = 2 * self.num_phases, best
        if of_start[0] < of_any[0]:
            phases, observed = self._start_phases, from_start
        values = _range_of(float(observed[0]), scored[0] / 2, scored[0])
        heights = phase_log_tail(values, np.full(len(values), scored[0]), phases)
        return NullCurve.of_tail(values, heights, float(observed[0]), name)

    def _best(
        self, chains: Sequence[NDArray[np.int64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the agreement of the best phase, and of the best that is a start: [chains]."""
        found = self.agreements(chains)
        return found.max(axis=(1, 2)), found[..., self._schedule.starts].max(axis=(1, 2))

    @property
    def _start_phases(self) -> int:
        return 2 * len(self._schedule.starts) * self._schedule.nonces

    def _both_log_ps(
        self,
        best: NDArray[np.int64],
        from_start: NDArray[np.int64],
        scored: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        of_start = phase_log_tail(from_start, scored, self._start_phases)
        return of_start, phase_log_tail(best, scored, 2 * self.num_phases)

    def _log_p(
        self,
        best: NDArray[np.int64],
        from_start: NDArray[np.int64],
        scored: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        if self.is_mirrored:
            return phase_log_tail(best, scored, 2)
        return np.minimum(*self._both_log_ps(best, from_start, scored))


class SlipStatistic(_OfPhases):
    """The best alignment to the phases, in which a change of phase costs: exact for two phases."""

    name = "slip"
    signature = f"cost:{SLIP_COST}"

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self._null = SlipNull(SLIP_COST)

    def _judge(self, reading: Reading) -> Measurement:
        """Align; chains of a record are combined by Fisher's method."""
        chains = reading.parts
        if not chains:
            return Measurement(0, 0.0, 0.0, 0.0)
        scored = _num_scored(chains)
        scores = np.array([self._score(chain) for chain in chains])
        log_p, floor = self._log_p(np.stack([scores, scored]), scored)
        return Measurement(
            statistic=int(scores.sum()),
            # Of many phases only a bound is known.
            expected=float(self._null.mean(scored).sum()) if self.is_mirrored else None,
            log_p=combined(log_p.tolist()),
            log_p_floor=combined(floor.tolist()),
        )

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution of two phases, unless it is long; otherwise the tail."""
        chains, name = reading.parts, "score of the best alignment"
        scored = _num_scored(chains)
        if self.is_mirrored and max(scored, default=0) <= TABLE_LENGTH:
            return NullCurve.of_law(_law_of_sum(self._log_p, scored), statistic, name)
        if len(chains) != 1:
            scores = np.array([self._score(chain) for chain in chains], dtype=np.int64)
            return NullCurve.of_combined(self._log_p(scores, scored).tolist())
        values = _range_of(statistic, 0, scored[0])
        heights = self._log_p(values, np.full(len(values), scored[0]))
        return NullCurve.of_tail(values, heights, statistic, name)

    def _score(self, chain: NDArray[np.int64]) -> int:
        if self.is_mirrored:
            return int(slip_scores(self.signs(chain, 0)[:, 0][None], SLIP_COST)[0])
        return max(_best_path(self.signs(chain, nonce)) for nonce in self.likely_nonces(chain))

    def _log_p(self, scores: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.is_mirrored:
            return self._null.log_tail(scores, scored)
        of_one = slip_log_bound(scores, scored, self._schedule.period, SLIP_COST)
        return np.minimum(of_one + log(self._schedule.nonces), 0.0)  # no path leaves its nonce


def _best_path(signs: NDArray[np.int8]) -> int:
    """Return the best score of a path through the phases: signs [n, P]."""
    score = np.zeros(signs.shape[1], dtype=np.int64)
    for row in signs[signs.any(axis=1)]:
        moved = np.maximum(np.roll(score, 1), np.roll(score, -1)) - SLIP_COST
        score = np.maximum(score, moved) + row
    return int(score.max())


class LocalStatistic(_OfPhases):
    """The best marked stretch, with its place: exact for two phases."""

    name = "local"

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        # A bound over many phases needs slips that cost more than the exact null of two does.
        self.rules = LocalRules() if self.is_mirrored else LocalRules(slip=30)
        self._null = LocalNull(self.rules)
        self._means: dict[int, float] = {}
        r = self.rules
        self.signature = f"agree:{r.match}|disagree:{r.mismatch}|slip:{r.slip}"

    def _judge(self, reading: Reading) -> Measurement:
        scored = reading.num_scored
        if scored == 0:
            return Measurement(0, 0.0, 0.0, 0.0)
        chains = [c for c in reading.chains if np.any(reading.symbols[c] != UNREAD)]
        best, segment = 0, (0, 0)
        for chain in chains:
            score, start, end = self._stretch(reading.symbols[chain])
            if score > best:
                best, segment = score, (chain.start + start, chain.start + end)
        scores = [best, self.rules.match * scored]
        log_p, floor = self._log_p(scores, scored, len(chains)).tolist()
        return Measurement(
            statistic=best,
            # Of many phases only a bound is known.
            expected=self._mean(scored) if self.is_mirrored else None,
            log_p=log_p,
            log_p_floor=floor,
            segment=segment if best else None,
        )

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the tail, by the same count of chances."""
        chains, scored = len(reading.parts), reading.num_scored
        values = _range_of(statistic, 0, min(self.rules.match * scored, max(statistic, 100)))
        some = np.union1d(values[::4], values[-1:])  # the exact tail takes a pass for each
        tails = self._log_p(some, scored, chains)
        return NullCurve.of_tail(some, tails, statistic, "score of the best stretch")

    def _mean(self, scored: int) -> float:
        if scored not in self._means:
            self._means[scored] = float(self._null.mean(scored))
        return self._means[scored]

    def _stretch(self, chain: NDArray[np.int64]) -> tuple[int, int, int]:
        if self.is_mirrored:
            return _first_local(self.signs(chain, 0)[:, 0], self.rules)
        found = [_local_path(self.signs(chain, n), self.rules) for n in self.likely_nonces(chain)]
        return max(found)

    def _log_p(self, scores: ArrayLike, scored: int, chains: int) -> NDArray[np.float64]:
        if self.is_mirrored:
            of_one = self._null.log_tail(scores, scored)
        else:  # no path leaves its nonce
            r, period = self.rules, self._schedule.period
            of_one = local_log_bound(scores, scored, period, r.match, r.mismatch, r.slip)
        chances = max(chains, 1) * self._schedule.nonces
        return np.asarray(np.minimum(of_one + log(chances), 0.0))


def _first_local(signs: NDArray[np.int8], rules: LocalRules) -> tuple[int, int, int]:
    found = local_scores(signs[None], rules)
    return int(found.score[0]), int(found.start[0]), int(found.end[0])


def _local_path(signs: NDArray[np.int8], rules: LocalRules) -> tuple[int, int, int]:
    """Return score, start and end of the best stretch of any path: signs [n, P]."""
    num_phases = signs.shape[1]
    score = np.zeros(num_phases, dtype=np.int64)
    start = np.zeros(num_phases, dtype=np.int64)
    best = (0, 0, 0)
    values = np.where(signs > 0, rules.match, np.where(signs < 0, -rules.mismatch, 0))
    for position, row in enumerate(values):
        for shift in (1, -1):
            other = np.roll(score, shift) - rules.slip
            better = other > score
            score, start = (
                np.where(better, other, score),
                np.where(better, np.roll(start, shift), start),
            )
        fresh = score <= 0
        score, start = np.where(fresh, 0, score) + row, np.where(fresh, position, start)
        top = int(np.argmax(score))
        if score[top] > best[0]:
            best = (int(score[top]), int(start[top]), position + 1)
    return best
