"""The nonces of a key: a quick screen that chooses those for which exact ratios are computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import of_kind
from patternmark.core.turns import TurnSchedule
from patternmark.statistics.excerpts import Excerpt
from patternmark.statistics.rates import agreement_rates
from patternmark.statistics.stretches import NonceCoins, RoughRatios, Shape

NONCES_TESTED = 2  # nonces of a key whose exact ratio is computed


class NonceScreen:
    """The rough ratio of every nonce of a key, or of an excerpt of its schedule."""

    def __init__(self, key: Key, excerpt: Excerpt | None) -> None:
        self._nonces, self._rough = key.circle.nonces, None
        if self._nonces > 1:
            scheme, alphabet = key.profile.scheme, key.profile.alphabet
            schedule = of_kind(scheme, key.circle, TurnSchedule, "nonces to choose from")
            symbols = np.arange(alphabet.size) if excerpt is None else excerpt.symbols
            rates = agreement_rates(alphabet, scheme.name)[:, symbols]
            coins = NonceCoins(schedule, symbols)
            self._rough = RoughRatios(rates, Shape.of(schedule)), coins

    def log_ratios(self, readings: Sequence[Reading]) -> NDArray[np.float64]:
        """Return ln of the rough ratio of every record and nonce: [records, R].

        If the key has only one nonce, they are 0.
        """
        if self._rough is None:
            return np.zeros((len(readings), self._nonces))
        ratios, coins = self._rough
        found = [ratios.of(reading, coins) for reading in readings]
        return np.array(found).reshape(len(readings), self._nonces)


def likeliest_nonces(log_ratios: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the few best nonces of each row: [B, R] -> [B, few]."""
    if log_ratios.shape[1] <= NONCES_TESTED:
        return np.tile(np.arange(log_ratios.shape[1]), (len(log_ratios), 1))
    return np.argpartition(-log_ratios, NONCES_TESTED - 1, axis=1)[:, :NONCES_TESTED]
