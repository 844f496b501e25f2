"""Many keys against one sequence at once: which of them are worth a full test.

Every phase of every key is scored by correlation, as `phase_sums.PhaseSums` does for one key: the
Fourier transforms of all schedules are stacked, multiplied with that of the sequence, and
transformed back. A screen may miss a key, and then the mark is missed. But each key that it picks
is tested in full, so a screen cannot make a p-value smaller.
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

LEVEL = 1  # index of the strength that the screen looks for: delta 0.75
_BATCH_ENTRIES = 2**24  # period x symbols x nonces x keys that are transformed together
_MAX_CACHED_BYTES = 2**30  # larger transforms are computed again for every batch
_MAX_WINDOWS = 4  # windows that a chain is cut into
_MIN_WINDOW = 50  # positions in a window

Progress = Callable[[int, int], None]  # called with the number of keys that are done, and of all


class Stage(NamedTuple):
    """One way to score keys. Later stages see the records that no key has claimed so far."""

    scores: Callable[[Sequence[Reading], Progress | None], NDArray[np.float32]]  # [B, K, kinds]
    share: int = 1  # the stage may fill 1 / share of the shortlist


class KeyScreen(Protocol):
    """Picks the keys that are worth a full test."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The ways to score keys, in their order."""

    def prepare(self) -> None:
        """Compute now what is the same for all sequences."""


class LetterShortlist:
    """Scores the sequences of a batch under keys whose schedules have one shape."""

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
        self._agree = np.log(rates / chance).astype(np.float32)  # [V] ln LR of a symbol
        self._disagree = np.log((1.0 - rates) / (1.0 - chance)).astype(np.float32)
        entries = self._nonces * self._period * self._size  # of one key
        self._batch_keys = max(1, _BATCH_ENTRIES // entries)
        self._is_cached = len(self._keys) * entries * 4 <= _MAX_CACHED_BYTES
        self._cache: list[NDArray[np.complex64]] = []
        self.stages = (Stage(self.scores),)

    def prepare(self) -> None:
        """Transform the schedules now, if there is room for their transforms."""
        if self._is_cached and not self._cache:
            self._cache = list(self._transforms())

    def scores(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key by ln LR at its best phase, and at one phase per window.

        [B, K, 2]: the second score finds marks with slips, and marked stretches.
        """
        del progress  # the screen takes too little time to report any
        self.prepare()
        windows = [_windows(reading) for reading in readings]
        transforms = [
            self._count_transform([w for chain in record for w in chain]) for record in windows
        ]
        result = np.zeros((len(readings), len(self._keys), 2), dtype=np.float32)
        at = 0
        for some in self._cache or self._transforms():
            keys = slice(at, at + some.shape[1] // self._nonces)
            at = keys.stop
            for row, (parts, transform) in enumerate(zip(windows, transforms, strict=True)):
                if parts:
                    result[row, keys] = self._best_phases(some @ transform, list(map(len, parts)))
        return result

    def _transforms(self) -> Iterator[NDArray[np.complex64]]:
        """Yield the transforms of the schedules of some keys at a time: [P/2 + 1, keys * R, V]."""
        for at in range(0, len(self._keys), self._batch_keys):
            keys = self._keys[at : at + self._batch_keys]
            promoted = np.stack(
                [
                    schedule.promoted(nonce)
                    # Of a copy: a key would keep its schedule in memory.
                    for schedule in (replace(key).circle for key in keys)
                    for nonce in range(self._nonces)
                ]
            )
            scored = promoted.any(axis=(0, 1))
            logs = np.where(promoted, self._agree, np.where(scored, self._disagree, np.float32(0)))
            transform = np.fft.rfft(logs, axis=1).astype(np.complex64)
            yield np.ascontiguousarray(transform.transpose(1, 0, 2))

    def _count_transform(self, windows: list[NDArray[np.int64]]) -> NDArray[np.complex64]:
        """Return the transform of where in the period each symbol stands: [P/2 + 1, V, W]."""
        counts = np.zeros((len(windows), self._period, self._size + 1), dtype=np.float32)
        for number, symbols in enumerate(windows):
            place = np.arange(len(symbols)) % self._period
            np.add.at(counts[number], (place, symbols), 1.0)  # UNREAD is the last column
        transform = np.fft.rfft(counts[..., :-1], axis=1).conj()
        return transform.transpose(1, 2, 0).astype(np.complex64)

    def _best_phases(
        self, products: NDArray[np.complex64], sizes: list[int]
    ) -> NDArray[np.float32]:
        """Turn products [P/2 + 1, keys * R, W] into scores; `sizes`: windows of each chain."""
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
    """Cut each chain into a few windows, each as long as the chain and UNREAD elsewhere."""
    result = []
    for part in reading.parts:
        number = int(np.clip(len(part) // _MIN_WINDOW, 1, _MAX_WINDOWS))
        edges = np.linspace(0, len(part), number + 1).astype(int)
        position = np.arange(len(part))
        result.append(
            [
                np.where((position >= low) & (position < high), part, UNREAD)
                for low, high in pairwise(edges.tolist())
            ]
        )
    return result
