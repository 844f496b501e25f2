"""How much better a mark explains a sequence than chance does: a mixed likelihood ratio.

A marked position agrees with its key (the key promotes its symbol) more often than by chance.
Given a path, that is the key of every position, the likelihood ratio is a product with one factor
for each scored symbol x,

    q_x / b                    if x agrees with the key; b is the rate of agreement by chance,
    (1 - q_x) / (1 - b)        if it does not,

and under the null each factor has mean 1. Paths are unknown: where a sequence starts in the
schedule (a phase), whether symbols were lost or inserted (a slip moves the phase by one), and which
stretch is marked. A sum over all paths, weighted by a prior, still has mean 1: it is an e-value,
and 1/LR bounds the p-value at any length. The same is true of every mixture over agreement and
slip rates, and leaving out terms only makes it smaller.

`cyclic` computes it for schedules that repeat, `ChainRatio` for any other chain of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Component:
    """One way a mark may show: how strongly, how often the phase slips, where it lies."""

    level: int  # which agreement rates: a row of `rates`
    slip: float = 0.0  # probability per position that the phase moves by one, up or down
    edge: float = 0.0  # probability per position that a marked stretch begins, or ends; 0: no edges
    anywhere: bool = False  # any phase may be the first; otherwise one of the schedule's starts
    is_shared: bool = False  # a symbol that occurs r times in a record counts 1/r each time

    @property
    def table(self) -> tuple[int, bool]:
        """Which table of symbol factors this component uses."""
        return self.level, self.is_shared

    @property
    def stride(self) -> int:
        """Positions per step; a path may slip once per step. Rare slips need fewer steps."""
        return 1 if self.slip > 0.1 else 2 if self.slip > 0.01 else 4

    @property
    def per_step(self) -> tuple[float, float]:
        """The probabilities of a slip and of an edge in one stride."""
        slip, edge = (1.0 - (1.0 - rate) ** self.stride for rate in (self.slip, self.edge))
        return slip, edge

    @property
    def is_steady(self) -> bool:
        """Whether the whole sequence has one phase."""
        return self.slip == 0.0 and self.edge == 0.0


@dataclass(frozen=True)
class Mixture:
    """Components, and their weights for long and for short sequences.

    A short sequence is more often cut out of a longer one.
    """

    components: tuple[Component, ...]
    weights: tuple[float, ...]
    short_weights: tuple[float, ...]
    any_weights: tuple[float, ...] = ()  # for an e-value that holds for any text: shared ones only

    @property
    def digest(self) -> str:
        """A hash that identifies this mixture."""
        return sha256(repr(self).encode()).hexdigest()[:8]

    def log_weights(self, scored: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln of the weights, given the numbers of scored symbols: [B] -> [B, C]."""
        is_short = (np.asarray(scored) < SHORT)[..., None]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.where(is_short, self.short_weights, self.weights)))

    def mix(
        self, log_ratios: NDArray[np.float64], scored: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return ln of the weighted mean over components: [B, ..., C], [B] -> [B, ...]."""
        weights = self.log_weights(scored)
        between = (1,) * (log_ratios.ndim - 2)
        return log_mean_exp(log_ratios + weights.reshape(len(weights), *between, -1), total=True)

    def mix_for_any(self, log_ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln of an e-value that holds for any text: [..., C] -> [...]."""
        with np.errstate(divide="ignore"):
            return log_mean_exp(log_ratios + np.log(self.any_weights), total=True)


SHORT = 200  # scored symbols; sequences below this length have the `short_weights`
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
# Whole texts, windows, and texts with words lost, added, swapped or replaced. Every slip exchanges
# a half and its complement, so edited texts need high slip rates. Weights were chosen on 300
# translated paragraphs that no reported number uses.
_TEXT_WEIGHTS = (
    *(0.045, 0.065, 0.20, 0.15, 0.20, 0.115, 0.025, 0.055, 0.04),
    *(0.03, 0.0, 0.025, 0.025, 0.025),  # shared
)
TEXT_MIXTURE = Mixture(
    (
        Component(0),
        Component(3),
        Component(3, anywhere=True),
        Component(0, slip=0.1),
        Component(2, slip=0.1),
        Component(2, slip=0.3),
        Component(3, slip=0.3),
        Component(3, slip=0.3, anywhere=True),
        Component(2, slip=0.02, edge=0.02, anywhere=True),
        Component(2, is_shared=True),
        Component(3, is_shared=True),
        Component(3, anywhere=True, is_shared=True),
        Component(2, slip=0.1, is_shared=True),
        Component(3, slip=0.1, is_shared=True),
    ),
    weights=_TEXT_WEIGHTS,
    short_weights=_TEXT_WEIGHTS,
    any_weights=(0.0,) * 9 + (0.17, 0.05, 0.12, 0.06, 0.60),
)


class SymbolFactors(NamedTuple):
    """Likelihood-ratio factor of each symbol if it agrees with its key, and if it disagrees.

    Each is [P, V + 1], or [1, V + 1] if all keys have the same factors; UNREAD comes last.
    """

    agree: NDArray[np.float64]
    disagree: NDArray[np.float64]

    def shared(self, times: NDArray[np.int64]) -> SymbolFactors:
        """Return the factors of symbols that occur `times` [V] and share one coin.

        Factors have mean 1 over the coin, so by Hoelder's inequality a product of r of them, each
        to the power of 1/r, has a mean of 1 at most, whichever keys the r places have.
        """
        power = np.append(1.0 / times, 1.0)
        return SymbolFactors(self.agree**power, self.disagree**power)

    def logs(self) -> SymbolFactors:
        """Return the logarithms."""
        return SymbolFactors(np.log(self.agree), np.log(self.disagree))

    def for_keys(self, promoted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the factors under keys that promote these symbols [P, V]: [P, V + 1]."""
        return np.where(with_unread(promoted), self.agree, self.disagree)


def with_unread(promoted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add UNREAD, which no key promotes: [P, V] -> [P, V + 1]."""
    return np.append(promoted, np.zeros((len(promoted), 1), dtype=bool), axis=1)


def symbol_factors(
    promoted: NDArray[np.bool_],
    rates: NDArray[np.float64],
    frequencies: NDArray[np.float64] | None = None,
    shares: NDArray[np.float64] | None = None,
) -> SymbolFactors:
    """Return the factors of each symbol under keys that promote it and under other keys.

    `shares` [P] or [1] are rates of agreement by chance, for each key or for all. If they are not
    given, they are counted: a key's share of all symbols that any key promotes. Every key's factors
    have mean 1 under `frequencies` of symbols if these are given, otherwise under `shares`.
    """
    scored: NDArray[np.bool_] = np.ones(promoted.shape[1], dtype=bool)
    if shares is None:
        scored = np.asarray(promoted.any(axis=0))
        shares = promoted.sum(axis=1) / np.count_nonzero(scored)
    chance = shares[:1, None] if np.all(shares == shares[0]) else shares[:, None]
    both = (rates / chance, (1.0 - rates) / (1.0 - chance))
    found = SymbolFactors(*(_append_one(np.where(scored, values, 1.0)) for values in both))
    if frequencies is None:
        return found
    means = found.for_keys(promoted)[:, :-1] @ frequencies[:, None]
    return SymbolFactors(*(_append_one(values[:, :-1] / means) for values in found))


def _append_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add the factor of UNREAD, 1: [P, V] -> [P, V + 1]."""
    return np.append(values, np.ones((len(values), 1)), axis=1)


def factors(
    promoted: NDArray[np.bool_],
    rates: NDArray[np.float64],
    frequencies: NDArray[np.float64] | None = None,
    shares: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the factor of each symbol under each key; UNREAD comes last: [P, V + 1]."""
    return symbol_factors(promoted, rates, frequencies, shares).for_keys(promoted)


class ChainRatio:
    """Likelihood ratios for any chain of a few keys (A, Q); the states are keys.

    An inserted symbol repeats a key, a lost symbol skips one. Edges are not supported: use
    `cyclic` for chains that are cycles.
    """

    def __init__(
        self,
        promoted: NDArray[np.bool_],
        rates: NDArray[np.float64],
        transition: NDArray[np.float64],
        initial: NDArray[np.float64],
        components: Sequence[Component],
        shares: NDArray[np.float64] | None = None,
    ) -> None:
        self.components = tuple(components)
        self._initial = initial
        self._moves = {c.slip: _with_slips(transition, c.slip) for c in components}
        levels = {c.level for c in components}
        self._factors = {
            level: factors(promoted, rates[level], shares=shares).T for level in levels
        }

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
