"""Sums of the values of symbols under every phase of a schedule that repeats.

A phase says where in the period a sequence begins. On a path without slips, the symbol at position
i has key (phase + i) mod P, so the sums of all phases are a correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SMALL_ALPHABET, UNREAD
from patternmark.fast.compiled import kernels

Value = TypeVar("Value", bound=np.generic)
_BLOCK = 32  # positions; a mark may show only in a run of some blocks
MAX_QUANTISED = 31  # 4 * 31 = 124 <= int8 max, so a loop may add four values without overflow
_MAX_BYTES = 2**25  # memory for sums that are computed together
_STEP = 2.0**-20  # values are rounded down to multiples of this


def last_read(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the length of each row up to its last symbol that is not UNREAD: [B, n] -> [B]."""
    places = np.arange(1, symbols.shape[1] + 1)
    return np.asarray(np.max(np.where(symbols != UNREAD, places, 0), axis=1, initial=0))


def double_period(values: NDArray[Value]) -> NDArray[Value]:
    """Repeat values along the period, symbols first: [..., P, V + 1] -> [..., V + 1, 2P]."""
    by_symbol = np.moveaxis(values, -1, -2)
    return np.ascontiguousarray(np.concatenate([by_symbol, by_symbol], axis=-1))


def values_by_key(keyed: NDArray[np.bool_], values: tuple[NDArray[Value], ...]) -> NDArray[Value]:
    """Return the value of each symbol under each key, with the period repeated: [V + 1, 2P].

    `keyed` [V + 1, 2P] says which symbols each key promotes. `values` are two arrays, for symbols
    that agree and for others: [P, V + 1], or [1, V + 1] if all keys have the same values.
    """
    kind = values[0].dtype
    word = f"u{kind.itemsize}"
    agree, disagree = ((v.T if len(v) == 1 else double_period(v)).view(word) for v in values)
    # This is np.where on the bits: as a product it is ten times as fast.
    chosen = keyed.astype(word)
    chosen *= agree ^ disagree
    chosen ^= disagree
    return chosen.view(kind)


def round_down(logs: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round down to multiples of 2^-20: then sums are exact, in any order.

    Rounding logarithms of factors down makes a likelihood ratio smaller, so it stays valid.
    """
    return np.asarray(np.floor(logs / _STEP) * _STEP, dtype=np.float32)


class PhaseSums:
    """Sums of `values` [R, P, V + 1] under every phase of every nonce; UNREAD adds nothing."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.nonces, self.period, self._symbols = values.shape
        self._transform = np.fft.rfft(values[..., :-1], axis=1).transpose(1, 0, 2)  # [., R, V]

    def __call__(self, symbols: NDArray[np.int64], first: int = 0) -> NDArray[np.float64]:
        """Return [B, R, P] for symbols [B, n] padded with UNREAD, the first at position `first`."""
        batch, length = symbols.shape
        counts = np.zeros((batch, self.period, self._symbols))
        place = (first + np.arange(length)) % self.period
        np.add.at(counts, (np.arange(batch)[:, None], place[None], symbols), 1.0)
        seen = np.fft.rfft(counts[..., :-1], axis=1).conj().transpose(1, 2, 0)  # [P/2+1, V, B]
        products = self._transform @ seen  # [P/2 + 1, R, B]
        return np.fft.irfft(products, n=self.period, axis=0).transpose(2, 1, 0)


def add_windows(
    windows: NDArray[np.int8], symbols: NDArray[np.int64], first: int = 0
) -> NDArray[np.int64]:
    """Do what `PhaseSums` does, for whole numbers of `double_period` [R, V + 1, 2P]: [B, R, P].

    With many symbols this is faster than transforms, whose time grows with their number.
    """
    nonces, period = windows.shape[0], windows.shape[2] // 2
    sums = np.zeros((nonces, len(symbols), period), dtype=np.int32)
    for place, column in enumerate(symbols.T, start=first):
        sums += windows[:, :, place % period : place % period + period][:, column]
    return sums.transpose(1, 0, 2).astype(np.int64)


def quantise(log_factors: NDArray[np.float64]) -> tuple[NDArray[np.int8], float]:
    """Scale values to whole numbers from -31 to 31; return these and the scale."""
    scale = MAX_QUANTISED / max(float(np.abs(log_factors).max()), 1e-9)
    return np.rint(log_factors * scale).astype(np.int8), scale


class PartScreen:
    """How well the best phase of some part of the sequence fits each of many schedules.

    A lost symbol moves all later symbols to another phase, and their sum under the first phase is
    low: over the whole sequence, the right schedule may look no better than others. Values are
    whole numbers, so that rounding never decides between equal schedules. A phase that is a start
    gets a bonus of ln(phases per start), because there are fewer starts than phases.
    """

    def __init__(self, windows: NDArray[np.int8], scale: float, starts: NDArray[np.int64]) -> None:
        """`windows` [R, V + 1, 2P] are values of `quantise` after `double_period`.

        `starts` must be evenly spaced.
        """
        self.nonces, self._period = windows.shape[0], windows.shape[2] // 2
        self._windows, self._starts = windows, starts
        self._bonus = int(np.rint(scale * np.log(self._period / len(starts))))

    def best_in_part(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each schedule's best sum over any run of blocks: [B, n] -> [B, R]."""
        loops = kernels(symbols.size * self.nonces * self._period)
        if loops is None:
            return self._in_parts(symbols)
        best = np.zeros((len(symbols), self.nonces), dtype=np.int64)
        share = self._period // len(self._starts)
        lasts = last_read(symbols)
        rule = (_BLOCK, share, self._bonus)
        loops.best_in_part(self._windows, pad_to_fours(symbols), lasts, *rule, best)
        return best

    def _in_parts(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = max(1, _MAX_BYTES // (8 * self.nonces * self._period))
        parts = [self._some(symbols[at : at + rows]) for at in range(0, len(symbols), rows)]
        return np.concatenate(parts) if parts else np.zeros((0, self.nonces), dtype=np.int64)

    def _some(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        best = np.zeros((len(symbols), self.nonces), dtype=np.int64)
        shape = (len(symbols), self.nonces, self._period)
        whole, run = np.zeros((2, *shape), dtype=np.int64)
        for block in self._blocks(symbols):
            whole += block
            run = np.maximum(run, 0) + block
            best = np.maximum(best, run.max(axis=2))
        from_start = whole[..., self._starts].max(axis=2) + self._bonus
        return np.asarray(np.maximum(best, from_start))

    def _blocks(self, symbols: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        for first in range(0, symbols.shape[1], _BLOCK):
            yield self._sums(symbols[:, first : first + _BLOCK], first)

    @cached_property
    def _sums(self) -> Callable[[NDArray[np.int64], int], NDArray[np.int64]]:
        return whole_sums(self._windows)


def whole_sums(
    windows: NDArray[np.int8],
) -> Callable[[NDArray[np.int64], int], NDArray[np.int64]]:
    """Return the faster of two functions that add up whole numbers of `double_period`."""
    if windows.shape[1] > SMALL_ALPHABET:
        return partial(add_windows, windows)
    once = np.moveaxis(windows[..., : windows.shape[2] // 2], 1, 2)
    sums = PhaseSums(once.astype(np.float64))
    return lambda symbols, first: np.rint(sums(symbols, first)).astype(np.int64)


def pad_to_fours(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pad rows with UNREAD to a length that is a multiple of four: [B, n]."""
    spare = -symbols.shape[1] % 4
    return np.pad(symbols, ((0, 0), (0, spare)), constant_values=UNREAD) if spare else symbols
