"""Many keys against one sequence at once: which of them are worth a full test.

Every phase of every key is scored by correlation, as `phases.PhaseSums` does for one key: the
Fourier transforms of all schedules are stacked, multiplied with the sequence's, and turned back. A
screen is only a screen. It may miss a key, and then a mark is missed; what it lets through is
tested in full, so that it cannot make a p-value smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import log
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.statistics.rates import agreement_rates, with_chance

LEVEL = 1  # the strength that is looked for: delta 0.75
_ENTRIES_AT_ONCE = 2**24  # of schedules (period times symbols) that are transformed together
_KEPT_BYTES = 2**30  # transforms up to this size are kept; more are made anew for every batch
_MOST_WINDOWS, _WINDOW = 4, 50

Progress = Callable[[int, int], None]  # keys that are done, and all


class Stage(NamedTuple):
    """One way to score keys; later stages are for records that earlier ones gave to no key."""

    scores: Callable[[Sequence[Reading], Progress | None], NDArray[np.float32]]  # [B, K, kinds]
    share: int = 1  # it picks one of so many of the keys that may be tested


class KeyScreen(Protocol):
    """What picks the keys that are worth a full test."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The ways to score keys, in turn."""

    def prepare(self) -> None:
        """Derive what can be kept for all sequences."""


class LetterShortlist:
    """Scores the sequences of a batch under keys of one schedule's shape."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        first = self._keys[0]
        self._size = first.profile.alphabet.size
        schedule = first.circle
        self._period, self._nonces = schedule.period, schedule.nonces
        self._starts = schedule.starts
        scheme = first.profile.scheme
        chance = scheme.chance
        rates = agreement_rates(first.profile.alphabet, scheme.name)[LEVEL]
        rates = with_chance(rates, chance)
        self._agreeing = np.log(rates / chance).astype(np.float32)  # [V]
        self._other = np.log((1.0 - rates) / (1.0 - chance)).astype(np.float32)
        of_one_key = self._nonces * self._period * self._size
        self._at_once = max(1, _ENTRIES_AT_ONCE // of_one_key)  # keys of one block
        self._is_kept = len(self._keys) * of_one_key * 4 <= _KEPT_BYTES
        self._kept: list[NDArray[np.complex64]] = []
        self.stages = (Stage(self.scores),)

    def prepare(self) -> None:
        """Transform the schedules now, if they are kept at all."""
        if self._is_kept and not self._kept:
            self._kept = list(self._made())

    def scores(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return, for every record and key, ln LR of one phase, and of one phase per window.

        [B, K, 2]: the second copes with lost and inserted symbols, and with marked stretches.
        """
        del progress  # it takes little time
        self.prepare()
        windows = [_windows(reading) for reading in readings]
        seen = [self._seen([w for part in parts for w in part]) for parts in windows]
        result = np.zeros((len(readings), len(self._keys), 2), dtype=np.float32)
        at = 0
        for block in self._kept or self._made():
            keys = slice(at, at + block.shape[1] // self._nonces)
            at = keys.stop
            for row, (parts, transform) in enumerate(zip(windows, seen, strict=True)):
                if parts:
                    result[row, keys] = self._judge(block @ transform, list(map(len, parts)))
        return result

    def _made(self) -> Iterator[NDArray[np.complex64]]:
        """Yield the transforms of the keys' schedules, block by block: [P/2 + 1, keys * R, V]."""
        for at in range(0, len(self._keys), self._at_once):
            promoted = np.stack(
                [
                    schedule.promoted(nonce)
                    # A copy, since a key keeps every schedule it was asked for.
                    for schedule in (replace(k).circle for k in self._keys[at : at + self._at_once])
                    for nonce in range(self._nonces)
                ]
            )
            scored = promoted.any(axis=(0, 1))
            logs = np.where(promoted, self._agreeing, np.where(scored, self._other, np.float32(0)))
            transform = np.fft.rfft(logs, axis=1).astype(np.complex64)
            yield np.ascontiguousarray(transform.transpose(1, 0, 2))

    def _seen(self, windows: list[NDArray[np.int64]]) -> NDArray[np.complex64]:
        """Return the transform of the symbols of each window, in their places: [P/2 + 1, V, W]."""
        counts = np.zeros((len(windows), self._period, self._size + 1), dtype=np.float32)
        for number, symbols in enumerate(windows):
            place = np.arange(len(symbols)) % self._period
            np.add.at(counts[number], (place, symbols), 1.0)  # UNREAD counts last
        transform = np.fft.rfft(counts[..., :-1], axis=1).conj()
        return transform.transpose(1, 2, 0).astype(np.complex64)

    def _judge(self, products: NDArray[np.complex64], sizes: list[int]) -> NDArray[np.float32]:
        """Turn products [P/2 + 1, keys * R, W] into scores; `sizes` counts each chain's windows."""
        by_phase = np.fft.irfft(products.transpose(2, 0, 1), n=self._period, axis=1)  # [W, P, S]
        schedules = by_phase.shape[2]
        steady, moving = np.zeros((2, schedules), dtype=np.float32)
        at = 0
        for size in sizes:
            some = by_phase[at : at + size]
            at += size
            whole = some.sum(axis=0)  # [P, S]
            from_start = whole[self._starts].max(axis=0) - log(len(self._starts))
            steady += np.maximum(from_start, whole.max(axis=0) - log(self._period))
            moving += np.maximum(some.max(axis=1) - log(self._period), 0.0).sum(axis=0)
        both = np.stack([steady, moving], axis=1).reshape(-1, self._nonces, 2)
        return np.asarray(both.max(axis=1))


def _windows(reading: Reading) -> list[list[NDArray[np.int64]]]:
    """Cut each chain into a few windows, each in its place among what is not read."""
    result = []
    for part in reading.parts:
        number = int(np.clip(len(part) // _WINDOW, 1, _MOST_WINDOWS))
        edges = np.linspace(0, len(part), number + 1).astype(int)
        position = np.arange(len(part))
        result.append(
            [
                np.where((position >= low) & (position < high), part, UNREAD)
                for low, high in pairwise(edges.tolist())
            ]
        )
    return result
