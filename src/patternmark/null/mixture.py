"""How often chance reaches a mixed likelihood ratio: Markov's bound, sharpened.

An e-value E has mean 1 under the null, so P(E >= t) <= 1/t. That is loose by a factor C < 1,

    C(t) = t P(E >= t) = mean over the alternative of (t / E) where E >= t,

for E is the density of the alternative (the mixture of marks that E looks for) relative to the
null. The right side is easy to simulate, however small P is: draw marked sequences, average
numbers between 0 and 1. Where t < 1, unmarked sequences are simply counted. The table that ships
with the package holds these averages, each raised by five standard errors, for sequences of many
lengths, with random keys and the amino acids' natural frequencies. A p-value is never above 1/E.

Of text nothing need be known. Where every coin is tossed once (see `coins`) the law of E depends on
how many tokens are scored and on the rates, not on which tokens they are: `CoinSimulation`.
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
from numpy.typing import NDArray

from patternmark.cyclic import CyclicRatio
from patternmark.likelihood import Component, Mixture, factors

PROTEIN_TABLES, TOKEN_TABLES = "mixture_null.json", "mixture_null_tokens.json"
GRID = np.arange(-20.0, 60.5, 0.5)  # ln E
_STANDARD_ERRORS = 5.0
_STEP, _FINE = 0.75, 0.125  # how far a step of the staircase reaches to either side; nats
_PAIRS_AT_LEAST = 512  # so that the sequences of one key have little in common
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
        return cls._of_table(_shipped(PROTEIN_TABLES)[scheme])

    @classmethod
    def for_tokens(cls, name: str, rates: NDArray[np.float64], mixture: str) -> MixtureNull | None:
        """Return the table of texts by its name (`token_table`), if there is one for these rates.

        Tokens have the `rates` [levels, tokens]; `mixture` is the digest of what E mixes. A table
        that was simulated with others says nothing about this E.
        """
        table = _shipped(TOKEN_TABLES).get(name)
        if table is None or table["mixture"] != mixture:
            return None
        simulated = np.array(table["rates"])[:, None]
        if len(simulated) != len(rates) or not np.all(rates == simulated):
            return None
        return cls._of_table(table)

    @classmethod
    def _of_table(cls, table: dict[str, Any]) -> MixtureNull:
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
        alone = np.asarray(log_ratio)
        if nonces > 1:
            less = np.log(-np.expm1(-np.maximum(alone, 1e-300)))  # ln (E - 1) - ln E
            alone = np.where(alone > 0.0, alone + less, -1e3)
        lone = alone + np.log(nonces)
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


@cache
def _shipped(name: str) -> dict[str, Any]:
    content = files("patternmark").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return dict(json.loads(content))


def token_table(scheme: str, num_starts: int) -> str:
    """Return the name of the table for texts: of two phases, or of 512 that begin at some starts.

    >>> token_table("turns", 16), token_table("paper", 2)
    ('turns, 16 starts', 'paper, 2 starts')
    """
    return f"{scheme}, {num_starts} start{'s' if num_starts > 1 else ''}"


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


@dataclass(frozen=True, eq=False)
class CoinSimulation(Simulation):
    """The same for sequences that toss every coin once; `rates` are equal for all symbols.

    Symbols 2k and 2k + 1 are a pair of which every key promotes one, and no pair is met twice.
    """

    batch: ClassVar[int] = 512  # they share few coins: no pair stands where it stands in another

    @classmethod
    def of(
        cls,
        length: int,
        period: int,
        block: int,
        starts: NDArray[np.int64],
        rates: NDArray[np.float64],
        mixture: Mixture,
    ) -> CoinSimulation:
        """Prepare for sequences of a length; the paper's scheme has one block of two keys.

        `rates` [levels] are those of any symbol.
        """
        pairs = max(length, _PAIRS_AT_LEAST)

        def draw_schedule(rng: np.random.Generator) -> NDArray[np.bool_]:
            bits = rng.integers(2, size=(period // block, pairs), dtype=np.uint8).astype(bool)
            chosen = np.repeat(bits, block, axis=0)
            chosen[1::2] ^= True
            return np.stack([chosen, ~chosen], axis=2).reshape(period, 2 * pairs)

        of_symbols = np.repeat(rates[:, None], 2 * pairs, axis=1)
        uniform = np.full(2 * pairs, 0.5 / pairs)
        return cls(draw_schedule, starts, of_symbols, uniform, mixture)

    def log_p(self, length: int, draws: int, seed: int) -> NDArray[np.float64]:
        """Return ln P(E >= e) on GRID so that it also holds for lengths beside this one.

        Where all symbols weigh the same, E is nearly a function of how many agree, and its tail a
        staircase whose steps lie elsewhere for every length. The largest C around takes the place
        of C: it is C itself at the foot of every step, where E is found.
        """
        grid = np.arange(GRID[0] - _STEP, GRID[-1] + _STEP + _FINE / 2, _FINE)
        tail = self._tail(grid, length, draws, seed)
        log_c = tail[:-1] + grid[1:]  # no less than any between two points
        around = round(_STEP / _FINE)
        windows = np.lib.stride_tricks.sliding_window_view(log_c, 2 * around)
        largest = windows.max(axis=1)[:: round(0.5 / _FINE)][: len(GRID)]
        return np.asarray(np.minimum(largest - GRID, 0.0))

    def _log_weight(
        self,
        promoted: NDArray[np.bool_],
        symbols: NDArray[np.int64],
        log_e: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        return -log_e  # exactly half of the symbols agree with each key

    def _draw_unmarked(self, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
        pairs = self._draw_pairs(length, rng)
        return 2 * pairs + rng.integers(2, size=pairs.shape)

    def _draw_marked(
        self, promoted: NDArray[np.bool_], length: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        pairs = self._draw_pairs(length, rng)
        symbols = np.empty_like(pairs)
        for row, component in enumerate(self._draw_components(length, rng)):
            phase, marked = _draw_path(component, len(promoted), self.starts, length, rng)
            rate = np.where(marked, self.rates[component.level, 0], 0.5)
            first = promoted[(phase + np.arange(length)) % len(promoted), 2 * pairs[row]]
            symbols[row] = 2 * pairs[row] + (first != (rng.random(length) < rate))
        return symbols

    def _draw_pairs(self, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a different pair for every position of a row: [B, length]."""
        every = np.tile(np.arange(len(self.frequencies) // 2), (self.batch, 1))
        return rng.permuted(every, axis=1)[:, :length]


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
