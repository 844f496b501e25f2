"""The p-value of one text under a key, by drawing other keys (see `text_draws`).

Keys can be drawn if in each block the keys at odd places promote the complement: for the scheme
`turns`, and for the paper's scheme with two parts of equal size.
"""

from __future__ import annotations

from hashlib import sha256
from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.errors import ParameterError
from patternmark.evidence import bonferroni
from patternmark.fast.compiled import repeated
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.excerpts import Excerpt
from patternmark.statistics.likelihood import Mixture, log_mean_exp
from patternmark.statistics.text_draws import (
    KEYS,
    Cloud,
    DrawnKeys,
    Marks,
    Stream,
    draw_path,
    log_p_of_draws,
)

Numbers = NDArray[np.int64]
MAX_TOKENS = 2_000  # tokens of a text for which keys are drawn; longer texts would take too long
CLEARLY_LARGE_P = 0.05  # a p-value above this needs no better estimate
_FIRST_PASS_STEP = 5  # the first estimate uses every fifth key
_KEYS_AT_ONCE = 10  # keys whose ratios are computed together: their tables fit a cache


class TextKeys:
    """Draws keys for a text, to estimate how often a key gives it at least the same ratio."""

    signature = f"keys:{KEYS}"

    def __init__(
        self, key: Key, mixture: Mixture, rates: NDArray[np.float64], excerpt: Excerpt | None
    ) -> None:
        """`rates` [levels, V] are for the symbols of the excerpt, or for the whole alphabet."""
        self._key, self._mixture, self._rates, self._excerpt = key, mixture, rates, excerpt
        self._block = _block_of(key)

    def can_judge(self, reading: Reading) -> bool:
        """Whether keys can be drawn for a text."""
        return self._block > 0 and len(reading.symbols) <= MAX_TOKENS

    def log_p(self, reading: Reading, ratios: NDArray[np.float64], nonces: Numbers) -> float:
        """Return ln p of a text; `ratios` [few, C] are ln of the ratios of `nonces` [few].

        Only the likeliest nonce is tested; Bonferroni's inequality corrects for the choice.
        """
        symbols = reading.parts[0]
        symbols = symbols[: int(np.flatnonzero(symbols != UNREAD)[-1]) + 1]
        own = np.unique(symbols[symbols != UNREAD])
        tokens = np.where(symbols == UNREAD, UNREAD, np.searchsorted(own, symbols))
        marks, stream = self._marks(own, tokens, reading.num_scored), self._stream(symbols)
        log_weights = marks.log_weights - Cloud(marks, stream).log_means
        by_component = ratios[:, list(marks.numbers)] + log_weights  # [few, C]
        best = int(np.argmax(log_mean_exp(by_component, total=True)))
        own_share = by_component[best]
        component = stream.choice(np.exp(own_share - own_share.max()))
        schedule = self._key.circle if self._excerpt is None else self._excerpt
        coins = schedule.promoted(int(nonces[best]))[:: self._block, own]
        path = draw_path(marks, component, coins, stream)
        drawn = Cloud(marks, stream, kept=path).draw_keys(coins)
        # The difference between the means of the two clouds.
        log_shift = marks.log_weights - log_weights - drawn.log_means
        for some in (drawn.every(_FIRST_PASS_STEP), drawn):
            log_es = log_mean_exp(self._log_ratios(some, marks, own) + log_weights, total=True)
            log_es += log_shift[some.components]
            tail = log_p_of_draws(log_es, some.tested, self._log_shares(some, own))
            log_p = float(bonferroni(tail, self._key.circle.nonces))
            if log_p > log(CLEARLY_LARGE_P):
                break
        return log_p

    def _stream(self, symbols: NDArray[np.int64]) -> Stream:
        """Return the random numbers for this key and text."""
        if self._key.secret is None:
            need = "detecting needs the key file with the secret"
            raise ParameterError(f"key {self._key.key_id} is only a public half: {need}")
        names = symbols if self._excerpt is None else self._excerpt.names(symbols)
        digest = sha256(names.astype("<i8").tobytes()).hexdigest()
        return Stream(self._key.secret, f"keys for a text/{digest}")

    def _marks(self, own: NDArray[np.int64], tokens: NDArray[np.int64], scored: int) -> Marks:
        log_weights = self._mixture.log_weights(np.array(scored))
        used = np.flatnonzero(np.isfinite(log_weights))
        components = tuple(self._mixture.components[number] for number in used)
        rates = np.array([self._rates[component.level, own] for component in components])
        is_shared = np.array([component.is_shared for component in components])
        power = np.where(is_shared[:, None], 1.0 / self._times(own), 1.0)
        return Marks(
            components=components,
            numbers=tuple(used.tolist()),
            log_weights=log_weights[used] - log_mean_exp(log_weights[used], total=True),
            agreeing=(2.0 * rates) ** power,
            other=(2.0 - 2.0 * rates) ** power,
            tokens=tokens,
            starts=self._key.circle.starts,
            period=self._key.circle.period,
            block=self._block,
        )

    def _times(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ones_like(own) if self._excerpt is None else self._excerpt.times[own]

    def _log_ratios(
        self, drawn: DrawnKeys, marks: Marks, own: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return ln of the ratios that drawn keys give the text: [keys, C]."""
        found = []
        with repeated(len(drawn.coins) / _KEYS_AT_ONCE):
            for at in range(0, len(drawn.coins), _KEYS_AT_ONCE):
                some = drawn._replace(coins=drawn.coins[at : at + _KEYS_AT_ONCE])
                keys = len(some.coins)
                # The tokens get new symbols for each key, so that one schedule can hold all keys.
                first = np.arange(keys)[:, None] * len(own)
                ratio = CyclicRatio(
                    [marks.promoted(some.coins.transpose(1, 0, 2).reshape(len(some.coins[0]), -1))],
                    np.tile(self._rates[:, own], keys),
                    marks.starts,
                    marks.components,
                    shares=np.array([0.5]),
                    times=np.tile(self._times(own), keys),
                )
                symbols = np.where(marks.tokens == UNREAD, UNREAD, marks.tokens + first)
                found.append(ratio.log_ratios(symbols)[:, 0])
        return np.concatenate(found)

    def _log_shares(self, drawn: DrawnKeys, own: Numbers) -> NDArray[np.float64]:
        """Return ln of how much likelier the coins are for a key than for fair coins: [K].

        This is not 0 for parts of equal size, which are not quite fair coins.
        """
        sizes = getattr(self._key.circle, "sizes", None)
        if sizes is None:
            return np.zeros(len(drawn.coins))
        size, half = int(sizes.sum()), int(sizes[0])
        promoted = drawn.coins.sum(axis=(1, 2)).tolist()
        ways = [_log_ways(size - len(own), half - n) for n in promoted]
        return np.array(ways) + len(own) * log(2.0) - _log_ways(size, half)


def _block_of(key: Key) -> int:
    """Return the number of keys that share coins; 0 if keys cannot be drawn."""
    circle = key.circle
    two_halves = circle.period == 2 and circle.is_fair  # all keys share the same coins
    return int(getattr(circle, "block", 2 if two_halves else 0))


def _log_ways(n: int, k: int) -> float:
    """Return ln of the number of ways to choose k of n."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) if 0 <= k <= n else -np.inf
