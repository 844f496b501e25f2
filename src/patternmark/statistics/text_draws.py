"""The p-value of this very text: how often another key would give it as large a ratio.

The ratio of a text that counts every token depends on how the text repeats itself. How often
chance reaches it can be computed for the very text, whatever it is: prose, a table, a poem, a text
that another key marked, or one that was written to deceive. Only the key is random, and who wrote
the text did not know it. Keys with a large ratio are rare, so they are not found by trying keys.
Instead

1. **paths** through the schedule are drawn with probability proportional to their prior times the
   mean of their ratio over all keys. For each component of the mixture a cloud of particles walks
   along the text. A particle keeps what its path says about the coins so far: the odds of each
   coin that it met. A token multiplies the particle's weight by the mean of the token's factor
   under these odds. Particles with little weight give way to copies of the others. The mean weight
   estimates, without bias, the mean of the component's ratio over all keys.
2. **each component is divided by that mean.** So the mixture E' has a mean of 1 over keys for this
   very text, and components that its repetitions please no longer drown the others.
3. **keys** are drawn from paths: each coin from its odds. They have probability proportional to the
   E' that they give the text, so that

       P(E' >= t) = mean over drawn keys of (1 / E' where E' >= t, else 0).

   The key under test counts as one more draw, with 1 / t, as in `block_exact`, where the proof
   is that p then holds for any number of draws.

The only error is that of the means, a percent or so. Numbers are drawn from a stream that depends
on the secret and on the text, so a text and a key have one p-value, and nobody without the key can
tell which numbers will be drawn.
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

DRAWS = 100  # keys
PARTICLES = 128  # of each component
SAME = 1e-3  # ln E that differ by less are equal: they are summed in single precision
_LOOK_AFTER = 4  # tokens between two looks at the weights of particles
_BEFORE, _MARKED, _AFTER = 0, 1, 2  # where a particle stands: a stretch of the text is marked


class Stream:
    """Uniform numbers that a secret and a name give, the same on every machine."""

    def __init__(self, secret: Secret, name: str) -> None:
        self._secret, self._name, self._calls = secret, name, 0

    def uniforms(self, *shape: int) -> NDArray[np.float64]:
        """Return the next numbers in [0, 1)."""
        label = f"{self._name}/{self._calls}"
        self._calls += 1
        words = self._secret.octets(label, 8 * int(np.prod(shape))).view(">u8")
        return ((words >> 11).astype(np.float64) * 2.0**-53).reshape(shape)


@dataclass(frozen=True, eq=False)
class Marks:
    """What marks a mixture looks for in one text, and where: C components, U tokens.

    `tokens` [n] are numbers of its U tokens or UNREAD. `agreeing` and `other` [C, U] are the
    factors of a token that agrees with its key and of one that does not. A coin tells whether the
    keys at even places of a block promote a token; those at odd places promote the others.
    """

    components: tuple[Component, ...]
    numbers: tuple[int, ...]  # of the components among those of the mixture
    log_weights: NDArray[np.float64]  # [C]
    agreeing: NDArray[np.float64]
    other: NDArray[np.float64]
    tokens: NDArray[np.int64]
    starts: NDArray[np.int64]
    period: int
    block: int

    @property
    def num_coins(self) -> int:
        """How many coins the text may meet: one for each block and token."""
        return int(self.period // self.block * self.agreeing.shape[1])


class Drawn(NamedTuple):
    """Keys that were drawn for a text."""

    coins: NDArray[np.bool_]  # [keys, blocks, U]
    log_means: NDArray[np.float64]  # [C] ln of the mean of each component's ratio over all keys

    def one_in(self, some: int) -> Drawn:
        """Return one key in so many: they stand for all components as all keys do."""
        return self._replace(coins=self.coins[::some])

    def promoted(self, period: int) -> NDArray[np.bool_]:
        """Which tokens each key of a schedule promotes, one schedule beside the other: [P, K U]."""
        keys, blocks, tokens = self.coins.shape
        by_block = self.coins.transpose(1, 0, 2).reshape(blocks, keys * tokens)
        promoted = np.repeat(by_block, period // blocks, axis=0)
        promoted[1::2] ^= True
        return promoted


def draw_keys(marks: Marks, keys: int, stream: Stream, particles: int = PARTICLES) -> Drawn:
    """Draw keys with probability proportional to the ratio that they give a text."""
    cloud = _Cloud(marks, stream, particles)
    for place, token in enumerate(marks.tokens.tolist()):
        cloud.move(place)
        if token != UNREAD:
            cloud.read(place, token)
        if place % _LOOK_AFTER == _LOOK_AFTER - 1:
            cloud.select()
    log_means = log_mean_exp(cloud.log_weights)
    shares = np.exp(marks.log_weights[:, None] + cloud.log_weights - log_means[:, None])
    # One number for each of equal shares, so that components get what they are due.
    cumulative = np.cumsum(shares.ravel())
    at = (np.arange(keys) + stream.uniforms(keys)) / keys * cumulative[-1]
    chosen = np.minimum(np.searchsorted(cumulative, at, side="right"), len(cumulative) - 1)
    likely = _chance(cloud.odds[chosen])
    coins = stream.uniforms(*likely.shape) < likely
    return Drawn(coins.reshape(keys, marks.period // marks.block, -1), log_means)


class _Cloud:
    """Particles [C N] that walk along a text, N for each component."""

    def __init__(self, marks: Marks, stream: Stream, particles: int) -> None:
        self._marks, self._stream, self._particles = marks, stream, particles
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

    def _first(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the phase with which a marked stretch begins."""
        starts = self._marks.starts
        from_start = starts[(uniform * len(starts)).astype(np.int64)]
        return np.where(self._anywhere, (uniform * self._marks.period).astype(np.int64), from_start)

    def move(self, place: int) -> None:
        """Let paths slip, and stretches begin and end: by the law of `PathRatios`."""
        may = place % self._stride == 0
        edge, slip = self._stream.uniforms(2, len(may))
        turns = may & (edge < self._edge)
        begins, ends = turns & (self._state == _BEFORE), turns & (self._state == _MARKED)
        slips = may & (self._state == _MARKED) & ~ends & (slip < self._slip)
        self._phase += np.where(slips, np.where(slip < self._slip / 2.0, -1, 1), 0)
        self._phase = np.where(begins, self._first(slip), self._phase)
        self._state += begins | ends

    def read(self, place: int, token: int) -> None:
        """Weigh particles by the mean of a token's factor, and learn about its coin."""
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

    def select(self) -> None:
        """Replace particles of little weight by copies of others, where weights are unequal."""
        uniform = self._stream.uniforms(len(self.log_weights))
        order = np.arange(len(self._of))
        log_means = log_mean_exp(self.log_weights)
        for component, log_mean in enumerate(log_means.tolist()):
            weights = np.exp(self.log_weights[component] - log_mean)
            if weights.sum() ** 2 > 0.5 * self._particles * (weights**2).sum():
                continue
            at = np.arange(self._particles) + uniform[component]
            chosen = np.searchsorted(np.cumsum(weights), at, side="right")
            first = component * self._particles
            of_component = slice(first, first + self._particles)
            order[of_component] = first + np.minimum(chosen, self._particles - 1)
            self.log_weights[component] = log_mean
        if np.any(order != np.arange(len(order))):
            self._phase, self._state = self._phase[order], self._state[order]
            self.odds = self.odds[order]


def _chance(log_odds: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(0.5 + 0.5 * np.tanh(log_odds.astype(np.float64) / 2.0))


def log_p_of_draws(
    log_e: float, log_es: NDArray[np.float64], log_shares: NDArray[np.float64] | float = 0.0
) -> float:
    """Return ln P(E >= e) from drawn keys with these ln E; the key under test is one of them.

    `log_shares` [keys + 1] tell by how much keys are likelier than fair coins, the tested one last.

    >>> round(log_p_of_draws(3.0, np.array([2.0, 3.0, 4.0])), 3)  # (2 e^-3 + e^-4) / 4
    -3.525
    """
    everyone = np.append(log_es, log_e)
    reached = everyone >= log_e - SAME
    terms = log_shares - np.maximum(everyone, log_e)
    return min(0.0, float(log_mean_exp(terms[reached], total=True)) - log(len(everyone)))
