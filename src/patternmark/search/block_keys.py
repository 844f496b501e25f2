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

The coins of all keys are cached as bits if there is room; otherwise each batch derives them again.
A screen cannot make a p-value smaller: see `letter_keys`.
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

_MAX_CACHED_BYTES = 2**29  # if all coins take more, each batch derives them again
_BATCH_LANES = 64 * LANES  # lanes whose tables are made together: they should fit a CPU cache
_EXACT_KEYS = 256  # keys whose best stretch gets its exact ratio
_PREFIX_EDITED = 200  # positions of a chain that pick keys, for residues lost or inserted
_PREFIX = 120  # ... for chains of other numbers
_WHOLE_CHAIN_KEYS = 256  # keys of each further branch whose whole chains are scored
_PIECE_COMPONENTS = (Component(2, 0.004, "anywhere"), Component(2, 0.004, "inside"))

Planes = NDArray[np.uint64]


class _ScoredChain(NamedTuple):
    """A chain of a batch that has scored positions."""

    record: int
    number: int  # in its record
    chain: BlockChain


class _BranchChains(NamedTuple):
    """A branch of the detector for one record of a batch, and the chains that it scores."""

    record: int
    kind: int  # which of the record's other branches
    branch: Branch
    pieces: list[NumberedChain]  # numbered as in the design

    @property
    def pace(self) -> float:
        return self.branch.components[0].pace

    def prefixes(self) -> _BranchChains:
        """Return the same branch for the first letters of each chain."""
        letters = _PREFIX if self.pace == 1.0 else round(_PREFIX_EDITED * max(1.0, self.pace))
        return self._replace(
            pieces=[NumberedChain(n, chain.first(letters)) for n, chain in self.pieces]
        )

    def paths(self, tables: dict[int, Packed]) -> NDArray[np.int64]:
        """Score the best paths of all chains together: [lanes]."""
        return sum(
            (best_paths(chain, tables[number], self.pace) for number, chain in self.pieces),
            np.zeros((), dtype=np.int64),
        )


class _KeyBatch(NamedTuple):
    """A run of the keys, and the coins of their lanes by the number of the chain."""

    keys: slice
    tables: dict[int, Packed]


class BlockKeyScreen:
    """Scores the sequences of a batch under block keys of one profile."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._coins = [cast(BlockCoins, key.schedule) for key in keys]
        self._block, self._nonces = self._coins[0].block, self._coins[0].nonces
        self._reader = BlockStatistic.of(keys[0])
        whole_words = LANES // gcd(self._nonces, LANES)  # keys per run of full words
        self._batch_keys = max(1, _BATCH_LANES // self._nonces // whole_words) * whole_words
        self._cache: dict[int, list[Planes]] = {}
        self.stages = (
            Stage(self.from_start, 3),
            Stage(self.pieces, 1),
            Stage(self.other_branches, 1),
        )

    def prepare(self) -> None:
        """Do nothing: the number of blocks that are needed depends on the sequences."""

    def from_start(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key at its best nonce, each chain from its first block."""
        chains = self._scored_chains(readings)
        result = np.zeros((len(readings), len(self._coins), 1), dtype=np.float32)
        with self._loops_for_all(chains):
            for keys, tables in self._key_batches(_longest(chains), progress):
                total = np.zeros((len(readings), (keys.stop - keys.start) * self._nonces), np.int64)
                for record, number, chain in chains:
                    total[record] += best_paths(chain, tables[number])
                result[:, keys, 0] = self._by_key(total).max(axis=2)
        return result

    def pieces(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key by the exact ratio of its best stretches; -inf: not picked."""
        chains = self._scored_chains(readings)
        best, nonces, shifts = self._stretches(len(readings), chains, progress)
        result = np.full((*best.shape, 1), -np.inf, dtype=np.float32)
        for record, scores in enumerate(best):
            few = np.argsort(-scores, kind="stable")[:_EXACT_KEYS]
            result[record, few, 0] = 0.0
            for row, one in enumerate(chains):
                if one.record == record:
                    ratios = self._exact_ratios(one, few, nonces[record, few], shifts[row, few])
                    result[record, few, 0] += ratios
        return result

    def other_branches(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key under each further branch; -inf: not picked."""
        branches = self._other_branches(readings)
        kinds = max((branch.kind for branch in branches), default=0) + 1
        result = np.full((len(readings), len(self._coins), kinds), -np.inf, dtype=np.float32)
        prefixes = [branch.prefixes() for branch in branches]
        pieces = [piece for prefix in prefixes for piece in prefix.pieces]
        with self._loops_for_all(pieces):
            for keys, tables in self._key_batches(_longest(pieces), progress, loose=False):
                for prefix in prefixes:
                    best = self._by_key(prefix.paths(tables)).max(axis=1)
                    result[prefix.record, keys, prefix.kind] = best
        for branch in branches:
            scores = result[branch.record, :, branch.kind]  # a view
            few = np.argsort(-scores, kind="stable")[:_WHOLE_CHAIN_KEYS]
            scores[:] = -np.inf
            scores[few] = self._by_key(branch.paths(self._tables(few, branch.pieces))).max(axis=1)
        return result

    def _other_branches(self, readings: Sequence[Reading]) -> list[_BranchChains]:
        branches = []
        for record, reading in enumerate(readings):
            pieces = self._reader.pieces(reading)
            for kind, branch in enumerate(self._reader.branches(reading)[1:]):
                chains = [
                    NumberedChain(n + branch.shift, chain)
                    for n, chain in branch.chains_in_design(pieces)
                ]
                if chains:
                    branches.append(_BranchChains(record, kind, branch, chains))
        return branches

    def _tables(self, keys: NDArray[np.int64], chains: list[NumberedChain]) -> dict[int, Packed]:
        """Return the coins of a few keys for whole chains."""
        tables = {}
        for number, chain in chains:
            blocks = blocks_reached(self._block, chain.length, loose=False)
            words = [self._coins[key].words(number, blocks) for key in keys.tolist()]
            tables[number] = pack(np.concatenate(words, axis=1), self._block, chain.length)
        return tables

    def _stretches(
        self, records: int, chains: Sequence[_ScoredChain], progress: Progress | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the best score and its nonce [B, K], and the shift of each chain [chains, K]."""
        num_keys = len(self._coins)
        best, nonces = np.zeros((2, records, num_keys), dtype=np.int64)
        shifts = np.zeros((len(chains), num_keys), dtype=np.int64)
        with self._loops_for_all(chains):
            for keys, tables in self._key_batches(_longest(chains), progress):
                total = np.zeros((records, (keys.stop - keys.start) * self._nonces), np.int64)
                places = []
                for record, number, chain in chains:
                    scores, place = best_stretches(chain, tables[number])
                    total[record] += scores
                    places.append(self._by_key(place))
                best[:, keys] = self._by_key(total).max(axis=2)
                nonces[:, keys] = self._by_key(total).argmax(axis=2)
                for row, (one, place) in enumerate(zip(chains, places, strict=True)):
                    chosen = nonces[one.record, keys, None]
                    shifts[row, keys] = np.take_along_axis(place, chosen, axis=1)[:, 0]
        return best, nonces, shifts

    def _exact_ratios(
        self,
        scored: _ScoredChain,
        keys: NDArray[np.int64],
        nonces: NDArray[np.int64],
        shifts: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return ln of the ratio of a chain under some keys, each with a nonce and a shift."""
        blocks = num_blocks(scored.chain.length, self._block, _PIECE_COMPONENTS)
        words = np.stack(
            [
                self._coins[key].words(scored.number, blocks)[:, nonce]
                for key, nonce in zip(keys.tolist(), nonces.tolist(), strict=True)
            ]
        )
        looks = [
            Look(component, np.array([row]), shift)
            for row, shift in enumerate(shifts.tolist())
            for component in range(len(_PIECE_COMPONENTS))
        ]
        found = log_ratios(scored.chain, halves_of(words), self._block, _PIECE_COMPONENTS, looks)
        best: NDArray[np.float64] = np.maximum(found.max(axis=1), 0.0)
        return best  # 0 at least: one of several chains may carry no mark

    def _loops_for_all(
        self, pieces: Sequence[NumberedChain | _ScoredChain]
    ) -> AbstractContextManager[None]:
        """Decide once, for all chains and keys together, whether to use the compiled loops."""
        letters = sum(piece.chain.length for piece in pieces)
        return together(*work(letters, len(self._coins) * self._nonces))

    def _scored_chains(self, readings: Sequence[Reading]) -> list[_ScoredChain]:
        return [
            _ScoredChain(record, *piece)
            for record, reading in enumerate(readings)
            for piece in self._reader.pieces(reading)
        ]

    def _by_key(self, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Split lanes into keys and nonces: [..., lanes] -> [..., keys, R]."""
        return lanes.reshape(*lanes.shape[:-1], -1, self._nonces)

    def _key_batches(
        self, longest: dict[int, int], progress: Progress | None, *, loose: bool = True
    ) -> Iterator[_KeyBatch]:
        """Yield all keys in batches; `longest`: greatest length of the chains of each number."""
        reached = {
            number: blocks_reached(self._block, length, loose=loose)
            for number, length in longest.items()
        }
        cached = {number: self._cached_planes(number, blocks) for number, blocks in reached.items()}
        for batch, keys in enumerate(self._slices()):
            lanes = (keys.stop - keys.start) * self._nonces
            tables = {}
            for number, known in cached.items():
                blocks = reached[number]
                planes = known[batch] if known else self._planes(number, blocks, keys)
                tables[number] = pack_planes(
                    planes[..., :blocks], lanes, self._block, longest[number]
                )
            yield _KeyBatch(keys, tables)
            if progress is not None:
                progress(keys.stop, len(self._coins))

    def _cached_planes(self, chain: int, blocks: int) -> list[Planes]:
        """Return the coins of all keys for a chain's first blocks, or [] if there is no room."""
        known = self._cache.get(chain, [])
        if known and known[0].shape[2] >= blocks:
            return known
        others = sum(one.nbytes for c, held in self._cache.items() if c != chain for one in held)
        bits = len(PROTEIN_PAIRS) * blocks * len(self._coins) * self._nonces
        if others + bits // 8 > _MAX_CACHED_BYTES:
            return []
        self._cache[chain] = [self._planes(chain, blocks, keys) for keys in self._slices()]
        return self._cache[chain]

    def _planes(self, chain: int, blocks: int, keys: slice) -> Planes:
        words = [coins.words(chain, blocks) for coins in self._coins[keys]]
        return coin_planes(np.concatenate(words, axis=1))

    def _slices(self) -> Iterator[slice]:
        for at in range(0, len(self._coins), self._batch_keys):
            yield slice(at, min(at + self._batch_keys, len(self._coins)))


def _longest(pieces: Sequence[_ScoredChain | NumberedChain]) -> dict[int, int]:
    """Return the length of the longest chain of each number."""
    longest: dict[int, int] = {}
    for piece in pieces:
        longest[piece.number] = max(longest.get(piece.number, 0), piece.chain.length)
    return longest
