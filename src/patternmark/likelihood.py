"""How much better a mark explains a sequence than chance does: a likelihood ratio, mixed.

A marked position agrees with its key (the symbol is one the key promotes) more often than chance
would have it. Given a path, the key of every position, the likelihood ratio is a product with one
factor for each scored symbol x,

    q_x / b            where x agrees with the key, b = the share of chance,
    (1 - q_x) / (1 - b)        where it does not,

and under the null each factor has mean 1. Paths are unknown: where a sequence starts in the
schedule (a phase), whether symbols were lost or inserted (a slip moves the phase by one), which
stretch is marked at all. A sum over all paths, weighted by a prior, still has mean 1: it is an
e-value, and 1/LR bounds the p-value at any length. So has every mixture over agreement and slip
rates, and leaving terms out only makes it smaller.

Phases, not keys, are the states: along an undisturbed path the phase stays as it is, so the
factors of a few positions are multiplied together before the states are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNREAD = -1  # a position that says nothing: unscored, masked, or beyond the end
_AT_ONCE = 2**22  # phases times positions times sequences that are looked up together
_RESCALE = 16  # steps between rescalings: single precision holds e^88
_FEW_NONCES = 2
_BLOCK = 128  # positions; a nonce may show in one or two blocks alone


@dataclass(frozen=True)
class Component:
    """One way a mark may show: how strongly, how often the phase slips, where it lies."""

    level: int  # which agreement rates: a row of `rates`
    slip: float = 0.0  # probability per position that the phase moves by one, up or down
    edge: float = 0.0  # probability per position that a marked stretch begins, or ends; 0: all
    anywhere: bool = False  # any phase may be the first; otherwise one of the schedule's starts

    @property
    def stride(self) -> int:
        """After how many positions slips and edges are looked for: the rarer, the less often."""
        return 1 if self.slip > 0.1 else 2 if self.slip > 0.01 else 4

    @property
    def per_step(self) -> tuple[float, float]:
        """The probabilities of slip and edge in one stride."""
        slip, edge = (1.0 - (1.0 - rate) ** self.stride for rate in (self.slip, self.edge))
        return slip, edge

    @property
    def is_steady(self) -> bool:
        """Whether the whole sequence has one phase."""
        return self.slip == 0.0 and self.edge == 0.0


@dataclass(frozen=True)
class Mixture:
    """Components, and their weights for long and for short sequences.

    What is shorter than a usual chain is likelier to be cut out of one.
    """

    components: tuple[Component, ...]
    weights: tuple[float, ...]
    short_weights: tuple[float, ...]

    def log_weights(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln of the weights for sequences of so many scored symbols: [B] -> [B, C]."""
        is_short = (np.asarray(scored) < SHORT)[..., None]
        return np.asarray(np.log(np.where(is_short, self.short_weights, self.weights)))

    def mix(
        self, log_ratios: NDArray[np.float64], scored: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return ln of the weighted mean over components: [B, ..., C], [B] -> [B, ...]."""
        weights = self.log_weights(scored)
        between = (1,) * (log_ratios.ndim - 2)
        return log_mean_exp(log_ratios + weights.reshape(len(weights), *between, -1), total=True)


SHORT = 200
# Weights and rates were chosen on a third of the backbones that no reported number uses.
PAPER_MIXTURE = Mixture(
    (
        Component(0),
        Component(1),
        Component(1, slip=0.01),
        Component(2, slip=0.05),
        Component(3, slip=0.2),
        Component(2, slip=0.005, edge=0.01, anywhere=True),
        Component(3, slip=0.005, edge=0.01, anywhere=True),
    ),
    weights=(0.28, 0.03, 0.22, 0.08, 0.15, 0.14, 0.10),
    short_weights=(0.08, 0.60, 0.12, 0.06, 0.04, 0.05, 0.05),
)
HARDENED_MIXTURE = Mixture(
    (
        Component(0),
        Component(1),
        Component(2, anywhere=True),
        Component(1, slip=0.01),
        Component(2, slip=0.05),
        Component(3, slip=0.2),
        Component(2, slip=0.005, edge=0.01, anywhere=True),
    ),
    weights=(0.07, 0.03, 0.04, 0.05, 0.04, 0.45, 0.32),
    short_weights=(0.02, 0.06, 0.80, 0.03, 0.02, 0.03, 0.04),
)


def factors(
    promoted: NDArray[np.bool_],
    rates: NDArray[np.float64],
    frequencies: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the factor of each symbol under each key; UNREAD comes last: [P, V + 1].

    With `frequencies` every key's factors have mean 1 under them; otherwise under equal chances.
    """
    scored = promoted.any(axis=0)
    chance = promoted.sum(axis=1, keepdims=True) / np.count_nonzero(scored)  # [P, 1]
    table = np.ones((len(promoted), promoted.shape[1] + 1))
    agreeing, other = rates / chance, (1.0 - rates) / (1.0 - chance)
    table[:, :-1] = np.where(scored, np.where(promoted, agreeing, other), 1.0)
    if frequencies is not None:
        table[:, :-1] /= table[:, :-1] @ frequencies[:, None]
    return table


class PhaseScores:
    """ln LR of every phase of every nonce, by correlation: paths that never slip."""

    def __init__(self, tables: NDArray[np.float64]) -> None:
        """`tables` are the factors of each nonce: [R, P, V + 1]."""
        self.nonces, self.period, self._symbols = tables.shape
        logs = np.log(tables[..., :-1])
        self._transform = np.fft.rfft(logs, axis=1).transpose(1, 0, 2)  # [P/2 + 1, R, V]

    def __call__(self, symbols: NDArray[np.int64], first: int = 0) -> NDArray[np.float64]:
        """Return [B, R, P] for symbols [B, n] padded with UNREAD, the first at place `first`."""
        batch, length = symbols.shape
        counts = np.zeros((batch, self.period, self._symbols))
        place = (first + np.arange(length)) % self.period
        np.add.at(counts, (np.arange(batch)[:, None], place[None], symbols), 1.0)
        seen = np.fft.rfft(counts[..., :-1], axis=1).conj().transpose(1, 2, 0)  # [P/2+1, V, B]
        products = self._transform @ seen  # [P/2 + 1, R, B]
        return np.fft.irfft(products, n=self.period, axis=0).transpose(2, 1, 0)

    def best_in_part(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of each nonce's best phase on the whole, a block or two: [B, n] -> [B, R].

        A lost symbol moves all that follows to another phase, in which it speaks against the
        first: on the whole, the right nonce then looks no better than others.
        """
        best = np.zeros((len(symbols), self.nonces))
        before = total = np.zeros((len(symbols), self.nonces, self.period))
        for first in range(0, symbols.shape[1], _BLOCK):
            block = self(symbols[:, first : first + _BLOCK], first)
            total = total + block
            for scores in (block, before + block):
                best = np.maximum(best, scores.max(axis=2))
            before = block
        return np.asarray(np.maximum(best, total.max(axis=2)))


class PathRatios:
    """Likelihood ratios of the components with slips or edges, for the schedule of one nonce."""

    def __init__(
        self,
        tables: dict[int, NDArray[np.float64]],
        starts: NDArray[np.int64],
        components: Sequence[Component],
    ) -> None:
        """`tables` has the factors of each level: [P, V + 1]."""
        self.components = tuple(components)
        self.period = len(next(iter(tables.values())))
        self._starts = starts
        self._windows = {level: _windows(tables[level]) for level in {c.level for c in components}}

    def log_ratios(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of every component: symbols [B, n], padded with UNREAD -> [B, C]."""
        batch, length = symbols.shape
        rows = max(1, _AT_ONCE // max(1, length * self.period))
        parts = [self._some(symbols[at : at + rows]) for at in range(0, batch, rows)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.components)))

    def _some(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        products = {level: self._products(level, symbols) for level in self._windows}
        result = np.empty((len(symbols), len(self.components)))
        for number, component in enumerate(self.components):
            stride = component.stride
            ends = -(-_last_read(symbols) // stride)
            result[:, number] = self._forward(component, products[component.level][stride], ends)
        return result

    def _products(self, level: int, symbols: NDArray[np.int64]) -> dict[int, NDArray[np.float32]]:
        """Multiply the factors of 1, 2 and 4 positions under every phase: [n / stride, B, P]."""
        batch, length = symbols.shape
        padded = np.full((-(-length // 4) * 4, batch), UNREAD)
        padded[:length] = symbols.T
        first = np.arange(len(padded)) % self.period
        single = self._windows[level][padded, first[:, None]]
        pairs = single[0::2] * single[1::2]
        return {1: single, 2: pairs, 4: pairs[0::2] * pairs[1::2]}

    def _forward(
        self, component: Component, products: NDArray[np.float32], ends: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Sum over all paths: [steps, B, P] -> [B].

        Each row is summed at its own end, `ends` [B] in steps: what stands beside it in the batch
        must not change how often it is rounded.
        """
        batch = products.shape[1]
        prior = _prior(component, self.period, self._starts)
        slip, edge = map(np.float32, component.per_step)
        ring = np.zeros((batch, self.period + 2), dtype=np.float32)  # the ends repeat each other
        marked, low, high = ring[:, 1:-1], ring[:, :-2], ring[:, 2:]
        moved = np.empty_like(marked)
        before = np.full((batch, 1), np.float32(edge > 0.0))  # not marked yet
        after = np.zeros((batch, 1), dtype=np.float32)  # marked no longer
        if edge == 0.0:
            marked[:] = prior
        scale, result = np.zeros((2, batch))
        for number, factor in enumerate(products[: ends.max(initial=0)]):
            if edge > 0.0:
                after += edge * marked.sum(axis=1, keepdims=True)
            ring[:, 0], ring[:, -1] = marked[:, -1], marked[:, 0]
            np.add(low, high, out=moved)
            moved *= slip / 2 * (1 - edge)
            marked *= (1 - slip) * (1 - edge)
            marked += moved
            if edge > 0.0:
                marked += (edge * before) * prior
                before *= 1 - edge
            marked *= factor
            if number % _RESCALE == _RESCALE - 1:
                largest = np.maximum(marked.max(axis=1, keepdims=True), np.maximum(before, after))
                marked /= largest
                before /= largest
                after /= largest
                scale += np.log(largest[:, 0], dtype=np.float64)
            done = ends == number + 1
            if done.any():
                total = marked.sum(axis=1, dtype=np.float64) + before[:, 0] + after[:, 0]
                result[done] = np.log(total[done]) + scale[done]
        return result


def _last_read(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how long each row is up to its last symbol that says something: [B, n] -> [B]."""
    places = np.arange(1, symbols.shape[1] + 1)
    return np.asarray(np.max(np.where(symbols != UNREAD, places, 0), axis=1, initial=0))


def _windows(table: NDArray[np.float64]) -> NDArray[np.float32]:
    """View the factors of a symbol from every key on, all around the period: [V + 1, P, P]."""
    twice = np.concatenate([table, table[:-1]]).T.astype(np.float32)
    return np.lib.stride_tricks.sliding_window_view(twice, len(table), axis=1)


def _prior(component: Component, period: int, starts: NDArray[np.int64]) -> NDArray[np.float32]:
    prior = np.zeros(period, dtype=np.float32)
    prior[slice(None) if component.anywhere else starts] = 1.0
    return np.asarray(prior / prior.sum())


class CyclicRatio:
    """Likelihood ratios for a schedule of keys that repeats after a period, of any nonce.

    `promoted` [P, V] says for each nonce which symbols its keys promote; `rates` [levels, V] how
    often a marked symbol agrees; `starts` are the keys a sequence may begin with. With many nonces,
    slips and edges are looked for under the likeliest few: what is left out of a mixture makes it
    smaller, never invalid.
    """

    def __init__(
        self,
        promoted: Sequence[NDArray[np.bool_]],
        rates: NDArray[np.float64],
        starts: NDArray[np.int64],
        components: Sequence[Component],
        frequencies: NDArray[np.float64] | None = None,
    ) -> None:
        self.components = tuple(components)
        self.nonces = len(promoted)
        self._starts, self._promoted = starts, promoted
        self._rates, self._frequencies = rates, frequencies
        self._steady = [i for i, c in enumerate(self.components) if c.is_steady]
        self._moving = [i for i, c in enumerate(self.components) if not c.is_steady]
        self._phases = {
            level: PhaseScores(np.stack([self._table(r, level) for r in range(self.nonces)]))
            for level in {c.level for c in self.components if c.is_steady}
        }
        self._paths: dict[int, PathRatios] = {}

    def log_ratios(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of nonces and components: symbols [B, n] -> [B, R, C]; -inf: left out."""
        result = np.full((len(symbols), self.nonces, len(self.components)), -np.inf)
        scores = {level: phases(symbols) for level, phases in self._phases.items()}  # [B, R, P]
        for i in self._steady:
            component = self.components[i]
            found = scores[component.level]
            result[..., i] = log_mean_exp(found if component.anywhere else found[..., self._starts])
        chosen = self._likely_nonces(symbols)
        for nonce in np.unique(chosen).tolist() if self._moving else ():
            rows = np.flatnonzero((chosen == nonce).any(axis=1))
            moving = self._paths_of(nonce).log_ratios(symbols[rows])
            result[rows[:, None], nonce, np.array(self._moving)] = moving
        return result

    def _likely_nonces(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the few nonces that are worth a look for slips and edges: [B, few]."""
        if self.nonces <= _FEW_NONCES or not self._phases:
            return np.tile(np.arange(self.nonces)[:_FEW_NONCES], (len(symbols), 1))
        best = self._phases[max(self._phases)].best_in_part(symbols)
        # Short sequences have ties, which the last bits of a transform must not decide.
        return np.argsort(-np.round(best, 9), axis=1, kind="stable")[:, :_FEW_NONCES]

    def _table(self, nonce: int, level: int) -> NDArray[np.float64]:
        return factors(self._promoted[nonce], self._rates[level], self._frequencies)

    def _paths_of(self, nonce: int) -> PathRatios:
        if nonce not in self._paths:
            moving = [self.components[i] for i in self._moving]
            tables = {c.level: self._table(nonce, c.level) for c in moving}
            self._paths[nonce] = PathRatios(tables, self._starts, moving)
        return self._paths[nonce]


class ChainRatio:
    """The same for any chain of keys (A, Q): an inserted symbol repeats a key, a lost one skips.

    States are keys. There is no edge: use it for chains that are no cycle, of few keys.
    """

    def __init__(
        self,
        promoted: NDArray[np.bool_],
        rates: NDArray[np.float64],
        transition: NDArray[np.float64],
        initial: NDArray[np.float64],
        components: Sequence[Component],
    ) -> None:
        self.components = tuple(components)
        self._initial = initial
        self._moves = {c.slip: _with_slips(transition, c.slip) for c in components}
        self._factors = {c.level: factors(promoted, rates[c.level]).T for c in components}

    def log_ratios(self, symbols: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln LR of every component: symbols [B, n], padded with UNREAD -> [B, 1, C]."""
        result = np.empty((len(symbols), 1, len(self.components)))
        for number, component in enumerate(self.components):
            move, of_symbol = self._moves[component.slip], self._factors[component.level]
            state = np.repeat(self._initial[None], len(symbols), axis=0)
            total = np.zeros(len(symbols))
            for position in range(symbols.shape[1]):
                if position:
                    state = state @ move
                state = state * of_symbol[symbols[:, position]]
                share = state.sum(axis=1, keepdims=True)
                state /= share
                total += np.log(share[:, 0])
            result[:, 0, number] = total
        return result


def _with_slips(transition: NDArray[np.float64], slip: float) -> NDArray[np.float64]:
    skipped = transition @ transition
    return np.asarray((1.0 - slip) * transition + slip / 2 * (np.eye(len(transition)) + skipped))


def log_mean_exp(values: NDArray[np.float64], *, total: bool = False) -> NDArray[np.float64]:
    """Return ln of the mean (or sum) of exponentials over the last axis."""
    highest = np.max(values, axis=-1, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    summed = np.exp(values - highest).sum(axis=-1)
    with np.errstate(divide="ignore"):
        result = np.log(summed) + highest[..., 0]
    return np.asarray(result if total else result - np.log(values.shape[-1]))
