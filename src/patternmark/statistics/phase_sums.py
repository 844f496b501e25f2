"""What symbols are worth under every phase of a schedule that repeats, added up.

A phase says where in the period a sequence begins. Along a path that never slips a symbol at
position i meets key (phase + i) mod P, so all phases at once are a correlation.
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
_BLOCK = 32  # positions; a nonce may show in a run of some blocks alone
_LARGEST = 31  # of a rounded value: four of them fit a byte
_BYTES_AT_ONCE = 2**25
_UNIT = 2.0**-20


def last_read(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how long each row is up to its last symbol that says something: [B, n] -> [B]."""
    places = np.arange(1, symbols.shape[1] + 1)
    return np.asarray(np.max(np.where(symbols != UNREAD, places, 0), axis=1, initial=0))


def around(worth: NDArray[Value]) -> NDArray[Value]:
    """Lay values twice around the period, symbols first: [..., P, V + 1] -> [..., V + 1, 2P]."""
    by_symbol = np.moveaxis(worth, -1, -2)
    return np.ascontiguousarray(np.concatenate([by_symbol, by_symbol], axis=-1))


def laid_out(keyed: NDArray[np.bool_], worth: tuple[NDArray[Value], ...]) -> NDArray[Value]:
    """Lay out what symbols are worth where they agree, and where not, as `around` does.

    `keyed` [V + 1, 2P] tells, twice around the period, which symbols each key promotes; `worth`
    has two arrays [P, V + 1], or [1, V + 1] where all keys are alike.
    """
    kind = worth[0].dtype
    word = f"u{kind.itemsize}"
    agreeing, other = ((v.T if len(v) == 1 else around(v)).view(word) for v in worth)
    # np.where, bit by bit: as a product it is ten times as fast.
    chosen = keyed.astype(word)
    chosen *= agreeing ^ other
    chosen ^= other
    return chosen.view(kind)


def exactly(worth: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round down to multiples of 2^-20: sums of these are exact, in whatever order.

    Logarithms of factors rounded down leave a likelihood ratio smaller, so valid.
    """
    return np.asarray(np.floor(worth / _UNIT) * _UNIT, dtype=np.float32)


class PhaseSums:
    """Sums of `worth` [R, P, V + 1] under every phase of every nonce; UNREAD is worth nothing."""

    def __init__(self, worth: NDArray[np.float64]) -> None:
        self.nonces, self.period, self._symbols = worth.shape
        self._transform = np.fft.rfft(worth[..., :-1], axis=1).transpose(1, 0, 2)  # [., R, V]

    def __call__(self, symbols: NDArray[np.int64], first: int = 0) -> NDArray[np.float64]:
        """Return [B, R, P] for symbols [B, n] padded with UNREAD, the first at place `first`."""
        batch, length = symbols.shape
        counts = np.zeros((batch, self.period, self._symbols))
        place = (first + np.arange(length)) % self.period
        np.add.at(counts, (np.arange(batch)[:, None], place[None], symbols), 1.0)
        seen = np.fft.rfft(counts[..., :-1], axis=1).conj().transpose(1, 2, 0)  # [P/2+1, V, B]
        products = self._transform @ seen  # [P/2 + 1, R, B]
        return np.fft.irfft(products, n=self.period, axis=0).transpose(2, 1, 0)


def looked_up(
    windows: NDArray[np.int8], symbols: NDArray[np.int64], first: int = 0
) -> NDArray[np.int64]:
    """Add up whole numbers laid `around` [R, V + 1, 2P], the same as `PhaseSums`: [B, R, P].

    With many symbols this is faster than transforms, which take as long as there are symbols.
    """
    nonces, period = windows.shape[0], windows.shape[2] // 2
    sums = np.zeros((nonces, len(symbols), period), dtype=np.int32)
    for place, column in enumerate(symbols.T, start=first):
        sums += windows[:, :, place % period : place % period + period][:, column]
    return sums.transpose(1, 0, 2).astype(np.int64)


def rounded(log_factors: NDArray[np.float64]) -> tuple[NDArray[np.int8], float]:
    """Return whole numbers of at most 31, four of which fit a byte, and the scale they are in."""
    scale = _LARGEST / max(float(np.abs(log_factors).max()), 1e-9)
    return np.rint(log_factors * scale).astype(np.int8), scale


class PartScreen:
    """How well the best phase of a part of the sequence fits each of many schedules.

    A lost symbol moves all that follows to another phase, in which it speaks against the first: on
    the whole, the right schedule then looks no better than others. Values are whole numbers so that
    no rounding of sums decides between schedules that are alike. What begins at a start is worth
    more than any phase, by how many phases there are for each start.
    """

    def __init__(self, windows: NDArray[np.int8], scale: float, starts: NDArray[np.int64]) -> None:
        """`windows` has values that were `rounded`, laid `around`: [R, V + 1, 2P].

        `starts` lie evenly.
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
        loops.best_in_part(self._windows, in_fours(symbols), lasts, *rule, best)
        return best

    def _in_parts(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = max(1, _BYTES_AT_ONCE // (8 * self.nonces * self._period))
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
    """Return what adds up whole numbers laid `around`, in the faster of two ways."""
    if windows.shape[1] > SMALL_ALPHABET:
        return partial(looked_up, windows)
    once = np.moveaxis(windows[..., : windows.shape[2] // 2], 1, 2)
    sums = PhaseSums(once.astype(np.float64))
    return lambda symbols, first: np.rint(sums(symbols, first)).astype(np.int64)


def in_fours(symbols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fill rows up with UNREAD to a multiple of four: [B, n]."""
    spare = -symbols.shape[1] % 4
    return np.pad(symbols, ((0, 0), (0, spare)), constant_values=UNREAD) if spare else symbols
