"""Many `turns` keys against the texts of a batch: a rough ratio of each (`stretches`).

The coins of a key are drawn for the whole vocabulary together, and only those of the tokens that
occur in the batch are kept. A key with several nonces is scored by its best nonce.
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

_BATCH_ENTRIES = 2**22  # keys x blocks x tokens whose coins are drawn together


class TurnKeyScreen:
    """Scores the texts of a batch under keys whose schedules have one shape."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        self._rates = agreement_rates(keys[0].profile.alphabet, keys[0].profile.scheme.name)
        self._shape = Shape.of(_schedule(keys[0]))
        self.stages = (Stage(self.scores),)

    def prepare(self) -> None:
        """Do nothing: which coins are needed depends on the texts."""

    def scores(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key by ln of the rough ratio of its best nonce: [B, K, 1]."""
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
        """Yield the coins of some keys at a time, with the number of these keys."""
        if _schedule(self._keys[0]).nonces > 1:
            for key in self._keys:
                yield NonceCoins(_schedule(key), symbols), 1
            return
        batch = max(1, _BATCH_ENTRIES // max(1, self._shape.num_blocks * len(symbols)))
        for at in range(0, len(self._keys), batch):
            coins = np.stack(
                [_schedule(key).base_coins(symbols) for key in self._keys[at : at + batch]]
            )
            yield KeyCoins(np.where(coins, np.float32(1), np.float32(-1))), len(coins)


def _schedule(key: Key) -> TurnSchedule:
    """Return the schedule of a copy of a key: the key would keep it in memory."""
    return of_kind(key.profile.scheme, replace(key).circle, TurnSchedule, "turns")
