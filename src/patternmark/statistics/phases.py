"""Agreement with the keys of a phase: of the best one, with slips, and of the best stretch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import log

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
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
from patternmark.statistics.paths import best_paths, local_paths

SLIP_COST = 6
_MARKED_RATE = 0.7  # how often marked symbols agree, to choose nonces by
_LONE_NONCES = 2  # how many nonces are searched for slips: those that agree best
_BATCH = 32  # chains of like length that are measured together: they stay in the cache
_AT_ONCE = 2**24  # signs held at a time


class _OfPhases:
    """What the three share: signs along phases, for keys that promote half of the symbols."""

    name = ""
    signature = ""
    num_values = 1  # of what is found in a chain

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
        signs = np.append(2 * self._promoted.astype(np.int8) - 1, unread.astype(np.int8), axis=2)
        rounds = np.concatenate([signs, signs], axis=1).transpose(0, 2, 1)  # [R, V + 1, 2P]
        # What a symbol says of each phase at each place of the schedule: [R, V + 1, P + 1, P].
        self._windows = sliding_window_view(np.ascontiguousarray(rounds), signs.shape[1], axis=2)
        self._agreements = PhaseScores(np.exp(np.append(self._promoted, unread, axis=2)))
        self._ratios = PhaseScores(np.exp(np.append(ratio, unread, axis=2)))

    def _find_all(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return what `_find` does, for any number of chains: [chains, values]."""
        order = sorted(range(len(chains)), key=lambda c: len(chains[c]))
        found = np.zeros((len(chains), self.num_values), dtype=np.int64)
        while order:
            longest = len(chains[order[-1]])
            fit = max(1, _AT_ONCE // (max(longest, 1) * self._schedule.period))
            some, order = order[-min(fit, _BATCH) :], order[: -min(fit, _BATCH)]
            found[some] = self._find([chains[c] for c in some])
        return found

    def _find(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Measure chains of like length: [chains, values]."""
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
        places = np.arange(len(chain))
        return self._signs_at(chain[:, None], places[:, None], np.array([nonce]))[:, 0]

    def _signs_at(
        self, symbols: NDArray[np.int64], places: NDArray[np.int64], nonces: NDArray[np.int64]
    ) -> NDArray[np.int8]:
        """Return the signs of symbols [n, B] at places [n, B or 1], by nonces [B]: [n, B, P]."""
        return np.asarray(self._windows[nonces, symbols, places % self._schedule.period])

    def likely_nonces(self, chain: NDArray[np.int64]) -> list[int]:
        """Return the nonces that are worth a look."""
        return [int(nonce) for nonce in self._likely_nonces([chain])[0]]

    def _likely_nonces(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the same for every chain: [chains, nonces]."""
        if self._schedule.nonces == 1:
            return np.zeros((len(chains), 1), dtype=np.int64)
        best = np.round(self.nonce_scores(chains), 9)
        return np.argsort(-best, axis=1, kind="stable")[:, :_LONE_NONCES]

    def _first_signs(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int8]:
        """Return the signs under the first of two mirrored phases: [chains, longest]."""
        symbols = padded(chains).T
        places = np.arange(len(symbols))[:, None]
        return self._signs_at(symbols, places, np.zeros(1, dtype=np.int64))[..., 0].T

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


class _ChainByChain(_OfPhases):
    """Chains have p-values of their own; those of a record are combined by Fisher's method."""

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""
        parts = [reading.parts for reading in readings]
        chains = [chain for some in parts for chain in some]
        found, scored = self._find_all(chains), _num_scored(chains)
        log_p, floor = self._log_p_and_floor(found, scored)
        # Of many phases only a bound is known.
        means = self._mean(scored) if self.is_mirrored else None
        measured, end = [], 0
        for some in parts:
            own = slice(end, end + len(some))
            end = own.stop
            measured.append(
                Measurement(
                    statistic=int(found[own, 0].sum()),
                    expected=None if means is None else float(means[own].sum()),
                    log_p=combined(log_p[own].tolist()),
                    log_p_floor=combined(floor[own].tolist()),
                )
                if some
                else Measurement(0, 0.0, 0.0, 0.0)
            )
        return measured

    def _log_p_and_floor(
        self, found: NDArray[np.int64], scored: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ln p of what was found in each chain, and of the most there could be: [chains]."""
        raise NotImplementedError

    def _mean(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what two phases give by chance: [chains]."""
        raise NotImplementedError


class PhaseStatistic(_ChainByChain):
    """The agreement of the best phase: exact for two phases, a sum of tails for more.

    Half of the false positives are granted to the starts of the schedule, half to any phase.
    """

    name = "phase"
    num_values = 2  # the agreement of the best phase, and of the best that is a start

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution of two phases; of more, the tail that decided."""
        chains, name = reading.parts, "agreement with the best phase"
        scored = _num_scored(chains)
        if self.is_mirrored:
            return NullCurve.of_law(_law_of_sum(phase_log_tail, scored), statistic, name)
        best, from_start = self._find_all(chains).T
        if len(chains) != 1:
            return NullCurve.of_combined(self._log_p(best, from_start, scored).tolist())
        of_start, of_any = self._both_log_ps(best, from_start, scored)
        phases, observed = 2 * self.num_phases, best
        if of_start[0] < of_any[0]:
            phases, observed = self._start_phases, from_start
        values = _range_of(float(observed[0]), scored[0] / 2, scored[0])
        heights = phase_log_tail(values, np.full(len(values), scored[0]), phases)
        return NullCurve.of_tail(values, heights, float(observed[0]), name)

    def _find(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Count agreements."""
        found = self.agreements(chains)
        from_start = found[..., self._schedule.starts]
        return np.stack([found.max(axis=(1, 2)), from_start.max(axis=(1, 2))], axis=1)

    def _log_p_and_floor(
        self, found: NDArray[np.int64], scored: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._log_p(found[:, 0], found[:, 1], scored), self._log_p(scored, scored, scored)

    def _mean(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        return phase_mean(scored)

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


class SlipStatistic(_ChainByChain):
    """The best alignment to the phases, in which a change of phase costs: exact for two phases."""

    name = "slip"
    signature = f"cost:{SLIP_COST}"

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        self._null = SlipNull(SLIP_COST)

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution of two phases, unless it is long; otherwise the tail."""
        chains, name = reading.parts, "score of the best alignment"
        scored = _num_scored(chains)
        if self.is_mirrored and max(scored, default=0) <= TABLE_LENGTH:
            return NullCurve.of_law(_law_of_sum(self._log_p, scored), statistic, name)
        if len(chains) != 1:
            scores = self._find_all(chains)[:, 0]
            return NullCurve.of_combined(self._log_p(scores, scored).tolist())
        values = _range_of(statistic, 0, scored[0])
        heights = self._log_p(values, np.full(len(values), scored[0]))
        return NullCurve.of_tail(values, heights, statistic, name)

    def _find(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Align: the score of the best path."""
        if self.is_mirrored:
            return slip_scores(self._first_signs(chains), SLIP_COST)[:, None]
        read = [np.flatnonzero(chain != UNREAD) for chain in chains]  # no slip where none is
        symbols = padded([chain[at] for chain, at in zip(chains, read, strict=True)]).T
        places = padded(read).T
        scores = [
            best_paths(self._signs_at(symbols, places, nonces), SLIP_COST)
            for nonces in self._likely_nonces(chains).T
        ]
        return np.asarray(np.max(scores, axis=0)[:, None])

    def _log_p_and_floor(
        self, found: NDArray[np.int64], scored: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._log_p(found[:, 0], scored), self._log_p(scored, scored)

    def _mean(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._null.mean(scored)

    def _log_p(self, scores: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.is_mirrored:
            return self._null.log_tail(scores, scored)
        of_one = slip_log_bound(scores, scored, self._schedule.period, SLIP_COST)
        return np.minimum(of_one + log(self._schedule.nonces), 0.0)  # no path leaves its nonce


class LocalStatistic(_OfPhases):
    """The best marked stretch, with its place: exact for two phases."""

    name = "local"
    num_values = 3  # the score, start and end of the best stretch

    def __init__(self, key: Key) -> None:
        super().__init__(key)
        # A bound over many phases needs slips that cost more than the exact null of two does.
        self.rules = LocalRules() if self.is_mirrored else LocalRules(slip=30)
        self._null = _local_null(self.rules)
        r = self.rules
        self.signature = f"agree:{r.match}|disagree:{r.mismatch}|slip:{r.slip}"

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch: the best stretch of all its chains decides."""
        parts = [reading.parts for reading in readings]
        chains = np.array([len(some) for some in parts], dtype=np.int64)
        scored = np.array([reading.num_scored for reading in readings], dtype=np.int64)
        found = self._find_all([chain for some in parts for chain in some])
        stretches = [
            _best_stretch(*own)
            for own in zip(readings, np.split(found, np.cumsum(chains)[:-1]), strict=True)
        ]
        scores = np.array([score for score, _ in stretches], dtype=np.int64)
        log_p = self._log_p(scores, scored, chains)
        floor = self._log_p(self.rules.match * scored, scored, chains)
        # Of many phases only a bound is known.
        means = self._null.mean(scored) if self.is_mirrored else None
        return [
            Measurement(
                statistic=score,
                expected=float(means[i]) if means is not None else None if chains[i] else 0.0,
                log_p=float(log_p[i]),
                log_p_floor=float(floor[i]),
                segment=segment,
            )
            for i, (score, segment) in enumerate(stretches)
        ]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the tail, by the same count of chances."""
        chains, scored = len(reading.parts), reading.num_scored
        values = _range_of(statistic, 0, min(self.rules.match * scored, max(statistic, 100)))
        some = np.union1d(values[::4], values[-1:])  # the exact tail takes a pass for each
        tails = self._log_p(some, scored, chains)
        return NullCurve.of_tail(some, tails, statistic, "score of the best stretch")

    def _find(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Find the best stretch."""
        if self.is_mirrored:
            found = local_scores(self._first_signs(chains), self.rules)
            return np.stack([found.score, found.start, found.end], axis=1)
        symbols = padded(chains).T
        places = np.arange(len(symbols))[:, None]
        best = np.zeros((len(chains), self.num_values), dtype=np.int64)
        for nonces in self._likely_nonces(chains).T:
            other = local_paths(self._signs_at(symbols, places, nonces), self.rules)
            better = other[:, 0] > best[:, 0]
            best[better] = other[better]
        return best

    def _log_p(
        self, scores: ArrayLike, scored: ArrayLike, chains: ArrayLike
    ) -> NDArray[np.float64]:
        if self.is_mirrored:
            of_one = self._null.log_tail(scores, scored)
        else:  # no path leaves its nonce
            r, period = self.rules, self._schedule.period
            of_one = local_log_bound(scores, scored, period, r.match, r.mismatch, r.slip)
        chances = np.maximum(chains, 1) * self._schedule.nonces
        return np.asarray(np.minimum(of_one + np.log(chances), 0.0))


def _best_stretch(reading: Reading, found: NDArray[np.int64]) -> tuple[int, tuple[int, int] | None]:
    """Return the best score of a record's chains, and where it lies in the record."""
    if not len(found):
        return 0, None
    at = int(np.argmax(found[:, 0]))
    score, start, end = found[at].tolist()
    begins = [c.start for c in reading.chains if np.any(reading.symbols[c] != UNREAD)]
    return score, (begins[at] + start, begins[at] + end) if score else None


@lru_cache(maxsize=4)
def _local_null(rules: LocalRules) -> LocalNull:
    """Return a null that all keys share: it remembers what it has worked out."""
    return LocalNull(rules)
