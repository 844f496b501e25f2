"""The simulation that made the null of the mixed likelihood ratio (`patternmark.null.mixture`).

P(E >= t) is the mean over marked sequences of 1 / E where E >= t, and 0 elsewhere. This is easy to
simulate however small P is. For t < 1, unmarked sequences are simply counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patternmark.null.mixture import GRID
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.likelihood import Component, Mixture, factors

_STANDARD_ERRORS = 5.0
_MARKED_PER_UNMARKED = 5  # draws; unmarked ones serve large p-values, which need fewer draws


@dataclass(frozen=True, eq=False)
class Simulation:
    """The keys, marks and symbols to simulate."""

    batch: ClassVar[int] = 64  # sequences for each key
    draw_schedule: Callable[[np.random.Generator], NDArray[np.bool_]]  # a fresh key's [P, V]
    starts: NDArray[np.int64]
    rates: NDArray[np.float64]  # [levels, V]
    frequencies: NDArray[np.float64]  # [V]
    mixture: Mixture

    def log_p(self, length: int, draws: int, seed: int) -> NDArray[np.float64]:
        """Return ln P(E >= e) on GRID for one length, raised by five standard errors."""
        return self._tail(GRID, length, draws, seed)

    def _tail(
        self, grid: NDArray[np.float64], length: int, draws: int, seed: int
    ) -> NDArray[np.float64]:
        num_unmarked = draws // _MARKED_PER_UNMARKED
        unmarked = self._unmarked(length, num_unmarked, np.random.default_rng([seed, length, 0]))
        log_e, weight = self._marked(length, draws, np.random.default_rng([seed, length]))
        below = grid < 0.0
        counted = _upper_means(unmarked, np.ones(len(unmarked)), grid[below])
        rare = _upper_means(log_e, np.exp(weight), grid[~below])
        mean = np.concatenate([counted, rare])
        # A value that no draw reached may still have this probability.
        least = _STANDARD_ERRORS**2 / draws * np.exp(-np.maximum(grid, 0.0))
        return np.asarray(np.minimum(np.log(np.maximum(mean, least)), 0.0))

    def _unmarked(self, length: int, draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        found = []
        for _ in range(-(-draws // self.batch)):
            ratio = self._ratio(self.draw_schedule(rng))
            found.append(self._mixed(ratio, self._draw_unmarked(length, rng)))
        return np.concatenate(found)

    def _marked(
        self, length: int, draws: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ln E and ln(density under the null / density with a mark): [draws] each."""
        log_e, log_weight = [], []
        for _ in range(-(-draws // self.batch)):
            promoted = self.draw_schedule(rng)  # a fresh key for every batch
            symbols = self._draw_marked(promoted, length, rng)
            log_e.append(self._mixed(self._ratio(promoted), symbols))
            log_weight.append(self._log_weight(promoted, symbols, log_e[-1]))
        return np.concatenate(log_e), np.concatenate(log_weight)

    def _log_weight(
        self,
        promoted: NDArray[np.bool_],
        symbols: NDArray[np.int64],
        log_e: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return ln(density under the null / density with a mark): [B]."""
        # `log_e` will not do: under one key its factors have mean 1 only on average over keys.
        # The factors used here are normalised, so that their mean is exactly 1 under this key.
        del log_e
        return -self._mixed(self._ratio(promoted, self.frequencies), symbols)

    def _ratio(
        self, promoted: NDArray[np.bool_], frequencies: NDArray[np.float64] | None = None
    ) -> CyclicRatio:
        components = self.mixture.components
        return CyclicRatio([promoted], self.rates, self.starts, components, frequencies)

    def _mixed(self, ratio: CyclicRatio, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        scored = np.full(len(symbols), symbols.shape[1])
        return self.mixture.mix(ratio.log_ratios(symbols)[:, 0], scored)

    def _draw_components(self, length: int, rng: np.random.Generator) -> list[Component]:
        """Draw components with the weights that the mixture gives them: [B]."""
        components = self.mixture.components
        prior = np.exp(self.mixture.log_weights(np.array(length)))
        which = rng.choice(len(components), size=self.batch, p=prior / prior.sum())
        return [components[number] for number in which]

    def _draw_unmarked(self, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw sequences of independent symbols: [B, length]."""
        return rng.choice(len(self.frequencies), size=(self.batch, length), p=self.frequencies)

    def _draw_marked(
        self, promoted: NDArray[np.bool_], length: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw marked sequences from the mixture: [B, length]."""
        symbols = np.empty((self.batch, length), dtype=np.int64)
        tables = {
            c.level: factors(promoted, self.rates[c.level], self.frequencies)[:, :-1]
            for c in self.mixture.components
        }
        for row, component in enumerate(self._draw_components(length, rng)):
            phase, marked = _draw_path(component, len(promoted), self.starts, length, rng)
            key = (phase + np.arange(length)) % len(promoted)
            law = self.frequencies * np.where(marked[:, None], tables[component.level][key], 1.0)
            cumulative = np.cumsum(law, axis=1)
            uniforms = rng.random((length, 1)) * cumulative[:, -1:]
            symbols[row] = (uniforms >= cumulative[:, :-1]).sum(axis=1)
        return symbols


def _upper_means(
    log_e: NDArray[np.float64], terms: NDArray[np.float64], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return, for each e of the grid, the mean of terms where ln E >= e, plus 5 standard errors."""
    raised = []
    for e in grid:
        reached = np.where(log_e >= e, terms, 0.0)
        error = reached.std() / np.sqrt(len(reached))
        raised.append(reached.mean() + _STANDARD_ERRORS * error)
    return np.array(raised)


def _draw_path(
    component: Component,
    period: int,
    starts: NDArray[np.int64],
    length: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw the phase of every position and which positions are marked, in steps as `PathRatios`."""
    stride = component.stride
    steps = -(-length // stride)
    slip, edge = component.per_step
    first = rng.integers(period) if component.anywhere else rng.choice(starts)
    marked = np.ones(steps, dtype=bool)
    begin = 0
    if edge > 0.0:
        begin = rng.geometric(edge) - 1
        marked[:begin] = False
        marked[begin + rng.geometric(edge) :] = False
    moves = (rng.random(steps) < slip) * rng.choice([-1, 1], size=steps)
    if edge > 0.0:  # no slip before or at the begin of the marked stretch
        moves[: begin + 1] = 0
    phase = first + np.cumsum(moves)
    return np.repeat(phase, stride)[:length], np.repeat(marked, stride)[:length]
