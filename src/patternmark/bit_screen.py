"""Many hardened keys against one sequence at once, straight from their secret bits.

A symbol speaks for one value of one bit, that of its block and pair. So what a sequence is worth
under a start is linear in the bits: a coefficient for each of them, and a start only moves the
coefficients on by whole blocks. Two stages, each for the keys that the one before did not find:

- from the starts: what every byte of bits is worth under every start is looked up in a table.
  10,000 keys of 64 nonces take less than a second. It finds what is intact;
- anywhere: every phase of the whole and of its parts (`phases.PartScreen`). It takes thirty times
  as long, and finds what lost or gained symbols, or was cut out of something longer.

A screen is only a screen: see `screen`. Nothing but whole numbers is added up, so that numba and
numpy find the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from patternmark.compiled import STARTS_AT_ONCE, kernels
from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.blocks import protein_pairs
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.reading import Reading
from patternmark.core.turns import TurnSchedule
from patternmark.phases import PartScreen, rounded
from patternmark.rates import agreement_rates
from patternmark.screen import LEVEL

_KEPT_BYTES = 2**30  # bits up to this size are kept; more are derived anew for every batch
_BYTES_AT_ONCE = 2**23  # of bits that are derived or unpacked together
_SCHEDULES_AT_ONCE = 64  # that are laid out together: they should fit a cache
_PER_BYTE = 16  # additions that take numpy as long as one byte of bits
_MOST = 2**16 - 1  # that a start may be worth

Progress = Callable[[int, int], None]  # keys that are done, and all


class BitScreen:
    """Scores the sequences of a batch under keys of one hardened profile of proteins."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        self._profile = profile = self._keys[0].profile
        schedule = self._keys[0].schedule
        assert isinstance(schedule, HardenedSchedule)  # noqa: S101
        self._schedule = schedule
        self._pairs = len(protein_pairs())
        self._width = -(-self._schedule.bits // 32) * 4  # bytes: the loops take four at once
        self._rows = _rows_of_symbols(profile)
        rates = agreement_rates(profile.alphabet, profile.scheme)[LEVEL]
        self._agreeing, self._other = np.log(2.0 * rates), np.log(2.0 * (1.0 - rates))
        self._is_kept = len(keys) * profile.nonces * self._width <= _KEPT_BYTES
        self._kept: NDArray[np.uint8] | None = None

    @staticmethod
    def serves(profile: Profile) -> bool:
        """Whether it knows the keys' pairs: other alphabets have other pairs for each nonce."""
        return profile.is_hardened and profile.alphabet == PROTEIN

    @property
    def has_whole_shifts(self) -> bool:
        """Whether starts lie whole blocks apart, so that they can be scored on their own."""
        return self._profile.period // self._profile.starts % self._profile.block == 0

    def prepare(self) -> None:
        """Derive the bits now, if they are kept at all."""
        if self._is_kept and self._kept is None:
            self._kept = self._derived(self._keys)

    def from_starts(self, readings: Sequence[Reading]) -> NDArray[np.int64]:
        """Score every record and key by the best nonce, each chain at its best start: [B, K]."""
        result = np.zeros((len(readings), len(self._keys)), dtype=np.int64)
        worth = [StartWorth(self.coefficients(r), self._width) for r in readings]
        at_once = _BYTES_AT_ONCE // (self._profile.nonces * self._width)
        for keys, bits in self._blocks(len(self._keys) if self._is_kept else at_once):
            for record, best in enumerate(worth):
                by_nonce = best(bits).reshape(-1, self._profile.nonces)
                result[record, keys] = by_nonce.max(axis=1)
        return result

    def anywhere(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """Score every record and key by the best nonce, each chain at its best phase: [B, K]."""
        result = np.zeros((len(readings), len(self._keys)), dtype=np.int64)
        parts = [(record, part) for record, r in enumerate(readings) for part in r.parts]
        if not parts:
            return result
        symbols = np.full((len(parts), max(len(part) for _, part in parts)), UNREAD)
        for row, (_, part) in enumerate(parts):
            symbols[row, : len(part)] = self._rows[part]
        record_of = np.array([record for record, _ in parts])
        laid_out = _Windows(self._profile, self._agreeing, self._other)
        for keys, bits in self._blocks(_SCHEDULES_AT_ONCE // self._profile.nonces):
            screen = PartScreen(laid_out(bits), laid_out.scale, self._schedule.starts)
            best = screen.best_in_part(symbols)  # [parts, keys * R]
            whole = np.zeros((len(readings), best.shape[1]), dtype=np.int64)
            np.add.at(whole, record_of, best)
            by_nonce = whole.reshape(len(readings), -1, self._profile.nonces)
            result[:, keys] = by_nonce.max(axis=2)
            if progress is not None:
                progress(keys.stop, len(self._keys))
        return result

    def coefficients(self, reading: Reading) -> NDArray[np.float64]:
        """Return what each chain says of every bit, 1 or 0, under each start: [chains, bits, S].

        A bit that is 1 adds its coefficient to ln LR (but for a constant), 0 takes it away.
        """
        profile = self._profile
        half = np.append((self._agreeing - self._other) / 2.0, 0.0)  # UNREAD says nothing
        blocks = profile.period // profile.block
        said = np.zeros((len(reading.parts), blocks, self._pairs + 1))  # UNREAD has the last pair
        for chain, part in zip(said, reading.parts, strict=True):
            place = np.arange(len(part)) % profile.period
            row = self._rows[part]
            # The first symbol of a pair follows the bit, the second does not, nor do either when
            # every second key of a block promotes the complement.
            sign = np.where((row >= self._pairs) ^ (place % 2 == 1), -1.0, 1.0)
            pair = np.where(part == UNREAD, self._pairs, row % self._pairs)
            np.add.at(chain, (place // profile.block, pair), sign * half[part])
        shifts = self._schedule.starts // profile.block
        moved = [np.roll(said[..., :-1], shift, axis=1) for shift in shifts]
        return np.stack(moved, axis=-1).reshape(len(said), self._schedule.bits, len(shifts))

    def _blocks(self, at_once: int) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        """Yield some keys at a time, and their bits: [keys * R, bytes]."""
        self.prepare()
        for at in range(0, len(self._keys), max(1, at_once)):
            keys = slice(at, min(at + max(1, at_once), len(self._keys)))
            if self._kept is None:
                yield keys, self._derived(self._keys[keys])
            else:
                nonces = self._profile.nonces
                yield keys, self._kept[keys.start * nonces : keys.stop * nonces]

    def _derived(self, keys: Sequence[Key]) -> NDArray[np.uint8]:
        bits = np.zeros((len(keys), self._profile.nonces, self._width), dtype=np.uint8)
        for row, key in zip(bits, keys, strict=True):
            made = self._schedule.bits_of(key.require_secret())
            row[:, : made.shape[1]] = made
        return bits.reshape(-1, self._width)


def _rows_of_symbols(profile: Profile) -> NDArray[np.int64]:
    """Name symbols by pair: firsts, then seconds; what is in no pair, UNREAD too, is UNREAD."""
    rows = np.full(profile.alphabet.size + 1, UNREAD)
    rows[protein_pairs().T.ravel()] = np.arange(protein_pairs().size)
    return rows


class _Windows:
    """Lays schedules out for `PartScreen`, for symbols as `_rows_of_symbols` names them.

    Keys of a block take turns, so that one bit decides over whole words of values.
    """

    def __init__(
        self, profile: Profile, agreeing: NDArray[np.float64], other: NDArray[np.float64]
    ) -> None:
        self._period, self._blocks = profile.period, profile.period // profile.block
        together = gcd(profile.block, 8)  # keys: two, four or eight
        values, self.scale = rounded(np.stack([agreeing, other])[:, protein_pairs().T])
        agrees, differs = np.repeat(values[..., None], together, axis=3)  # [2, pairs, keys] each
        # By which key each symbol is promoted where the bit is 1: firsts and seconds take turns.
        is_promoted = (np.arange(together) % 2 == np.arange(2)[:, None])[:, None]
        word = np.dtype(f"u{together}")
        self._zero = np.where(is_promoted, differs, agrees).view(word)  # [2, pairs, 1]
        self._step = np.where(is_promoted, agrees, differs).view(word) - self._zero
        self._memory = np.zeros((0, 0, 0), dtype=np.int8)

    def __call__(self, bits: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Return [S, symbols + 1, 2P], good until the next call: fresh memory is slow."""
        pairs, word = self._zero.shape[1], self._zero.dtype
        unpacked = np.unpackbits(bits, axis=1, count=self._blocks * pairs)
        by_pair = unpacked.reshape(-1, self._blocks, pairs).transpose(0, 2, 1).astype(word)
        words = self._period // word.itemsize
        chosen = np.repeat(by_pair, words // self._blocks, axis=2)
        if len(self._memory) < len(bits):
            self._memory = np.zeros((len(bits), 2 * pairs + 1, 2 * self._period), dtype=np.int8)
        windows = self._memory[: len(bits)]
        for half in (0, 1):
            some = windows[:, half * pairs : (half + 1) * pairs].view(word)
            np.multiply(chosen, self._step[half], out=some[..., :words])
            some[..., :words] += self._zero[half]
            some[..., words:] = some[..., :words]
        return windows


class StartWorth:
    """What schedules are worth to one record, the best start of each of its chains taken.

    Coefficients become whole numbers, as large as 16 bits allow: all sums are exact. To each sum
    that of their sizes is added, the same for all starts and keys, so that none is negative.
    """

    def __init__(self, coefficients: NDArray[np.float64], width: int) -> None:
        """`coefficients` are [chains, bits, starts]; schedules have `width` bytes."""
        chains, bits, starts = coefficients.shape
        largest = np.abs(coefficients).sum(axis=1).max(initial=1e-9)
        whole = np.trunc(coefficients * (_MOST / 2 / largest))  # towards zero: within bounds
        filled = -(-starts // STARTS_AT_ONCE) * STARTS_AT_ONCE
        self._weights = np.zeros((chains, width * 8, filled), dtype=np.float32)
        self._weights[:, :bits, :starts] = whole
        self._weights[:, :bits, starts:] = whole[..., :1]  # what fills up changes no maximum

    def __call__(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the worth of each schedule: [S, bytes] -> [S]."""
        best = np.zeros(len(bits), dtype=np.int64)
        loops = kernels(len(self._weights) * bits.size * _PER_BYTE)
        if loops is not None:
            loops.best_starts(bits, self._tables, best)
            return best
        rows = max(1, _BYTES_AT_ONCE // self._weights.shape[1])
        for at in range(0, len(bits), rows):
            unpacked = np.unpackbits(bits[at : at + rows], axis=1).astype(np.float32)
            for weights in self._weights:
                offset = np.abs(weights[:, 0]).sum() - weights[:, 0].sum()
                top = (unpacked @ weights).max(axis=1)  # floats hold sums below 2^24 exactly
                best[at : at + rows] += (2.0 * top + offset).astype(np.int64)
        return best

    @cached_property
    def _tables(self) -> NDArray[np.uint64]:
        """What bytes are worth, four starts to a word: [chains, groups, bytes, 256, 4].

        Sums of starts stay below 2^16: in a word, none runs over into the next.
        """
        chains, bits, starts = self._weights.shape
        of_byte = self._weights.reshape(chains, bits // 8, 8, starts)
        octets = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # [256, 8]
        signs = 2.0 * octets.astype(np.float32) - 1.0
        worth = signs @ of_byte + np.abs(of_byte).sum(axis=2, keepdims=True)
        groups = (starts // STARTS_AT_ONCE, STARTS_AT_ONCE)
        grouped = worth.astype(np.uint16).reshape(*worth.shape[:3], *groups)
        return np.ascontiguousarray(grouped.transpose(0, 3, 1, 2, 4)).view(np.uint64)
