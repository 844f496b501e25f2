"""The p-value of one given text: how often another key gives it at least as large a ratio.

A ratio that counts every token depends on how the text repeats itself. How often chance reaches it
can be computed for any given text: prose, a table, a poem, a text that another key marked, or one
that was written to deceive. Only the key is random, and the author of the text did not know it.
Keys with a large ratio are rare, so random keys hardly ever include one. Instead, keys are drawn
with probability proportional to the ratio that they give the text:

1. **A cloud of particles** walks along the text, for each component c of the mixture. A particle is
   a path through the schedule, drawn from its prior. It stores the odds of each coin that it used.
   A token multiplies the particle's weight by the mean of the token's factor under these odds.
   Particles with little weight are replaced by copies of others. The mean weight is an unbiased
   estimate of the mean of the component's ratio over all keys. A first cloud estimates these means
   M_c. With them, E(key) = sum of w_c R_c(key) / M_c: so components whose ratio is large because of
   the text's own repetitions do not dominate the others.
2. **The key under test joins in.** A component is drawn in proportion to w_c R_c / M_c, and a path
   given the key. A second cloud is drawn in which that path is one particle of that component, as
   if it had been drawn by chance (conditional particle filtering). Its mean weights are Z_c.
3. **Other keys** are drawn from particles of the second cloud: each coin from its odds. They and
   the key under test, with one stratum each, were all drawn in the same way, with one exception:
   the key under test is a fair one. E' = E(key) M_c / Z_c compensates for that, where c is the
   component that the key was drawn from. So

       p = sum over all keys with E' at least as large of 1 / E', divided by the number of keys.

**Why p is valid** for any text and for any number of particles and keys. Let Q be the law of a
cloud, a particle of it and a key drawn from that. Let P be the law of a fair key, a component and
path drawn given the key, and a cloud around the path. Written out, the density of Q against P is
E'. Under Q all keys are exchangeable, given the cloud. So P(p <= a) is the mean under Q of the sum
of 1 / E' over those keys whose own p is at most a, divided by the number of keys; and by definition
of p, that sum is at most a times that number. Estimates of means can be far off for texts with
contrived repetitions: then p is larger, or finds less, but stays valid.

Random numbers come from a stream that depends on the secret and on the text. So a text and a key
always give the same p-value, and without the key nobody can predict the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.secret import Secret
from patternmark.statistics.likelihood import Component, log_mean_exp

KEYS = 101  # the key under test and 100 drawn keys
PARTICLES = 128  # of each component
TOLERANCE = 1e-3  # values of ln E that differ by less count as equal: sums have single precision
_SELECT_EVERY = 4  # tokens
_BEFORE, _MARKED, _AFTER = 0, 1, 2  # a particle is before, in or after its marked stretch


class Stream:
    """Uniform random numbers derived from a secret and a name, the same on every machine."""

    def __init__(self, secret: Secret, name: str) -> None:
        self._secret, self._name, self._calls = secret, name, 0

    def uniforms(self, *shape: int) -> NDArray[np.float64]:
        """Return the next numbers in [0, 1)."""
        label = f"{self._name}/{self._calls}"
        self._calls += 1
        words = self._secret.octets(label, 8 * int(np.prod(shape))).view(">u8")
        return ((words >> 11).astype(np.float64) * 2.0**-53).reshape(shape)

    def uniform(self) -> float:
        """Return the next number in [0, 1)."""
        return float(self.uniforms(1)[0])

    def choice(self, weights: NDArray[np.float64]) -> int:
        """Return an index, drawn with probability proportional to its weight."""
        at = self.uniform() * float(weights.sum())
        return min(int(np.searchsorted(np.cumsum(weights), at, side="right")), len(weights) - 1)


@dataclass(frozen=True, eq=False)
class Marks:
    """The marks that a mixture of C components looks for in one text of U different tokens.

    `tokens` [n] are numbers of the U tokens, or UNREAD. `agreeing` and `other` [C, U] are the
    factors of a token that agrees with its key and of one that does not. A coin says whether the
    keys at even places of a block promote a token; the keys at odd places promote the others.
    """

    components: tuple[Component, ...]
    numbers: tuple[int, ...]  # index of each component in the mixture
    log_weights: NDArray[np.float64]  # [C]
    agreeing: NDArray[np.float64]
    other: NDArray[np.float64]
    tokens: NDArray[np.int64]
    starts: NDArray[np.int64]
    period: int
    block: int

    @property
    def num_coins(self) -> int:
        """The number of coins that may matter for the text: one for each block and token."""
        return int(self.period // self.block * self.agreeing.shape[1])

    def promoted(self, coins: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which tokens each key of a schedule promotes: [blocks, U] -> [P, U]."""
        promoted = np.repeat(coins, self.block, axis=0)
        promoted[1::2] ^= True
        return promoted

    def first_law(self, component: Component) -> NDArray[np.float64]:
        """Return the probability that each phase is the first of a marked stretch: [P]."""
        law = np.zeros(self.period)
        law[slice(None) if component.anywhere else self.starts] = 1.0
        return np.asarray(law / law.sum())


class Path(NamedTuple):
    """A path through the schedule: its first phase, and its phase and state at each token."""

    component: int
    first: int
    phases: NDArray[np.int64]  # [n]
    states: NDArray[np.int64]  # [n] before, in or after the marked stretch


class DrawnKeys(NamedTuple):
    """Keys drawn for a text: one in each stratum, and the key under test in its own."""

    coins: NDArray[np.bool_]  # [K, blocks, U], including those of the key under test
    components: NDArray[np.int64]  # [K] from which each key was drawn
    tested: int  # index of the key under test
    log_means: NDArray[np.float64]  # [C] of the cloud

    def every(self, step: int) -> DrawnKeys:
        """Return every `step`-th key, including the key under test."""
        chosen = slice(self.tested % step, None, step)
        return self._replace(
            coins=self.coins[chosen],
            components=self.components[chosen],
            tested=self.tested // step,
        )


class Cloud:
    """Particles [C N] that walk along a text, N for each component; one path may be given."""

    def __init__(
        self, marks: Marks, stream: Stream, particles: int = PARTICLES, kept: Path | None = None
    ) -> None:
        self._marks, self._stream, self._particles, self._kept = marks, stream, particles, kept
        components = marks.components
        self._of = np.repeat(np.arange(len(components)), particles)  # the component of each
        self._stride = np.array([c.stride for c in components])[self._of]
        self._slip = np.array([c.per_step[0] for c in components])[self._of]
        self._edge = np.array([c.per_step[1] for c in components])[self._of]
        self._anywhere = np.array([c.anywhere for c in components])[self._of]
        self.log_weights = np.zeros((len(components), particles))
        self.odds = np.zeros((len(self._of), marks.num_coins), dtype=np.float32)
        self._state = np.where(self._edge > 0.0, _BEFORE, _MARKED)
        spread = np.tile(np.arange(particles), len(components))
        self._phase = self._first((spread + stream.uniforms(len(spread))) / particles)
        self.slot = 0 if kept is None else self._slot_of(kept)  # the particle with the given path
        for place, token in enumerate(marks.tokens.tolist()):
            self._move(place)
            if token != UNREAD:
                self._read(place, token)
            if place % _SELECT_EVERY == _SELECT_EVERY - 1:
                self._select()
        self.log_means = log_mean_exp(self.log_weights)  # [C]

    def _first(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the first phase of marked stretches."""
        starts = self._marks.starts
        from_start = starts[(uniform * len(starts)).astype(np.int64)]
        return np.where(self._anywhere, (uniform * self._marks.period).astype(np.int64), from_start)

    def _slot_of(self, kept: Path) -> int:
        """Choose the particle of its component that takes the given path, and set its phase."""
        component, uniform = self._marks.components[kept.component], self._stream.uniform()
        if component.edge > 0.0:
            return int(uniform * self._particles)
        firsts = np.flatnonzero(self._marks.first_law(component))
        share = (int(np.searchsorted(firsts, kept.first)) + uniform) / len(firsts)
        slot = min(int(share * self._particles), self._particles - 1)
        self._phase[kept.component * self._particles + slot] = kept.first
        return slot

    def _move(self, place: int) -> None:
        """Let paths slip, and marked stretches begin and end: by the law of `PathRatios`."""
        may = place % self._stride == 0
        edge, slip = self._stream.uniforms(2, len(may))
        turns = may & (edge < self._edge)
        begins, ends = turns & (self._state == _BEFORE), turns & (self._state == _MARKED)
        slips = may & (self._state == _MARKED) & ~ends & (slip < self._slip)
        self._phase += np.where(slips, np.where(slip < self._slip / 2.0, -1, 1), 0)
        self._phase = np.where(begins, self._first(slip), self._phase)
        self._state += begins | ends
        if self._kept is not None:
            row = self._kept.component * self._particles + self.slot
            self._phase[row] = self._kept.phases[place]
            self._state[row] = self._kept.states[place]

    def _read(self, place: int, token: int) -> None:
        """Multiply weights by the mean of a token's factor, and update the odds of its coin."""
        marks = self._marks
        key = (self._phase + place) % marks.period
        coin = key // marks.block * marks.agreeing.shape[1] + token
        agreeing, other = marks.agreeing[self._of, token], marks.other[self._of, token]
        is_even = key % 2 == 0
        shown, hidden = np.where(is_even, (agreeing, other), (other, agreeing))
        rows = np.arange(len(coin))
        likely = _chance(self.odds[rows, coin])
        is_marked = self._state == _MARKED
        gain = np.log(likely * shown + (1.0 - likely) * hidden)
        self.log_weights += np.where(is_marked, gain, 0.0).reshape(self.log_weights.shape)
        self.odds[rows, coin] += np.where(is_marked, np.log(shown / hidden), 0.0)

    def _select(self) -> None:
        """Replace particles of little weight by copies of others, if the weights are unequal.

        Particles of components that never slip stay: copies would not help them.
        """
        uniform, particles = self._stream.uniforms(len(self.log_weights)), self._particles
        order = np.arange(len(self._of))
        log_means = log_mean_exp(self.log_weights)
        for number, log_mean in enumerate(log_means.tolist()):
            weights = np.exp(self.log_weights[number] - log_mean)
            is_even = weights.sum() ** 2 > 0.5 * particles * (weights**2).sum()
            if is_even or self._marks.components[number].is_steady:
                continue
            cumulative, offset = np.cumsum(weights), uniform[number]
            has_kept = self._kept is not None and self._kept.component == number
            if has_kept:  # choose an offset that copies the given particle
                at = cumulative[self.slot] - weights[self.slot] * offset
                slot = min(int(at), particles - 1)
                offset = at - slot
            chosen = np.searchsorted(cumulative, np.arange(particles) + offset, side="right")
            chosen = np.minimum(chosen, particles - 1)
            if has_kept:
                chosen[slot] = self.slot
                self.slot = slot
            first = number * particles
            order[first : first + particles] = first + chosen
            self.log_weights[number] = log_mean
        if np.any(order != np.arange(len(order))):
            self._phase, self._state = self._phase[order], self._state[order]
            self.odds = self.odds[order]

    def draw_keys(self, own_coins: NDArray[np.bool_], keys: int = KEYS) -> DrawnKeys:
        """Draw a key from each of equal shares; in its own share, take the key under test."""
        assert self._kept is not None  # noqa: S101
        log_shares = self._marks.log_weights[:, None] + self.log_weights - self.log_means[:, None]
        shares = np.exp(log_shares).ravel()
        cumulative = np.cumsum(shares) / shares.sum()
        row = self._kept.component * self._particles + self.slot
        own = cumulative[row] - shares[row] / shares.sum() * self._stream.uniform()
        tested = min(max(int(own * keys), 0), keys - 1)
        at = (np.arange(keys) + self._stream.uniforms(keys)) / keys
        chosen = np.minimum(np.searchsorted(cumulative, at, side="right"), len(shares) - 1)
        likely = _chance(self.odds[chosen])
        coins = self._stream.uniforms(*likely.shape) < likely
        coins[tested], components = own_coins.ravel(), self._of[chosen]
        components[tested] = self._kept.component
        shape = (keys, self._marks.period // self._marks.block, -1)
        return DrawnKeys(coins.reshape(shape), components, tested, self.log_means)


def draw_path(marks: Marks, number: int, coins: NDArray[np.bool_], stream: Stream) -> Path:
    """Draw a path of a component given a key's coins: a forward pass, then back step by step."""
    component, period = marks.components[number], marks.period
    slip, edge = component.per_step
    prior, promoted = marks.first_law(component), marks.promoted(coins)
    # Probabilities of all phases, of "before the stretch" and of "after the stretch".
    law = np.append(np.zeros(period), (1.0, 0.0)) if edge > 0.0 else np.append(prior, (0.0, 0.0))
    before_move = []
    for place, token in enumerate(marks.tokens.tolist()):
        before_move.append(law)
        if place % component.stride == 0:
            marked = law[:period]
            moved = slip / 2.0 * (np.roll(marked, 1) + np.roll(marked, -1))
            stays = (1.0 - edge) * ((1.0 - slip) * marked + moved) + edge * law[period] * prior
            outside = ((1.0 - edge) * law[period], law[period + 1] + edge * marked.sum())
            law = np.append(stays, outside)
        if token != UNREAD:
            agrees = np.roll(promoted[:, token], -place)
            factor = np.where(agrees, marks.agreeing[number, token], marks.other[number, token])
            law = np.append(law[:period] * factor, law[period:])
            law /= law.sum()
    at = stream.choice(law)
    visited = np.zeros(len(marks.tokens), dtype=np.int64)
    for place in range(len(visited) - 1, -1, -1):
        visited[place] = at
        if place % component.stride:
            continue
        law = before_move[place]
        came = np.zeros(period + 2)
        if at == period:
            came[period] = 1.0
        elif at == period + 1:
            came[period + 1], came[:period] = law[period + 1], edge * law[:period]
        else:
            came[period] = edge * law[period] * prior[at]
            came[at] = (1.0 - edge) * (1.0 - slip) * law[at]
            for neighbour in ((at - 1) % period, (at + 1) % period):
                came[neighbour] += (1.0 - edge) * slip / 2.0 * law[neighbour]
        at = stream.choice(came)
    states = np.where(visited < period, _MARKED, np.where(visited == period, _BEFORE, _AFTER))
    return Path(number, at, np.where(visited < period, visited, 0), states)


def _chance(log_odds: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(0.5 + 0.5 * np.tanh(log_odds.astype(np.float64) / 2.0))


def log_p_of_draws(
    log_es: NDArray[np.float64], tested: int, log_shares: NDArray[np.float64] | float = 0.0
) -> float:
    """Return ln p of the key under test among keys with these ln E'.

    `log_shares`: ln of how much likelier these keys are than fair coins.

    >>> round(log_p_of_draws(np.array([2.0, 3.0, 3.0, 4.0]), 1), 3)  # (2 e^-3 + e^-4) / 4
    -3.524
    """
    reached = log_es >= log_es[tested] - TOLERANCE
    terms = log_shares - np.maximum(log_es, log_es[tested])
    return min(0.0, float(log_mean_exp(terms[reached], total=True)) - log(len(log_es)))
