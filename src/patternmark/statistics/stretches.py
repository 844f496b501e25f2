"""Rough likelihood ratios for very many schedules of the scheme `turns` at once.

The exact ratio (see `cyclic`) follows every phase of one schedule. Here a path may slip only at the
end of a stretch of a few tokens, and of a place in the circle only its block counts and whether it
is odd. So a stretch becomes one number for each schedule and block: the sum of the weights of its
tokens, with the signs of their coins. This is still a likelihood ratio, for coarser paths: its mean
by chance is 1.

    NonceCoins    the nonces of one key: their coins are a linear code, so the sums of all nonces
                  are a product of two small matrices (each half of a Walsh-Hadamard transform)
    KeyCoins      many keys of one nonce each
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.reading import Reading
from patternmark.core.turns import TurnSchedule
from patternmark.statistics.likelihood import Component, Mixture

_MAX_STRETCH = 8  # tokens
_MAX_SLIPS = 0.1  # expected slips in a stretch
_RESCALE_EVERY = 4  # stretches
_NEGLIGIBLE = np.float32(1e-25)  # relative to the largest number; smaller ones become 0

# Like the exact mixtures, with more weight for texts that lost words.
ROUGH_MIXTURE = Mixture(
    (
        Component(1),
        Component(3),
        Component(2, slip=0.01),
        Component(3, slip=0.05),
        Component(2, slip=0.005, edge=0.01, anywhere=True),
        Component(3, slip=0.01, edge=0.01, anywhere=True),
    ),
    weights=(0.25, 0.25, 0.15, 0.20, 0.10, 0.05),
    short_weights=(0.25, 0.25, 0.15, 0.20, 0.10, 0.05),
)


class ScheduleCoins(Protocol):
    """The coins of many schedules of one shape."""

    @property
    def count(self) -> int:
        """The number of schedules."""

    def sums(
        self, blocks: NDArray[np.int64], symbols: NDArray[np.int64], weights: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Add up weights [n], with a minus sign if a coin is 0: [len(blocks), count]."""


class NonceCoins:
    """The coins of all nonces of a key, for symbols that are numbered from 0."""

    def __init__(self, schedule: TurnSchedule, symbols: NDArray[np.int64]) -> None:
        self.count = schedule.nonces
        self._base = np.where(schedule.base_coins(symbols), np.float32(1), np.float32(-1))
        turning = schedule.turning_coins(symbols)  # [blocks, U]
        low = schedule.nonce_bits // 2
        self._low, self._high = turning & ((1 << low) - 1), turning >> low
        self._low_signs = _signs(low)
        self._high_signs = _signs(schedule.nonce_bits - low)

    def sums(
        self, blocks: NDArray[np.int64], symbols: NDArray[np.int64], weights: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Add up weights [n], with a minus sign if a coin is 0: [len(blocks), count]."""
        at = blocks[:, None], symbols
        signed = self._base[at] * weights
        high = self._high_signs[self._high[at]] * signed[..., None]  # [blocks, n, 2^high]
        found = high.transpose(0, 2, 1) @ self._low_signs[self._low[at]]
        return np.asarray(found.reshape(len(blocks), -1)[:, : self.count])


class KeyCoins:
    """The coins of many keys [K, blocks, U], as signs, for symbols that are numbered from 0."""

    def __init__(self, signs: NDArray[np.float32]) -> None:
        self._signs, self.count = signs, len(signs)

    def sums(
        self, blocks: NDArray[np.int64], symbols: NDArray[np.int64], weights: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Add up weights [n], with a minus sign if a coin is 0: [len(blocks), count]."""
        return np.asarray((self._signs[:, blocks[:, None], symbols] @ weights).T)


def _signs(bits: int) -> NDArray[np.float32]:
    """Return Hadamard's matrix: -1 if two numbers share an odd number of bits: [2^b, 2^b]."""
    signs = np.ones((1, 1), dtype=np.float32)
    for _ in range(bits):
        signs = np.block([[signs, signs], [signs, -signs]])
    return signs


@dataclass(frozen=True)
class Shape:
    """The sizes of schedules of the scheme `turns`."""

    block: int
    num_blocks: int
    starts: tuple[int, ...]

    @classmethod
    def of(cls, schedule: TurnSchedule) -> Shape:
        return cls(schedule.block, schedule.num_blocks, tuple(schedule.starts.tolist()))

    def stretch(self, slip: float) -> int:
        """Return the even number of tokens in a stretch: the more slips, the fewer tokens."""
        most = max(2, min(_MAX_STRETCH, round(_MAX_SLIPS / slip) if slip else _MAX_STRETCH))
        return max(n for n in range(2, most + 1, 2) if self.block % n == 0)

    def prior(self, *, anywhere: bool) -> NDArray[np.float32]:
        """Return the probability of each first block, at an even and an odd place: [blocks, 2]."""
        prior = np.zeros((self.num_blocks, 2), dtype=np.float32)
        for start in self.starts:
            prior[start // self.block, start % 2] += 1.0
        if anywhere:
            prior[:] = 1.0
        return np.asarray(prior / prior.sum())


class RoughRatios:
    """ln of the rough ratio under many schedules of one shape."""

    def __init__(self, rates: NDArray[np.float64], shape: Shape) -> None:
        """`rates` [levels, V]: how often symbols agree; their coins are fair."""
        self._shape = shape
        agreeing, other = np.log(2.0 * rates), np.log(2.0 * (1.0 - rates))
        # ln of a token's factor is its offset plus or minus its weight, by its coin; UNREAD: 0.
        nothing = ((0, 0), (0, 1))
        self._offset = np.pad((agreeing + other) / 2, nothing)
        self._weight = np.pad((agreeing - other) / 2, nothing).astype(np.float32)

    def of(self, reading: Reading, coins: ScheduleCoins) -> NDArray[np.float64]:
        """Return ln of the mixed ratio of a record, whose chains share a schedule: [count]."""
        if not reading.parts:
            return np.zeros(coins.count)
        found = sum(self.by_component(part, coins) for part in reading.parts)
        scored = np.array([reading.num_scored])
        return np.asarray(ROUGH_MIXTURE.mix(np.asarray(found)[None], scored)[0])

    def by_component(self, symbols: NDArray[np.int64], coins: ScheduleCoins) -> NDArray[np.float64]:
        """Return ln LR of one chain for each component: symbols [n] -> [count, C]."""
        walks = [_Walk(c, self._shape, coins.count) for c in ROUGH_MIXTURE.components]
        for level, stretch in {(walk.level, walk.stretch) for walk in walks}:
            own = [walk for walk in walks if (walk.level, walk.stretch) == (level, stretch)]
            self._follow(symbols, coins, level, own)
        return np.stack([walk.log_total() for walk in walks], axis=1)

    def _follow(
        self, symbols: NDArray[np.int64], coins: ScheduleCoins, level: int, walks: Sequence[_Walk]
    ) -> None:
        """Lead walks with the same strength and stretch length through a chain."""
        step = walks[0].stretch
        turns = np.where(np.arange(step) % 2, np.float32(-1), np.float32(1))
        for number, at in enumerate(range(0, len(symbols), step), start=1):
            some = symbols[at : at + step]
            blocks = np.unique(np.concatenate([walk.blocks_at(at) for walk in walks]))
            sums = coins.sums(blocks, some, self._weight[level, some] * turns[: len(some)])
            offset = np.float32(self._offset[level, some].sum())
            even = np.exp(np.add(sums, offset, out=sums), out=sums)
            odd = np.exp(2 * offset) / even
            for walk in walks:
                walk.step(*_rows(blocks, walk.blocks_at(at), even, odd))
                if number % _RESCALE_EVERY == 0:
                    walk.rescale()


def _rows(
    blocks: NDArray[np.int64], wanted: NDArray[np.int64], *tables: NDArray[np.float32]
) -> list[NDArray[np.float32]]:
    """Return the rows of the wanted blocks; a single row is not copied."""
    rows = np.searchsorted(blocks, wanted)
    if len(rows) == 1:
        return [table[rows[0], None] for table in tables]
    return [table[rows] for table in tables]


class _Walk:
    """The sum over all paths of a component so far, for every schedule."""

    def __init__(self, component: Component, shape: Shape, count: int) -> None:
        self.level, self.stretch = component.level, shape.stretch(component.slip)
        self._shape = shape
        prior = shape.prior(anywhere=component.anywhere)
        self._first = np.flatnonzero(prior.any(axis=1))  # blocks
        self._prior = prior[self._first][..., None]  # [lanes, 2, 1]
        self._flip = np.float32((1.0 - (1.0 - 2.0 * component.slip) ** self.stretch) / 2.0)
        self._edge = np.float32(1.0 - (1.0 - component.edge) ** self.stretch)
        begins = np.float32(self._edge == 0.0)
        self._marked = np.repeat(self._prior * begins, count, axis=2)  # [lanes, 2, count]
        self._before, self._after = 1 - begins, np.zeros(count, dtype=np.float32)
        self._log_scale = 0.0

    def blocks_at(self, position: int) -> NDArray[np.int64]:
        """Return the block of each lane at a position."""
        return (self._first + position // self._shape.block) % self._shape.num_blocks

    def step(self, even: NDArray[np.float32], odd: NDArray[np.float32]) -> None:
        """Read a stretch, given its factors at even and at odd places: [lanes, count] each."""
        at_even, at_odd = self._marked[:, 0], self._marked[:, 1]
        if self._flip:
            moved = at_even - at_odd
            moved *= self._flip
            at_even -= moved
            at_odd += moved
        if self._edge:
            self._after += self._edge * self._marked.sum(axis=(0, 1))
            self._marked *= 1 - self._edge
            self._marked += self._edge * self._before * self._prior
            self._before *= 1 - self._edge
        at_even *= even
        at_odd *= odd

    def rescale(self) -> None:
        """Scale the largest number to 1, and set negligible ones to 0."""
        largest = max(self._marked.max(), self._after.max(), self._before)
        self._marked /= largest
        self._after /= largest
        self._before /= largest
        self._marked[self._marked < _NEGLIGIBLE] = 0.0
        self._log_scale += float(np.log(largest))

    def log_total(self) -> NDArray[np.float64]:
        """Return ln of the sum over all paths: [count]."""
        total = self._marked.sum(axis=(0, 1), dtype=np.float64) + self._before + self._after
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total) + self._log_scale)
