"""Many block keys against one sequence at once: which of them are worth a full test.

A lane is a nonce of a key, and `statistics.block_screen` scores 64 lanes at once. Three stages:

- from the start: the best path from the first block, with lost and inserted letters. It finds whole
  designs, damaged or not;
- pieces: the best stretch that begins anywhere in a design and anywhere in the sequence. Counts of
  segments are coarse, and among many thousands of lanes some are high by chance. So the exact ratio
  of the best lanes, at the shift where each stretch lies, decides;
- other branches of the detector: paths at another pace, where residues were only lost or only
  inserted, and chains whose numbers differ from the design's. The first letters of each chain pick
  some keys, and paths along whole chains decide among these.

Coins of all keys are kept as bits where there is room, and derived again for every batch where not.
A screen is only a screen: see `letter_keys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from math import gcd
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.blocks import PROTEIN_PAIRS, halves_of
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.fast.compiled import together
from patternmark.search.letter_keys import Progress, Stage
from patternmark.statistics.block_paths import (
    BlockChain,
    Component,
    Look,
    log_ratios,
    num_blocks,
)
from patternmark.statistics.block_ratio import BlockCoins, BlockStatistic, Branch, NumberedChain
from patternmark.statistics.block_screen import (
    LANES,
    Packed,
    best_paths,
    best_stretches,
    blocks_reached,
    coin_planes,
    pack,
    pack_planes,
    work,
)

_KEPT_BYTES = 2**29  # coins up to this size are kept; more are derived for every batch
_AT_ONCE = 64 * LANES  # lanes whose table is laid out together: it should fit a cache
_CLOSER = 256  # keys whose best stretch is looked at more closely
_FIRST_EDITED = 200  # positions by which keys are picked where residues were lost or inserted
_FIRST = 120  # ... and where only chain numbers differ
_FINALISTS = 256  # keys of each of them whose whole chains are looked at
_PIECES = (Component(2, 0.004, "anywhere"), Component(2, 0.004, "inside"))

Planes = NDArray[np.uint64]


class _Spoken(NamedTuple):
    """A chain of a batch that says something."""

    record: int
    number: int  # in its record
    chain: BlockChain


class _Way(NamedTuple):
    """A branch of the detector for one record of a batch, with the chains it is about."""

    record: int
    kind: int  # which of the record's other branches
    branch: Branch
    pieces: list[NumberedChain]  # numbered as in the design

    @property
    def pace(self) -> float:
        return self.branch.components[0].pace

    def begun(self) -> _Way:
        """Return it for the first letters of each chain."""
        letters = _FIRST if self.pace == 1.0 else round(_FIRST_EDITED * max(1.0, self.pace))
        return self._replace(
            pieces=[NumberedChain(n, chain.first(letters)) for n, chain in self.pieces]
        )

    def paths(self, tables: dict[int, Packed]) -> NDArray[np.int64]:
        """Score the best paths of all chains together: [lanes]."""
        return sum(
            (best_paths(chain, tables[number], self.pace) for number, chain in self.pieces),
            np.zeros((), dtype=np.int64),
        )


class _Some(NamedTuple):
    """Some of the keys, and the coins of their lanes by the number of the chain."""

    keys: slice
    tables: dict[int, Packed]


class BlockKeyScreen:
    """Scores the sequences of a batch under block keys of one profile."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._coins = [cast(BlockCoins, key.schedule) for key in keys]
        self._block, self._nonces = self._coins[0].block, self._coins[0].nonces
        self._reader = BlockStatistic.of(keys[0])
        whole_words = LANES // gcd(self._nonces, LANES)  # the fewest keys that fill words up
        self._at_once = max(1, _AT_ONCE // self._nonces // whole_words) * whole_words
        self._kept: dict[int, list[Planes]] = {}
        self.stages = (
            Stage(self.from_start, 3),
            Stage(self.pieces, 1),
            Stage(self.other_branches, 1),
        )

    def prepare(self) -> None:
        """Do nothing: how many blocks are needed, the sequences say."""

    def from_start(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key by the best nonce, every chain from its first block."""
        spoken = self._spoken(readings)
        result = np.zeros((len(readings), len(self._coins), 1), dtype=np.float32)
        with self._decided(spoken):
            for keys, tables in self._in_turn(_longest(spoken), progress):
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

    def other_branches(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score them by each further branch of the detector; -inf where it is not worth it."""
        ways = self._other_ways(readings)
        kinds = max((way.kind for way in ways), default=0) + 1
        result = np.full((len(readings), len(self._coins), kinds), -np.inf, dtype=np.float32)
        begun = [way.begun() for way in ways]
        lengths = _longest([piece for way in begun for piece in way.pieces])
        with self._decided([piece for way in begun for piece in way.pieces]):
            for keys, tables in self._in_turn(lengths, progress, loose=False):
                for way in begun:
                    result[way.record, keys, way.kind] = self._by_key(way.paths(tables)).max(axis=1)
        for way in ways:
            scores = result[way.record, :, way.kind]  # a view
            few = np.argsort(-scores, kind="stable")[:_FINALISTS]
            scores[:] = -np.inf
            scores[few] = self._by_key(way.paths(self._tables_of(few, way))).max(axis=1)
        return result

    def _other_ways(self, readings: Sequence[Reading]) -> list[_Way]:
        ways = []
        for record, reading in enumerate(readings):
            pieces = self._reader.pieces(reading)
            for kind, branch in enumerate(self._reader.branches(reading)[1:]):
                met = [
                    NumberedChain(n + branch.shift, chain)
                    for n, chain in branch.chains_in_design(pieces)
                ]
                if met:
                    ways.append(_Way(record, kind, branch, met))
        return ways

    def _tables_of(self, keys: NDArray[np.int64], way: _Way) -> dict[int, Packed]:
        """Return the coins of a few keys for the whole chains of a branch."""
        tables = {}
        for number, chain in way.pieces:
            blocks = blocks_reached(self._block, chain.length, loose=False)
            words = [self._coins[key].words(number, blocks) for key in keys.tolist()]
            tables[number] = pack(np.concatenate(words, axis=1), self._block, chain.length)
        return tables

    def _stretches(
        self, records: int, spoken: Sequence[_Spoken], progress: Progress | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the best score and its nonce [B, K], and the shift of each chain [chains, K]."""
        num_keys = len(self._coins)
        best, nonces = np.zeros((2, records, num_keys), dtype=np.int64)
        shifts = np.zeros((len(spoken), num_keys), dtype=np.int64)
        with self._decided(spoken):
            for keys, tables in self._in_turn(_longest(spoken), progress):
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
        best: NDArray[np.float64] = np.maximum(found.max(axis=1), 0.0)
        return best  # a chain of several may carry no mark

    def _decided(self, pieces: Sequence[NumberedChain | _Spoken]) -> AbstractContextManager[None]:
        """Decide about the compiled loops for all chains and all keys together."""
        letters = sum(piece.chain.length for piece in pieces)
        return together(*work(letters, len(self._coins) * self._nonces))

    def _spoken(self, readings: Sequence[Reading]) -> list[_Spoken]:
        return [
            _Spoken(record, *piece)
            for record, reading in enumerate(readings)
            for piece in self._reader.pieces(reading)
        ]

    def _by_key(self, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Split lanes into keys and nonces: [..., lanes] -> [..., keys, R]."""
        return lanes.reshape(*lanes.shape[:-1], -1, self._nonces)

    def _in_turn(
        self, longest: dict[int, int], progress: Progress | None, *, loose: bool = True
    ) -> Iterator[_Some]:
        """Yield the coins of all keys, some at a time, for chains up to a length by number."""
        reached = {
            number: blocks_reached(self._block, length, loose=loose)
            for number, length in longest.items()
        }
        kept = {number: self._planes_kept(number, blocks) for number, blocks in reached.items()}
        for turn, keys in enumerate(self._turns()):
            lanes = (keys.stop - keys.start) * self._nonces
            tables = {}
            for number, known in kept.items():
                blocks = reached[number]
                planes = known[turn] if known else self._planes(number, blocks, keys)
                tables[number] = pack_planes(
                    planes[..., :blocks], lanes, self._block, longest[number]
                )
            yield _Some(keys, tables)
            if progress is not None:
                progress(keys.stop, len(self._coins))

    def _planes_kept(self, chain: int, blocks: int) -> list[Planes]:
        """Return the coins of all keys for a chain's first blocks; none if there is no room."""
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


def _longest(pieces: Sequence[_Spoken | NumberedChain]) -> dict[int, int]:
    """Return the length of the longest chain of each number."""
    longest: dict[int, int] = {}
    for piece in pieces:
        longest[piece.number] = max(longest.get(piece.number, 0), piece.chain.length)
    return longest
