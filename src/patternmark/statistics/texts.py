"""The likelihood ratio of a text: it reads every token and gives two p-values.

Edits move a text along its schedule, and every move exchanges halves and complements. So a detector
gains by reading all tokens, including repeated ones.

**Every token counts in full** (`p_value`). How often chance reaches this ratio depends on how the
text repeats itself. In natural English a repeated word is about as often at even places as at odd
ones, so its one secret coin counts for and against a mark equally; how often chance reaches a ratio
there was counted once (`bench text-null`). If that says that p is small (`SMALL_P`), and the other
p-value does not prove it, keys are drawn for this text (`text_exact`). So a small p-value holds for
any text, including one that repeats itself or was marked by another key.

**Proved for any text** (`p_any`): a token that occurs r times in a record counts 1/r each time. All
its places in a block share one secret coin. Each factor has mean 1 over the coin, and by Hoelder's
inequality a product of r of them, to the power of 1/r, has a mean of at most 1. Tokens have
independent coins, so along every path the product over a text has a mean of at most 1 over keys.
The same is true of the mixture over paths: 1 / E bounds the p-value, whoever wrote the text without
the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.evidence import markov
from patternmark.null.mixture import MixtureNull, text_null
from patternmark.statistics.base import CURVE_POINTS, Measurement, NullCurve, likeliest_nonce
from patternmark.statistics.excerpts import Excerpt
from patternmark.statistics.nonces import likeliest_nonces
from patternmark.statistics.ratio import RatioStatistic, rates_of
from patternmark.statistics.text_exact import TextKeys

SMALL_P = 0.02  # p-value of natural texts below which keys are drawn for the given text
PROVEN_P = 1e-6  # p_any below which no keys are drawn
TOO_LONG = "too long to draw keys for it: judged by the bound that holds for any text"


class AnyTextStatistic(RatioStatistic):
    """`lr` for text: Markov's bound for a ratio in which a token that occurs r times counts 1/r."""

    name = "lr"
    reads_repeats = True

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        # Parts of equal size are not quite independent coins, and adopted parts are not random.
        self._holds_for_any = not key.profile.scheme.takes_parts

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Average over components, nonces and phases; multiply over chains of a record."""
        rough = self._screen.log_ratios(readings)
        ratios = self.component_ratios(readings, rough)
        total = self.over_nonces(self.mixture.mix_for_any(ratios))
        total[[reading.num_scored == 0 for reading in readings]] = 0.0
        most = np.array([self._most_for_any(reading) for reading in readings])
        log_p_any, floor = markov(total), markov(most)
        payloads = [likeliest_nonce(row) for row in rough]
        holds = [self._holds_for_any and reading.times is not None for reading in readings]
        found = [
            Measurement(
                statistic=float(total[i]),
                expected=None,
                log_p=float(log_p_any[i]),
                log_p_floor=float(floor[i]),
                payload=payloads[i][0],
                payload_error=payloads[i][1],
                log_p_any=float(log_p_any[i]) if holds[i] else None,
                log_p_any_floor=float(floor[i]),
                log_e_any=float(total[i]),
            )
            for i in range(len(readings))
        ]
        return self._sharpen(readings, ratios, likeliest_nonces(rough), found)

    def _sharpen(
        self,
        readings: Sequence[Reading],
        ratios: NDArray[np.float64],
        nonces: NDArray[np.int64],
        found: list[Measurement],
    ) -> list[Measurement]:
        """Return measurements with a smaller p-value, if the statistic has one."""
        del readings, ratios, nonces
        return found

    def _most_for_any(self, reading: Reading) -> float:
        """Return ln of the largest possible ratio of a record with these tokens."""
        times = 1.0 if reading.times is None else reading.times
        return float((self._most[reading.symbols] / times).sum())


class TextStatistic(AnyTextStatistic):
    """`auto` for text: the ratio of all tokens with its p-value, and `p_any` as well."""

    name = "auto"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        self._null = _null_of(key, self.mixture.digest)
        self._keys = TextKeys(key, self.mixture, rates_of(key, schedule), schedule)
        self.signature += f"|null:{self._null.digest if self._null else 'markov'}"
        self.signature += f"|{self._keys.signature}"

    def log_ratios_of_all(
        self, readings: Sequence[Reading], ratios: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return ln of the ratio that counts every token in full: [records]."""
        ratios = self.component_ratios(readings) if ratios is None else ratios
        scored = np.array([reading.num_scored for reading in readings])
        return self.over_nonces(self.mixture.mix(ratios, scored))

    def _sharpen(
        self,
        readings: Sequence[Reading],
        ratios: NDArray[np.float64],
        nonces: NDArray[np.int64],
        found: list[Measurement],
    ) -> list[Measurement]:
        """Judge texts of one chain by all their tokens; others keep the bound."""
        total = self.log_ratios_of_all(readings, ratios)
        scored = np.array([reading.num_scored for reading in readings])
        most = np.array([self._most[reading.symbols].sum() for reading in readings])
        log_p, floor = (self._log_p_natural(ratio, scored) for ratio in (total, most))
        result = []
        for i, (reading, bound) in enumerate(zip(readings, found, strict=True)):
            if reading.num_scored == 0 or len(reading.scored_chains) > 1:
                result.append(bound)
                continue
            if self._holds_for_any and reading.times is not None and bound.log_p <= log(PROVEN_P):
                log_p_text = bound.log_p
            elif log_p[i] > log(SMALL_P):
                log_p_text = bound.log_p if self._null is None else float(log_p[i])
            elif self._keys.can_judge(reading):
                log_p_text = self._keys.log_p(reading, ratios[i], nonces[i])
            else:
                result.append(bound.with_note(TOO_LONG))
                continue
            result.append(bound.judged_by(float(total[i]), log_p_text, float(floor[i])))
        return result

    def _log_p_natural(
        self, log_ratio: NDArray[np.float64], scored: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return ln p for natural texts; without a table, Markov's bound for any text."""
        if self._null is None:
            return markov(log_ratio)
        return self._null.log_tail(log_ratio, scored, self._nonces)

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return ln p of natural texts against ln of the ratio, shifted to fit this text's p."""
        values = np.linspace(min(statistic, 0.0), 1.1 * max(statistic, 10.0), CURVE_POINTS)
        scored = np.full(len(values) + 1, reading.num_scored)
        natural = self._log_p_natural(np.append(values, statistic), scored)
        moved = self.measure([reading])[0].log_p - natural[-1]
        heights = np.minimum(natural[:-1] + moved, 0.0)
        return NullCurve.of_tail(values, heights, statistic, "ln of the likelihood ratio")


def _null_of(key: Key, mixture: str) -> MixtureNull | None:
    """Return the null that was counted on natural texts, if there is one for such keys."""
    profile = key.profile
    is_usual = profile.scheme.has_default_shape and profile.alphabet.has_many_symbols
    if not is_usual or not key.circle.is_fair:
        return None
    return text_null(profile.scheme.name, mixture)
