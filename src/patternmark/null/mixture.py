"""How often chance reaches a mixed likelihood ratio: Markov's bound, sharpened.

An e-value E has mean 1 under the null, so P(E >= t) <= 1/t. That is loose by a factor C < 1,

    C(t) = t P(E >= t) = mean over the alternative of (t / E) where E >= t,

for E is the density of the alternative (the mixture of marks that E looks for) relative to the
null. The right side is easy to simulate, however small P is: draw marked sequences, average
numbers between 0 and 1. Where t < 1, unmarked sequences are simply counted. The table that ships
with the package holds these averages, each raised by five standard errors, for sequences of many
lengths, with random keys and the amino acids' natural frequencies. A p-value is never above 1/E.

For texts, P(E >= t) was counted on natural English under random keys (`bench text-null`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.cyclic import CyclicRatio
from patternmark.likelihood import Component, Mixture, factors

PROTEIN_TABLES, TEXT_TABLES = "mixture_null.json", "text_null.json"
GRID = np.arange(-20.0, 60.5, 0.5)  # ln E
_STANDARD_ERRORS = 5.0
_FEWER = 5  # unmarked draws are for p-values that are not small: as good with fewer


class MixtureNull:
    """Look up ln P(E >= e) for sequences of any length: `log_p` [lengths, grid].

    Beyond the last length its row holds, since C falls with length.
    """

    def __init__(self, lengths: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        self._lengths = lengths
        # Between two lengths the larger p of both holds; below the first, Markov's bound.
        markov = np.minimum(-GRID, 0.0)[None]
        self._log_p = np.maximum(log_p, np.concatenate([markov, log_p[:-1]]))
        self._log_c = np.max(self._log_p + GRID, axis=1)  # [lengths] ln of the largest C

    @property
    def digest(self) -> str:
        """What tells this table from others."""
        return sha256(self._log_p.tobytes()).hexdigest()[:8]

    @classmethod
    def shipped(cls, scheme: str) -> MixtureNull:
        """Return the table for a scheme's default parameters."""
        return cls.of_table(_shipped(PROTEIN_TABLES)[scheme])

    @classmethod
    def of_table(cls, table: dict[str, Any]) -> MixtureNull:
        return cls(np.array(table["lengths"]), np.array(table["log_p"]))

    def log_tail(
        self,
        log_ratio: NDArray[np.float64],
        scored: NDArray[np.int64],
        nonces: int = 1,
        longest: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return ln p of ln E [B] for `scored` symbols [B].

        E of several nonces is the mean of theirs: where one of R stands out, the mean reaches t
        when that one reaches R t, which has R chances; less what the others add, 1 on average.

        E of several chains is a product. Whatever the others show, the factor of one chain must
        make up for the rest: P(E >= t) = mean of C(t / E') / t over the alternative of the others,
        at most the largest C of that chain over t. The `longest` [B] has the smallest.
        """
        lone = log_of_lone(log_ratio, nonces)
        inside = np.minimum(lone, GRID[-1])
        rows = self._rows(scored)
        found = [np.interp(e, GRID, self._log_p[r]) for e, r in zip(inside, rows, strict=True)]
        sharpened = np.where(lone < GRID[0], 0.0, np.array(found) - (lone - inside))
        if longest is not None:
            bound = np.minimum(self._log_c[self._rows(longest)] - lone, 0.0)
            sharpened = np.where(longest < scored, bound, sharpened)
        markov = np.minimum(-np.asarray(log_ratio), 0.0)
        return np.asarray(np.minimum(sharpened + np.log(nonces), markov))

    def _rows(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._lengths, lengths), len(self._lengths) - 1)


def log_of_lone(log_ratio: ArrayLike, nonces: int) -> NDArray[np.float64]:
    """Return ln of what one nonce must reach, for the mean over nonces to reach this ratio.

    The other nonces add 1 each, on average.
    """
    alone = np.asarray(log_ratio, dtype=np.float64)
    if nonces > 1:
        less = np.log(-np.expm1(-np.maximum(alone, 1e-300)))  # ln (E - 1) - ln E
        alone = np.where(alone > 0.0, alone + less, -1e3)
    return np.asarray(alone + np.log(nonces))


@cache
def _shipped(name: str) -> dict[str, Any]:
    content = files("patternmark").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return dict(json.loads(content))


def text_null(scheme: str, mixture: str) -> MixtureNull | None:
    """Return what was counted on natural text for a scheme's default shape, if anything was.

    `mixture` is the digest of what E mixes: counts of another E say nothing about this one.
    """
    table = _shipped(TEXT_TABLES).get(scheme)
    if table is None or table["mixture"] != mixture:
        return None
    return MixtureNull.of_table(table)


@dataclass(frozen=True, eq=False)
class Simulation:
    """What is simulated: keys, marks, letters."""

    batch: ClassVar[int] = 64  # sequences of one key
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
        few = draws // _FEWER
        unmarked = self._unmarked(length, few, np.random.default_rng([seed, length, 0]))
        log_e, weight = self._marked(length, draws, np.random.default_rng([seed, length]))
        below = grid < 0.0
        counted = _raised(unmarked, np.ones(len(unmarked)), grid[below])
        rare = _raised(log_e, np.exp(weight), grid[~below])
        mean = np.concatenate([counted, rare])
        # What no draw reached may still happen as often as this.
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
        """Return ln E, and ln of the null's density relative to the alternative's: [draws]."""
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
        """Return ln of the null's density relative to the alternative's: [B]."""
        del log_e  # under one key factors have mean 1 on average only; normalised, exactly
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
        """Draw what the mixture thinks marked sequences are like: [B]."""
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
        """Draw sequences as the mixture thinks marked ones are: [B, length]."""
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


def _raised(
    log_e: NDArray[np.float64], terms: NDArray[np.float64], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return means [grid] of terms [draws] where e is reached, raised by five standard errors."""
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
    """Draw the phase of every position, and which are marked, step by step as `PathRatios`."""
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
    if edge > 0.0:  # a stretch begins without a slip
        moves[: begin + 1] = 0
    phase = first + np.cumsum(moves)
    return np.repeat(phase, stride)[:length], np.repeat(marked, stride)[:length]
