"""Likelihood ratios for a schedule of keys that repeats after a period (see `likelihood`).

The states are phases, not keys: the phase does not change along a path without slips. So the
factors of a few positions are multiplied before the states are updated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.fast.compiled import LANES, NEGLIGIBLE, RESCALE_EVERY, kernels, together
from patternmark.statistics.likelihood import (
    Component,
    SymbolFactors,
    log_mean_exp,
    symbol_factors,
    with_unread,
)
from patternmark.statistics.phase_sums import (
    double_period,
    last_read,
    pad_to_fours,
    round_down,
    values_by_key,
)

_LOOK_UPS_AT_ONCE = 2**22  # phases x positions x sequences that are looked up together
_MAX_SINGLE_STARTS = 4  # starts up to which each is summed by itself, instead of all phases


class PathRatios:
    """Likelihood ratios of components under the schedule of one nonce."""

    def __init__(
        self,
        promoted: NDArray[np.bool_],
        factors: dict[tuple[int, bool], SymbolFactors],
        starts: NDArray[np.int64],
        components: Sequence[Component],
    ) -> None:
        """`promoted` [P, V]: the symbols of each key; `factors`: the factors of each table."""
        self.components = tuple(components)
        self.period = len(promoted)
        self._starts = starts
        self._keyed = double_period(with_unread(promoted))
        self._factors = {
            c.table: values_by_key(
                self._keyed, tuple(v.astype(np.float32) for v in factors[c.table])
            )
            for c in components
            if not c.is_steady
        }
        self._steady = {
            c.table: tuple(round_down(v) for v in factors[c.table].logs())
            for c in components
            if c.is_steady
        }
        self._logs = {
            c.table: values_by_key(self._keyed, self._steady[c.table])
            for c in components
            if c.is_steady and not self._is_from_few(c)
        }

    def log_ratios(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of every component: symbols [B, n], padded with UNREAD -> [B, C]."""
        batch, length = symbols.shape
        rows = max(1, _LOOK_UPS_AT_ONCE // max(1, length * self.period))
        parts = [self._some(pad_to_fours(symbols[at : at + rows])) for at in range(0, batch, rows)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.components)))

    def _some(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        lasts = last_read(symbols)
        result = np.empty((len(symbols), len(self.components)))
        for number, component in enumerate(self.components):
            if component.is_steady:
                result[:, number] = log_mean_exp(self._steady_sums(component, symbols))
                continue
            steps = -(-lasts // component.stride)
            total, exponent = self._forward(component, symbols, steps)
            with np.errstate(divide="ignore"):
                result[:, number] = np.log(total) + exponent * np.log(2.0)
        return result

    def _is_from_few(self, component: Component) -> bool:
        """Whether the first phase is one of a few: then it is faster to add up only these."""
        return not component.anywhere and len(self._starts) <= _MAX_SINGLE_STARTS

    def _steady_sums(self, component: Component, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of every phase that may be the first: [B, phases]."""
        if self._is_from_few(component):
            return self._sums_from_starts(component.table, symbols)
        sums = self._sums(component.table, symbols)
        return sums if component.anywhere else sums[:, self._starts]

    def _sums(self, table: tuple[int, bool], symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of every phase: [B, P]."""
        loops = kernels(symbols.size * self.period)
        if loops is None:
            return np.asarray(self._values_of(self._logs[table], symbols).sum(axis=0, dtype=float))
        sums = np.zeros((len(symbols), self.period))
        loops.phase_sums(self._logs[table], symbols, last_read(symbols), sums)
        return sums

    def _sums_from_starts(
        self, table: tuple[int, bool], symbols: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return ln LR of the phases that are starts: [B, starts]."""
        place = np.arange(symbols.shape[1]) % self.period
        agreeing, other = self._steady[table]
        sums = np.empty((len(self._starts), len(symbols)))
        for number, start in enumerate(self._starts.tolist()):
            key = (place + start) % len(agreeing)  # 0 if all keys have the same factors
            agrees = self._keyed[symbols, place + start]
            logs = np.where(agrees, agreeing[key, symbols], other[key, symbols])
            sums[number] = logs.sum(axis=1, dtype=float)
        return sums.T

    def _values_of(
        self, windows: NDArray[np.float32], symbols: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the factor of each symbol under every phase, or its logarithm: [n, B, P]."""
        views = np.lib.stride_tricks.sliding_window_view(windows, self.period, axis=1)
        first = np.arange(symbols.shape[1]) % self.period
        return np.asarray(views[symbols.T, first[:, None]])

    def _forward(
        self, component: Component, symbols: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sum over all paths: [B, n] -> totals [B] and exponents of powers of two [B].

        Each row is summed at its own end, after its `steps`: other rows of the batch must not
        change how often it is rounded.
        """
        windows = self._factors[component.table]
        prior = _prior(component, self.period, self._starts)
        slip, edge = component.per_step
        stay = np.float32((1.0 - slip) * (1.0 - edge))
        move = np.float32(slip / 2.0 * (1.0 - edge))
        total, exponent = np.zeros(len(symbols)), np.zeros(len(symbols), dtype=np.int64)
        longest = int(steps.max(initial=0))
        loops = kernels(10 * longest * len(symbols) * self.period, calls=10 * longest)
        if loops is not None:
            rule = (component.stride, stay, move, edge, prior)
            loops.forward(windows, symbols, steps, *rule, total, exponent)
            return total, exponent
        ring = np.zeros((len(symbols), self.period + 2), dtype=np.float32)  # circular: ends repeat
        marked, low, high = ring[:, 1:-1], ring[:, :-2], ring[:, 2:]
        before = np.full(len(symbols), float(edge > 0.0))  # paths before the marked stretch
        after = np.zeros(len(symbols))  # paths after the marked stretch
        marked[:] = 0.0 if edge > 0.0 else prior
        products = _in_strides(self._values_of(windows, symbols), component.stride)
        power = np.zeros(len(symbols), dtype=np.int64)
        for number in range(longest):
            if edge > 0.0:
                after += edge * _row_sums(marked)
            ring[:, 0], ring[:, -1] = marked[:, -1], marked[:, 0]
            moved = (low + high) * move
            marked *= stay
            marked += moved
            if edge > 0.0:
                marked += (edge * before).astype(np.float32)[:, None] * prior
                before *= 1.0 - edge
            marked *= products[number]
            if number % RESCALE_EVERY == RESCALE_EVERY - 1:
                largest = np.maximum(marked.max(axis=1), np.maximum(before, after))
                shift = np.frexp(largest)[1]
                marked *= np.ldexp(np.float32(1.0), -shift)[:, None]
                marked[marked < np.float32(NEGLIGIBLE)] = 0.0
                before, after = np.ldexp(before, -shift), np.ldexp(after, -shift)
                power += shift
            done = steps == number + 1
            if done.any():
                total[done] = (_row_sums(marked) + before + after)[done]
                exponent[done] = power[done]
        total[steps == 0] = 1.0
        return total, exponent


def _in_strides(single: NDArray[np.float32], stride: int) -> NDArray[np.float32]:
    """Multiply the factors of 1, 2 or 4 positions: [n, B, P] -> [n / stride, B, P]."""
    while stride > 1:
        single = single[0::2] * single[1::2]
        stride //= 2
    return single


def _row_sums(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sum rows [B, P] in LANES partial sums, in the same order as the compiled loop."""
    batch, period = values.shape
    filled = values
    if period % LANES:
        filled = np.zeros((batch, period + -period % LANES), dtype=np.float32)
        filled[:, :period] = values
    lanes = filled.reshape(batch, -1, LANES).sum(axis=1, dtype=np.float64)
    total = np.zeros(batch)
    for lane in lanes.T:
        total += lane
    return total


def _prior(component: Component, period: int, starts: NDArray[np.int64]) -> NDArray[np.float32]:
    prior = np.zeros(period, dtype=np.float32)
    prior[slice(None) if component.anywhere else starts] = 1.0
    return np.asarray(prior / prior.sum())


class CyclicRatio:
    """Likelihood ratios of some nonces, or of all.

    `promoted` has an array [P, V] for each nonce: which symbols its keys promote. `rates` [levels,
    V]: how often a marked symbol agrees. `starts`: the keys that a sequence may begin with.
    `shares`: how often symbols agree by chance (see `likelihood.symbol_factors`). `times` [V]: how
    often symbols occur in their records, for shared components. If there are many nonces, only a
    few are computed: leaving out terms makes a mixture smaller, never invalid.
    """

    def __init__(
        self,
        promoted: Sequence[NDArray[np.bool_]],
        rates: NDArray[np.float64],
        starts: NDArray[np.int64],
        components: Sequence[Component],
        frequencies: NDArray[np.float64] | None = None,
        shares: NDArray[np.float64] | None = None,
        times: NDArray[np.int64] | None = None,
    ) -> None:
        self.components = tuple(components)
        self._times = times
        self.nonces = len(promoted)
        self._starts, self._promoted = starts, promoted
        self._rates, self._frequencies, self._shares = rates, frequencies, shares
        self._paths: dict[int, PathRatios] = {}

    def log_ratios(
        self, symbols: NDArray[np.int64], chosen: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return ln LR of nonces and components: symbols [B, n] -> [B, R, C].

        With `chosen` [B, few], only these nonces are computed, in this order: [B, few, C].
        """
        if chosen is None:
            chosen = np.tile(np.arange(self.nonces), (len(symbols), 1))
        result = np.empty((*chosen.shape, len(self.components)))
        with together(*self._work(symbols.shape, chosen)):
            for nonce in np.unique(chosen).tolist():
                rows, places = np.nonzero(chosen == nonce)
                result[rows, places] = self._paths_of(nonce).log_ratios(symbols[rows])
        return result

    def _work(self, shape: tuple[int, ...], chosen: NDArray[np.int64]) -> tuple[int, int]:
        """Return how many additions and calls numpy needs for symbols of a shape, about."""
        steps = shape[1] * sum(10 / c.stride for c in self.components if not c.is_steady)
        period = len(self._promoted[0])
        return int(steps * chosen.size * period), int(steps * len(np.unique(chosen)))

    def _paths_of(self, nonce: int) -> PathRatios:
        if nonce not in self._paths:
            promoted = self._promoted[nonce]
            factors = {c.table: self._factors_of(promoted, c) for c in self.components}
            self._paths[nonce] = PathRatios(promoted, factors, self._starts, self.components)
        return self._paths[nonce]

    def _factors_of(self, promoted: NDArray[np.bool_], component: Component) -> SymbolFactors:
        rates = self._rates[component.level]
        found = symbol_factors(promoted, rates, self._frequencies, self._shares)
        if component.is_shared and self._times is not None:
            return found.shared(self._times)
        return found
