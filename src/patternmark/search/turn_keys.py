"""Many keys that take turns, against the texts of a batch: a rough ratio of each (`stretches`).

A key's coins for a whole vocabulary are drawn at one go, and only those of the tokens that a batch
has are kept. Where keys have several nonces, each key counts by its best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import of_kind
from patternmark.core.turns import TurnSchedule
from patternmark.search.letter_keys import Progress, Stage
from patternmark.statistics.excerpts import excerpt_of
from patternmark.statistics.rates import agreement_rates
from patternmark.statistics.stretches import KeyCoins, NonceCoins, RoughRatios, ScheduleCoins, Shape

_ENTRIES_AT_ONCE = 2**22  # keys times blocks times tokens


class TurnKeyScreen:
    """Scores the texts of a batch under keys of one schedule's shape."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        self._rates = agreement_rates(keys[0].profile.alphabet, keys[0].profile.scheme.name)
        self._shape = Shape.of(_schedule(keys[0]))
        self.stages = (Stage(self.scores),)

    def prepare(self) -> None:
        """Do nothing: nothing can be kept."""

    def scores(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Return ln of the rough ratio of every record and key, for its best nonce: [B, K, 1]."""
        excerpt, numbered = excerpt_of(self._keys[0], readings)
        size = self._keys[0].profile.alphabet.size
        symbols = np.arange(size) if excerpt is None else excerpt.symbols
        ratios = RoughRatios(self._rates[:, symbols], self._shape)
        result = np.zeros((len(readings), len(self._keys), 1), dtype=np.float32)
        done = 0
        for coins, keys in self._coins(symbols):
            some = slice(done, done + keys)
            for row, reading in enumerate(numbered):
                by_nonce = ratios.of(reading, coins).reshape(keys, -1)
                result[row, some, 0] = by_nonce.max(axis=1)
            done += keys
            if progress is not None:
                progress(done, len(self._keys))
        return result

    def _coins(self, symbols: NDArray[np.int64]) -> Iterator[tuple[ScheduleCoins, int]]:
        """Yield the coins of some keys at a time, and how many keys these are."""
        if _schedule(self._keys[0]).nonces > 1:
            for key in self._keys:
                yield NonceCoins(_schedule(key), symbols), 1
            return
        at_once = max(1, _ENTRIES_AT_ONCE // max(1, self._shape.num_blocks * len(symbols)))
        for at in range(0, len(self._keys), at_once):
            coins = np.stack(
                [_schedule(key).base_coins(symbols) for key in self._keys[at : at + at_once]]
            )
            yield KeyCoins(np.where(coins, np.float32(1), np.float32(-1))), len(coins)


def _schedule(key: Key) -> TurnSchedule:
    """Return a schedule of its own: what a key derives would be kept with it."""
    return of_kind(key.profile.scheme, replace(key).circle, TurnSchedule, "turns")
