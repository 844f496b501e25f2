"""Many block keys against one sequence at once: which of them are worth a full test.

A lane is a nonce of a key, and `statistics.block_screen` scores 64 lanes at once. Two stages:

- from the start: the best path from the first block, with lost and inserted letters. It finds whole
  designs, damaged or not;
- pieces: the best stretch that begins anywhere in a design and anywhere in the sequence. Counts of
  segments are coarse, and among many thousands of lanes some are high by chance. So the exact ratio
  of the best lanes, at the shift where each stretch lies, decides.

Coins of all keys are kept as bits where there is room, and derived again for every batch where not.
A screen is only a screen: see `screen`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.blocks import PROTEIN_PAIRS, halves_of
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.screen import Progress, Stage
from patternmark.statistics.block_paths import Chain, Component, Look, log_ratios, num_blocks
from patternmark.statistics.block_screen import (
    LANES,
    Packed,
    best_paths,
    best_stretches,
    blocks_reached,
    coin_planes,
    laid_out,
)
from patternmark.statistics.blocks import BlockStatistic, Coins

_KEPT_BYTES = 2**28  # coins up to this size are kept; more are derived for every batch
_AT_ONCE = 64 * LANES  # lanes whose table is laid out together: it should fit a cache
_CLOSER = 256  # keys whose best stretch is looked at more closely
_PIECES = (Component(2, 0.004, "anywhere"), Component(2, 0.004, "inside"))

Planes = NDArray[np.uint64]


class _Spoken(NamedTuple):
    """A chain of a batch that says something."""

    record: int
    number: int  # in its record
    chain: Chain


class _Some(NamedTuple):
    """Some of the keys, and the coins of their lanes by the number of the chain."""

    keys: slice
    tables: dict[int, Packed]


class BlockKeyScreen:
    """Scores the sequences of a batch under block keys of one profile."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._coins = [cast(Coins, key.schedule) for key in keys]
        self._block, self._nonces = self._coins[0].block, self._coins[0].nonces
        self._reader = BlockStatistic.of(keys[0])
        whole_words = LANES // gcd(self._nonces, LANES)  # the fewest keys that fill words up
        self._at_once = max(1, _AT_ONCE // self._nonces // whole_words) * whole_words
        self._kept: dict[int, list[Planes]] = {}
        self.stages = (Stage(self.from_start, 3), Stage(self.pieces, 1))

    def prepare(self) -> None:
        """Do nothing: how many blocks are needed, the sequences say."""

    def from_start(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key by the best nonce, every chain from its first block."""
        spoken = self._spoken(readings)
        result = np.zeros((len(readings), len(self._coins), 1), dtype=np.float32)
        for keys, tables in self._in_turn(spoken, progress):
            total = np.zeros((len(readings), (keys.stop - keys.start) * self._nonces), np.int64)
            for record, number, chain in spoken:
                total[record] += best_paths(chain, tables[number])
            result[:, keys, 0] = self._by_key(total).max(axis=2)
        return result

    def pieces(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score them by the exact ratio of the best stretches; -inf where it is not worth it."""
        spoken = self._spoken(readings)
        best, nonces, shifts = self._stretches(len(readings), spoken, progress)
        result = np.full((*best.shape, 1), -np.inf, dtype=np.float32)
        for record, scores in enumerate(best):
            few = np.argsort(-scores, kind="stable")[:_CLOSER]
            result[record, few, 0] = 0.0
            for row, one in enumerate(spoken):
                if one.record == record:
                    ratios = self._exact(one, few, nonces[record, few], shifts[row, few])
                    result[record, few, 0] += ratios
        return result

    def _stretches(
        self, records: int, spoken: Sequence[_Spoken], progress: Progress | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the best score and its nonce [B, K], and the shift of each chain [chains, K]."""
        num_keys = len(self._coins)
        best, nonces = np.zeros((2, records, num_keys), dtype=np.int64)
        shifts = np.zeros((len(spoken), num_keys), dtype=np.int64)
        for keys, tables in self._in_turn(spoken, progress):
            total = np.zeros((records, (keys.stop - keys.start) * self._nonces), np.int64)
            places = []
            for record, number, chain in spoken:
                scores, place = best_stretches(chain, tables[number])
                total[record] += scores
                places.append(self._by_key(place))
            best[:, keys] = self._by_key(total).max(axis=2)
            nonces[:, keys] = self._by_key(total).argmax(axis=2)
            for row, (one, place) in enumerate(zip(spoken, places, strict=True)):
                chosen = nonces[one.record, keys, None]
                shifts[row, keys] = np.take_along_axis(place, chosen, axis=1)[:, 0]
        return best, nonces, shifts

    def _exact(
        self,
        spoken: _Spoken,
        keys: NDArray[np.int64],
        nonces: NDArray[np.int64],
        shifts: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return ln of the ratio of a chain under some keys, each with a nonce and a shift."""
        blocks = num_blocks(spoken.chain.length, self._block, _PIECES)
        words = np.stack(
            [
                self._coins[key].words(spoken.number, blocks)[:, nonce]
                for key, nonce in zip(keys.tolist(), nonces.tolist(), strict=True)
            ]
        )
        looks = [
            Look(component, np.array([row]), shift)
            for row, shift in enumerate(shifts.tolist())
            for component in range(len(_PIECES))
        ]
        found = log_ratios(spoken.chain, halves_of(words), self._block, _PIECES, looks)
        return np.maximum(found.max(axis=1), 0.0)  # a chain of several may carry no mark

    def _spoken(self, readings: Sequence[Reading]) -> list[_Spoken]:
        return [
            _Spoken(record, *piece)
            for record, reading in enumerate(readings)
            for piece in self._reader.pieces(reading)
        ]

    def _by_key(self, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Split lanes into keys and nonces: [..., lanes] -> [..., keys, R]."""
        return lanes.reshape(*lanes.shape[:-1], -1, self._nonces)

    def _in_turn(self, spoken: Sequence[_Spoken], progress: Progress | None) -> Iterator[_Some]:
        """Yield the coins of all keys, some at a time."""
        longest: dict[int, int] = {}
        for _, number, chain in spoken:
            longest[number] = max(longest.get(number, 0), chain.length)
        kept = {number: self._planes_kept(number, longest[number]) for number in longest}
        for turn, keys in enumerate(self._turns()):
            lanes = (keys.stop - keys.start) * self._nonces
            tables = {}
            for number, known in kept.items():
                blocks = blocks_reached(self._block, longest[number])
                planes = known[turn] if known else self._planes(number, blocks, keys)
                tables[number] = laid_out(planes[..., :blocks], lanes, self._block, longest[number])
            yield _Some(keys, tables)
            if progress is not None:
                progress(keys.stop, len(self._coins))

    def _planes_kept(self, chain: int, length: int) -> list[Planes]:
        """Return the coins of all keys for chains up to a length; none if there is no room."""
        blocks = blocks_reached(self._block, length)
        known = self._kept.get(chain, [])
        if known and known[0].shape[2] >= blocks:
            return known
        others = sum(one.nbytes for c, kept in self._kept.items() if c != chain for one in kept)
        bits = len(PROTEIN_PAIRS) * blocks * len(self._coins) * self._nonces
        if others + bits // 8 > _KEPT_BYTES:
            return []
        self._kept[chain] = [self._planes(chain, blocks, keys) for keys in self._turns()]
        return self._kept[chain]

    def _planes(self, chain: int, blocks: int, keys: slice) -> Planes:
        words = [coins.words(chain, blocks) for coins in self._coins[keys]]
        return coin_planes(np.concatenate(words, axis=1))

    def _turns(self) -> Iterator[slice]:
        for at in range(0, len(self._coins), self._at_once):
            yield slice(at, min(at + self._at_once, len(self._coins)))
