"""Three detectors of agreement: with the best phase, along the best path, in the best stretch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import log

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Circle
from patternmark.errors import ParameterError
from patternmark.evidence import bonferroni, fisher
from patternmark.fast.compiled import kernels, repeated
from patternmark.null.bounds import local_log_bound, slip_log_bound
from patternmark.null.local import LocalNull, LocalRules
from patternmark.null.walk import (
    TABLE_LENGTH,
    SlipNull,
    phase_log_tail,
    phase_mean,
)
from patternmark.statistics.base import (
    CURVE_POINTS,
    Measurement,
    NullCurve,
    batches,
    num_batches,
)
from patternmark.statistics.best_path import local_paths, slip_paths
from patternmark.statistics.excerpts import Excerpt
from patternmark.statistics.likelihood import with_unread
from patternmark.statistics.nonces import NonceScreen, likeliest_nonces
from patternmark.statistics.phase_sums import double_period, last_read, whole_sums

SLIP_COST = 6  # agreements that a change of phase costs


class _AgreementStatistic(ABC):
    """What the three share: agreement with phases, for keys that promote half of the symbols."""

    name = ""
    signature = ""

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        self._schedule: Circle | Excerpt = schedule or key.circle
        self.num_phases = self._schedule.period * self._schedule.nonces
        if not _promotes_halves(key):
            raise ParameterError(
                f"the detector {self.name} needs keys that promote half of the symbols each: "
                "use auto, lr or pattern for this key"
            )
        self._screen = NonceScreen(key, schedule)
        self._signs: dict[int, NDArray[np.int8]] = {}

    columns = 1  # scores of each chain

    @abstractmethod
    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""

    def scores(self, chains: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the scores of each chain: [chains, columns]."""
        found = np.zeros((len(chains), self.columns), dtype=np.int64)
        with repeated(num_batches(chains)):
            for numbers, symbols in batches(chains):
                found[numbers] = self._scores(symbols)
        return found

    @abstractmethod
    def _scores(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the scores of chains of similar length: [B, n] -> [B, columns]."""

    @property
    def is_mirrored(self) -> bool:
        """Whether there are two phases and they are opposite, as in the paper's scheme."""
        return self.num_phases == 2

    def likeliest_nonce(self, reading: Reading) -> int:
        """Return the likeliest nonce of a record."""
        return int(np.argmax(self._screen.log_ratios([reading])[0]))

    def signs(self, nonce: int) -> NDArray[np.int8]:
        """Return +1 or -1 for every symbol under every key, 0 for UNREAD: [V + 1, 2P]."""
        if nonce not in self._signs:
            keyed = double_period(with_unread(self._schedule.promoted(nonce)))
            signs = np.where(keyed, np.int8(1), np.int8(-1))
            signs[UNREAD] = 0
            self._signs[nonce] = signs
        return self._signs[nonce]

    def signs_along(self, chain: NDArray[np.int64], nonce: int) -> NDArray[np.int8]:
        """Return the signs of every position under every phase: [n, P]."""
        period = self._schedule.period
        place = np.arange(len(chain))[:, None] % period
        return np.asarray(self.signs(nonce)[chain[:, None], place + np.arange(period)])

    def by_nonce(
        self, symbols: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the likeliest nonces, each with its rows: their numbers, and their symbols."""
        whole = (slice(0, symbols.shape[1]),)
        chosen = likeliest_nonces(self._screen.log_ratios([Reading(row, whole) for row in symbols]))
        for nonce in np.unique(chosen).tolist():
            rows = np.flatnonzero((chosen == nonce).any(axis=1))
            yield nonce, rows, symbols[rows]


def _promotes_halves(key: Key) -> bool:
    """Whether symbols agree by chance half of the time; for text, parts must have equal sizes."""
    profile = key.profile
    return profile.scheme.chance == 0.5 and (
        not profile.alphabet.has_many_symbols or key.circle.is_fair
    )


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
    """Choose values for the curve of a tail: from `low` to a little above the statistic."""
    high = min(most, 1.1 * max(statistic, low + 0.3 * (most - low)))
    return np.unique(np.linspace(low, max(high, low + 1), CURVE_POINTS).astype(np.int64))


class _PerChainStatistic(_AgreementStatistic):
    """Each chain has its own p-value; Fisher's method combines those of a record."""

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""
        chains = [part for reading in readings for part in reading.parts]
        found, scored = self.scores(chains), _num_scored(chains)
        log_p = self._log_p(found, scored)
        floor = self._log_p(np.repeat(scored[:, None], self.columns, axis=1), scored)
        # The mean is known only for two phases.
        expected = self._expected(scored) if self.is_mirrored else None
        at, result = 0, []
        for reading in readings:
            own = slice(at, at + len(reading.parts))
            at = own.stop
            result.append(
                Measurement(
                    statistic=int(found[own, 0].sum()),
                    expected=None if expected is None else float(expected[own].sum()),
                    log_p=fisher(log_p[own].tolist()),
                    log_p_floor=fisher(floor[own].tolist()),
                )
            )
        return result

    @abstractmethod
    def _log_p(self, found: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln p of scores [chains, columns]."""

    @abstractmethod
    def _expected(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean of the first score."""


class PhaseStatistic(_PerChainStatistic):
    """The agreement of the best phase: exact for two phases, a sum of tails for more.

    Half of the false positive rate is assigned to the starts of the schedule, half to all phases.
    """

    name = "phase"
    columns = 2

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        self._keyed: dict[int, NDArray[np.int8]] = {}

    def _scores(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the agreement of the best phase, and of the best phase that is a start."""
        best = np.zeros((len(symbols), 2), dtype=np.int64)
        for nonce, rows, some in self.by_nonce(symbols):
            found = self._agreements(nonce, some)
            both = found.max(axis=1), found[:, self._schedule.starts].max(axis=1)
            best[rows] = np.maximum(best[rows], np.stack(both, axis=1))
        return best

    def _agreements(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many symbols agree with each phase of a nonce: [B, n] -> [B, P]."""
        if nonce not in self._keyed:
            keyed = double_period(with_unread(self._schedule.promoted(nonce)))
            self._keyed[nonce] = keyed[None].view(np.int8)
        loops = kernels(symbols.size * self._schedule.period)
        if loops is None:
            return whole_sums(self._keyed[nonce])(symbols, 0)[:, 0]
        counts = np.zeros((len(symbols), 1, self._schedule.period), dtype=np.int32)
        loops.agreements(self._keyed[nonce], symbols, last_read(symbols), counts)
        return counts[:, 0].astype(np.int64)

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution for two phases; for more, the tail that decided."""
        chains, name = reading.parts, "agreement with the best phase"
        scored = _num_scored(chains)
        if self.is_mirrored:
            return NullCurve.of_law(_law_of_sum(phase_log_tail, scored), statistic, name)
        found = self.scores(chains)
        if len(chains) != 1:
            return NullCurve.of_combined(self._log_p(found, scored).tolist())
        of_start, of_any = self._both_log_ps(found, scored)
        phases, observed = 2 * self.num_phases, float(found[0, 0])
        if of_start[0] < of_any[0]:
            phases, observed = self._start_phases, float(found[0, 1])
        values = _range_of(observed, scored[0] / 2, scored[0])
        heights = phase_log_tail(values, np.full(len(values), scored[0]), phases)
        return NullCurve.of_tail(values, heights, observed, name)

    @property
    def _start_phases(self) -> int:
        return 2 * len(self._schedule.starts) * self._schedule.nonces

    def _both_log_ps(
        self, found: NDArray[np.int64], scored: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        of_start = phase_log_tail(found[:, 1], scored, self._start_phases)
        return of_start, phase_log_tail(found[:, 0], scored, 2 * self.num_phases)

    def _log_p(self, found: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.is_mirrored:
            return phase_log_tail(found[:, 0], scored, 2)
        return np.minimum(*self._both_log_ps(found, scored))

    def _expected(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        return phase_mean(scored)


class SlipStatistic(_PerChainStatistic):
    """The best path through the phases, on which a change of phase costs: exact for two phases."""

    name = "slip"
    signature = f"cost:{SLIP_COST}"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        self._null = _slip_null(SLIP_COST)

    def _scores(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the score of the best path."""
        best = np.zeros((len(symbols), 1), dtype=np.int64)
        for nonce, rows, some in self.by_nonce(symbols):
            found = slip_paths(self.signs(nonce), some, SLIP_COST)
            best[rows, 0] = np.maximum(best[rows, 0], found)
        return best

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution for two phases and short chains; otherwise the tail."""
        chains, name = reading.parts, "score of the best alignment"
        scored = _num_scored(chains)
        if self.is_mirrored and max(scored, default=0) <= TABLE_LENGTH:
            return NullCurve.of_law(_law_of_sum(self._null.log_tail, scored), statistic, name)
        if len(chains) != 1:
            return NullCurve.of_combined(self._log_p(self.scores(chains), scored).tolist())
        values = _range_of(statistic, 0, scored[0])
        heights = self._log_p(values[:, None], np.full(len(values), scored[0]))
        return NullCurve.of_tail(values, heights, statistic, name)

    def _expected(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._null.mean(scored)

    def _log_p(self, found: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.is_mirrored:
            return self._null.log_tail(found[:, 0], scored)
        of_one = slip_log_bound(found[:, 0], scored, self._schedule.period, SLIP_COST)
        return np.minimum(of_one + log(self._schedule.nonces), 0.0)  # a path has only one nonce


@cache
def _slip_null(cost: int) -> SlipNull:
    return SlipNull(cost)


@cache
def _local_null(rules: LocalRules) -> LocalNull:
    return LocalNull(rules)


class LocalStatistic(_AgreementStatistic):
    """The best marked stretch and its place: exact for two phases."""

    name = "local"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        # The bound for many phases needs costlier slips than the exact null for two phases.
        self.rules = LocalRules() if self.is_mirrored else LocalRules(slip=30)
        self._null = _local_null(self.rules)
        r = self.rules
        self.signature = f"agree:{r.match}|disagree:{r.mismatch}|slip:{r.slip}"

    columns = 3

    def _scores(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return score, start and end of the best stretch."""
        best = np.zeros((len(symbols), 3), dtype=np.int64)
        for nonce, rows, some in self.by_nonce(symbols):
            stretches = local_paths(self.signs(nonce), some, self.rules)
            better = stretches[:, 0] > best[rows, 0]
            best[rows[better]] = stretches[better]
        return best

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch: the best stretch of any of its chains."""
        found = self.scores([part for reading in readings for part in reading.parts])
        counts = np.array([len(reading.parts) for reading in readings], dtype=np.int64)
        ends = np.cumsum(counts)
        stretches = [
            _best_stretch(reading, found[end - count : end])
            for reading, count, end in zip(readings, counts, ends, strict=True)
        ]
        scored = np.array([reading.num_scored for reading in readings], dtype=np.int64)
        best = np.array([score for score, _ in stretches], dtype=np.int64)
        log_p = self.log_p(best, scored, counts)
        floor = self.log_p(self.rules.match * scored, scored, counts)
        return [
            Measurement(
                statistic=score,
                # The mean is known only for two phases.
                expected=_local_mean(self.rules, int(n)) if self.is_mirrored else None,
                log_p=float(p),
                log_p_floor=float(least),
                segment=segment,
            )
            for (score, segment), n, p, least in zip(stretches, scored, log_p, floor, strict=True)
        ]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the tail, corrected like the p-value for the number of chains and nonces."""
        chains, scored = len(reading.parts), reading.num_scored
        values = _range_of(statistic, 0, min(self.rules.match * scored, max(statistic, 100)))
        some = np.union1d(values[::4], values[-1:])  # the exact tail needs a pass for each value
        tails = self.log_p(some, np.array(scored), np.array(chains))
        return NullCurve.of_tail(some, tails, statistic, "score of the best stretch")

    def log_p(
        self,
        scores: NDArray[np.int64],
        scored: NDArray[np.int64],
        chains: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return ln P(best score >= these `scores`) by chance, for records of `chains` chains."""
        if self.is_mirrored:
            of_one = self._null.log_tail(scores, scored)
        else:  # a path has only one nonce
            r, period = self.rules, self._schedule.period
            of_one = local_log_bound(scores, scored, period, r.match, r.mismatch, r.slip)
        return bonferroni(of_one, np.maximum(chains, 1) * self._schedule.nonces)


def _best_stretch(reading: Reading, found: NDArray[np.int64]) -> tuple[int, tuple[int, int] | None]:
    """Return the score of the best stretch of all chains, and its place in the record."""
    if not found.size or not found[:, 0].any():
        return 0, None
    number = int(found[:, 0].argmax())
    score, start, end = found[number].tolist()
    read = [chain for chain in reading.chains if np.any(reading.symbols[chain] != UNREAD)]
    return score, (read[number].start + start, read[number].start + end)


@cache
def _local_mean(rules: LocalRules, scored: int) -> float:
    return float(_local_null(rules).mean(scored))
