"""Many block keys against one sequence at once, straight from the coins of their blocks.

Ten coins of a block are one word, and what a piece of a sequence is worth depends on the block's
word alone. Three stages, each for the sequences that the stages before did not give to a key:

- intact: every block sees its own three letters. What each of the 1,024 words is worth is looked up
  in a table: the exact ratio of the path without slips, for every key and nonce;
- slipped: letters were lost or inserted, so that the sequence drifts against its blocks. Agreeing
  letters of short segments are counted under every shift, and a path over segments may change its
  shift at a cost;
- elsewhere: a piece cut out of a design, or a design inside something longer. The best run of
  segments under any one shift counts.

Counts of the last two come from bit planes: one bit for each key and nonce, added up by the logic
of adders, 64 in each word of the machine. A screen is only a screen: see `screen`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.blocks import PROTEIN_PAIRS, pair_of_letter, side_of_letter
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks
from patternmark.rates import agreement_rates
from patternmark.screen import Progress, Stage
from patternmark.statistics.block_paths import FIRST_POSITIONS

LEVEL = 2  # the strength that is looked for: delta 1
_PAIRS = len(PROTEIN_PAIRS)
_KEPT_BYTES = 2**30  # coins up to this size are kept; more are derived for every batch
_LANES = 2**15  # keys times nonces that are scored together: they should fit a cache
_SEGMENT = 32  # positions whose agreeing letters are counted together
_LEAST_RATE = 0.62  # letters that agree less often say too little to be counted
_AGREES, _SCORED = 5, 3  # a segment is worth 5 for each agreement, less 3 for each counted letter
_DRIFT = 20  # positions that a sequence may drift against its blocks
_SLIP = (0, 14, 22)  # what a change of the shift by 0, 1, 2 positions costs
_STEP = (
    2  # between shifts that are tried elsewhere: a shift one off agrees with two letters of three
)


class _Words(Protocol):
    block: int
    nonces: int

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain: [blocks, R]."""


class WordScreen:
    """Scores the sequences of a batch under block keys of one profile."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._schedules = [cast(_Words, key.schedule) for key in keys]
        self._block, self._nonces = self._schedules[0].block, self._schedules[0].nonces
        rates = agreement_rates(PROTEIN, Blocks.name)[LEVEL]
        self._log_odds = np.append(np.log(rates / (1.0 - rates)), 0.0)  # UNREAD is worth nothing
        self._is_counted = np.append(rates >= _LEAST_RATE, False)
        self._kept: dict[int, NDArray[np.uint16]] = {}
        self.stages = (Stage(self.intact, 3), Stage(self.slipped, 1), Stage(self.elsewhere, 1))

    def prepare(self) -> None:
        """Do nothing: how many blocks are needed, the sequences say."""

    def intact(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key by the best nonce, every chain from its first block."""
        del progress
        return self._of_chains(readings, _Intact(self._block, self._log_odds))

    def slipped(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score them by the best path that begins near the first block and drifts a little."""
        shifts = np.arange(-_DRIFT, _DRIFT + 1)
        rule = _Counted(self._block, self._is_counted, shifts, drifts=True)
        return self._of_chains(readings, rule, progress)

    def elsewhere(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score them by the best run of segments under any one shift."""
        longest = max((len(part) for r in readings for part in r.parts), default=0)
        shifts = np.arange(_SEGMENT - longest, FIRST_POSITIONS, _STEP)
        rule = _Counted(self._block, self._is_counted, shifts, drifts=False)
        return self._of_chains(readings, rule, progress)

    def _of_chains(
        self, readings: Sequence[Reading], rule: _Rule, progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Add up the chains of a record, and take the best nonce: [B, K, 1]."""
        result = np.zeros((len(readings), len(self._schedules), 1), dtype=np.float32)
        chains = _spoken(readings)
        longest: dict[int, int] = {}
        for _, number, symbols in chains:
            longest[number] = max(longest.get(number, 0), rule.blocks(len(symbols)))
        at_once = max(1, _LANES // self._nonces)
        for at in range(0, len(self._schedules), at_once):
            keys = slice(at, min(at + at_once, len(self._schedules)))
            laid_out = {
                number: rule.laid_out(self._words(number, blocks, keys))
                for number, blocks in longest.items()
            }
            total = np.zeros((len(readings), (keys.stop - at) * self._nonces), dtype=np.float32)
            for record, number, symbols in chains:
                scores = rule.scores(symbols, laid_out[number])
                total[record] += scores[: total.shape[1]]
            result[:, keys, 0] = total.reshape(len(readings), -1, self._nonces).max(axis=2)
            if progress is not None:
                progress(keys.stop, len(self._schedules))
        return result

    def _words(self, chain: int, blocks: int, keys: slice) -> NDArray[np.uint16]:
        """Return the coins of some keys: [blocks, keys * R]."""
        nonces = self._nonces
        known = self._kept.get(chain)
        if known is None or len(known) < blocks:
            others = sum(len(kept) for number, kept in self._kept.items() if number != chain)
            size = 2 * (others + blocks) * len(self._schedules) * nonces
            if size > _KEPT_BYTES:
                return self._derived(chain, blocks, keys)
            known = self._kept[chain] = self._derived(chain, blocks, slice(None))
        stop = keys.stop * nonces
        return known[:blocks, keys.start * nonces : stop]

    def _derived(self, chain: int, blocks: int, keys: slice) -> NDArray[np.uint16]:
        some = self._schedules[keys]
        words = np.empty((blocks, len(some) * self._nonces), dtype=np.uint16)
        for number, schedule in enumerate(some):
            own = schedule.words(chain, blocks) & np.uint16(2**_PAIRS - 1)
            words[:, number * self._nonces : (number + 1) * self._nonces] = own
        return words


class _Rule(Protocol):
    """How a stage scores a chain."""

    def blocks(self, length: int) -> int:
        """Return how many blocks a chain of a length may meet."""

    def laid_out(self, words: NDArray[np.uint16]) -> NDArray[np.uint16] | NDArray[np.uint64]:
        """Bring coins [blocks, lanes] into the shape that `scores` takes."""

    def scores(
        self, symbols: NDArray[np.int64], coins: NDArray[np.uint16] | NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        """Return the score of a chain in every lane, and of lanes that fill a word up."""


def _spoken(readings: Sequence[Reading]) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Return record, number in it, and symbols of every chain that says something."""
    return [
        (record, number, reading.symbols[rows])
        for record, reading in enumerate(readings)
        for number, rows in enumerate(reading.chains)
        if np.any(reading.symbols[rows] != UNREAD)
    ]


class _Intact:
    """The exact ratio of the path on which no letter was lost or inserted."""

    def __init__(self, block: int, log_odds: NDArray[np.float64]) -> None:
        self._block, self._log_odds = block, log_odds

    def blocks(self, length: int) -> int:
        return ceil(length / self._block)

    def laid_out(self, words: NDArray[np.uint16]) -> NDArray[np.uint16]:
        return words

    def scores(
        self, symbols: NDArray[np.int64], coins: NDArray[np.uint16] | NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        total = np.zeros(coins.shape[1], dtype=np.float32)
        worth = np.empty_like(total)
        for table, words in zip(self.tables(symbols), coins, strict=False):
            np.take(table, words, out=worth, mode="clip")
            total += worth
        return total

    def tables(self, symbols: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return ln of the ratio of each block's piece for every word: [blocks, 1024]."""
        blocks = self.blocks(len(symbols))
        sums = np.zeros((blocks, _PAIRS))
        read = np.flatnonzero(symbols != UNREAD)
        letters = symbols[read]
        signed = self._log_odds[letters] * side_of_letter()[letters]
        np.add.at(sums, (read // self._block, pair_of_letter()[letters]), signed / 2.0)
        words = np.arange(2**_PAIRS)[:, None] >> np.arange(_PAIRS)
        signs = 2.0 * (words & 1) - 1.0  # [1024, pairs]
        means = np.log(np.cosh(sums)).sum(axis=1)[:, None]
        return np.asarray(sums @ signs.T - means, dtype=np.float32)


class _Counted:
    """Agreeing letters of segments under many shifts, and the best path over segments."""

    def __init__(
        self,
        block: int,
        is_counted: NDArray[np.bool_],
        shifts: NDArray[np.int64],
        *,
        drifts: bool,
    ) -> None:
        self._block, self._is_counted = block, is_counted
        self._shifts, self._drifts = shifts, drifts

    def blocks(self, length: int) -> int:
        return ceil(max(length + int(self._shifts[-1]), 1) / self._block)

    def laid_out(self, words: NDArray[np.uint16]) -> NDArray[np.uint64]:
        """Return one bit for each lane, block and pair: [blocks, pairs, lanes / 64]."""
        lanes = words.shape[1]
        planes = np.zeros((len(words), _PAIRS, -(-lanes // 64) * 8), dtype=np.uint8)
        for pair in range(_PAIRS):
            bits = (words & np.uint16(1 << pair)) != 0
            packed = np.packbits(bits, axis=1, bitorder="little")
            planes[:, pair, : packed.shape[1]] = packed
        return planes.view(np.uint64)

    def scores(
        self, symbols: NDArray[np.int64], coins: NDArray[np.uint16] | NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        planes = cast("NDArray[np.uint64]", coins)
        segments = [
            np.flatnonzero(self._is_counted[symbols[at : at + _SEGMENT]]) + at
            for at in range(0, len(symbols), _SEGMENT)
        ]
        best = self._along_paths if self._drifts else self._best_run
        lanes = planes.shape[2] * 64
        return best(symbols, segments, planes, lanes).astype(np.float32)

    def _along_paths(
        self,
        symbols: NDArray[np.int64],
        segments: list[NDArray[np.int64]],
        planes: NDArray[np.uint64],
        lanes: int,
    ) -> NDArray[np.int16]:
        """Let a path change its shift between segments: [lanes]."""
        state = np.empty((len(self._shifts), lanes), dtype=np.int16)
        state[:] = -_SLIP[1] * np.abs(self._shifts)[:, None]
        best = np.zeros(lanes, dtype=np.int16)
        for segment in segments:
            moved = state.copy()
            for step in range(1, len(_SLIP)):
                np.maximum(moved[step:], state[:-step] - _SLIP[step], out=moved[step:])
                np.maximum(moved[:-step], state[step:] - _SLIP[step], out=moved[:-step])
            for row, shift in enumerate(self._shifts.tolist()):
                moved[row] += self._gains(symbols, segment, planes, shift)
            state = moved
            np.maximum(best, state.max(axis=0), out=best)
        return best

    def _best_run(
        self,
        symbols: NDArray[np.int64],
        segments: list[NDArray[np.int64]],
        planes: NDArray[np.uint64],
        lanes: int,
    ) -> NDArray[np.int16]:
        """Return the best sum over segments in a row under one shift: [lanes]."""
        best = np.zeros(lanes, dtype=np.int16)
        for shift in self._shifts.tolist():
            run = np.zeros(lanes, dtype=np.int16)
            for segment in segments:
                if len(segment) and segment[-1] + shift >= 0:
                    np.maximum(run, 0, out=run)
                    run += self._gains(symbols, segment, planes, shift)
                    np.maximum(best, run, out=best)
        return best

    def _gains(
        self,
        symbols: NDArray[np.int64],
        segment: NDArray[np.int64],
        planes: NDArray[np.uint64],
        shift: int,
    ) -> NDArray[np.int16]:
        """Return what a segment is worth under a shift: [lanes]."""
        inside = segment[segment + shift >= 0]
        letters = symbols[inside]
        agrees = planes[(inside + shift) // self._block, pair_of_letter()[letters]]
        agrees ^= np.where(side_of_letter()[letters] < 0, ~np.uint64(0), np.uint64(0))[:, None]
        counts = added_up(agrees)
        return counts.astype(np.int16) * np.int16(_AGREES) - np.int16(_SCORED * len(inside))


def added_up(planes: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Count the bits of each lane over up to 255 planes: [m, W] -> [64 W]."""
    counts = np.zeros(planes.shape[1] * 64, dtype=np.uint8)
    for plane in reversed(list(_sum_planes(planes))):
        counts += counts  # what came before has twice the weight
        counts += np.unpackbits(plane.view(np.uint8), bitorder="little")
    return counts


def _sum_planes(planes: NDArray[np.uint64]) -> Iterator[NDArray[np.uint64]]:
    """Yield the planes of the sum, the lowest first: three of a weight become one and a carry."""
    while len(planes):
        carries = []
        while len(planes) > 1:
            thirds = max(len(planes) // 3, 1)
            one, two = planes[:thirds], planes[thirds : 2 * thirds]
            three = planes[2 * thirds : 3 * thirds]
            both = one ^ two
            carry = one & two
            if len(three):
                carry |= both & three
                both = both ^ three
            carries.append(carry)
            planes = np.concatenate([both, planes[3 * thirds :]])
        yield planes[0]
        planes = np.concatenate(carries) if carries else planes[:0]
