"""The likelihood ratio of a text: every token is read, and two p-values follow.

Edits move a text along its schedule, and every move turns the halves around. So a detector gains
by reading all tokens, also those that stand again and again.

**For natural text** (`p_value`): all tokens count in full. In natural English a word that stands
again does so at even and odd places alike, so that its one secret coin speaks for and against a
mark in equal measure. How often chance reaches a ratio was counted on natural English under random
keys (`bench text-null`). Where words return in the same company, or at places of one parity, the
p-value is raised; where they do so more than in natural text, the text repeats itself
(`masks.refrains`): it is judged by the other p-value, and the verdict says so.

**For any text whatever** (`p_any`): a token that stands r times in a record counts 1/r each time.
All its places in a block share one secret coin. Each factor has mean 1 over the coin, and by
Hoelder's inequality so has, at most, a product of r of them to the power of 1/r. Tokens have
independent coins, so along every path the product over a text has a mean of at most 1 over keys,
and so has the mixture over paths: 1 / E bounds the p-value, whoever wrote the text without the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.evidence import markov
from patternmark.masks.refrains import Refrains
from patternmark.null.mixture import MixtureNull, text_null
from patternmark.statistics.base import CURVE_POINTS, Measurement, NullCurve, likeliest_nonce
from patternmark.statistics.excerpts import Excerpt
from patternmark.statistics.ratio import RatioStatistic

REPEATS_ITSELF = "the text repeats itself: judged by the bound that holds for any text"


class AnyTextStatistic(RatioStatistic):
    """`lr` for text: the ratio in which a token that stands r times counts 1/r, by Markov."""

    name = "lr"
    reads_repeats = True

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        # Parts of equal size are not quite independent coins, and some were chosen by someone.
        self._holds_for_any = not key.profile.scheme.takes_parts

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Mix over components, nonces and phases; chains of a record multiply."""
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
        return self._sharpened(readings, ratios, found)

    def _sharpened(
        self,
        readings: Sequence[Reading],
        ratios: NDArray[np.float64],
        found: list[Measurement],
    ) -> list[Measurement]:
        """Return measurements with a better p-value for natural text, where there is one."""
        del readings, ratios
        return found

    def _most_for_any(self, reading: Reading) -> float:
        """Return ln of the largest ratio that a record of these tokens could have."""
        times = 1.0 if reading.times is None else reading.times
        return float((self._most[reading.symbols] / times).sum())


class TextStatistic(AnyTextStatistic):
    """`auto` for text: the ratio of all tokens with its counted null, and `p_any` beside it."""

    name = "auto"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        self._null = _null_of(key, self.mixture.digest)
        self._block = getattr(key.circle, "block", None)  # without one, a coin lasts
        self.signature += f"|null:{self._null.digest if self._null else 'markov'}"

    def _sharpened(
        self,
        readings: Sequence[Reading],
        ratios: NDArray[np.float64],
        found: list[Measurement],
    ) -> list[Measurement]:
        """Judge natural texts in one piece by the counted null; others keep their bound."""
        if self._null is None:
            return found
        scored = np.array([reading.num_scored for reading in readings])
        total = self.over_nonces(self.mixture.mix(ratios, scored))
        most = np.array([self._most[reading.symbols].sum() for reading in readings])
        nonces = self._nonces
        log_p, floor = (self._null.log_tail(ratio, scored, nonces) for ratio in (total, most))
        result = []
        for i, (reading, bound) in enumerate(zip(readings, found, strict=True)):
            if reading.num_scored == 0 or len(reading.spoken) > 1:
                result.append(bound)
                continue
            refrains = Refrains.of(reading, self._block)
            if reading.times is not None and refrains.repeats_itself:
                result.append(bound.with_note(REPEATS_ITSELF))
            else:
                raised = min(float(log_p[i]) + refrains.log_rise, 0.0)
                result.append(bound.judged_by(float(total[i]), raised, float(floor[i])))
        return result

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return ln p against the ratio's logarithm."""
        values = np.linspace(min(statistic, 0.0), 1.1 * max(statistic, 10.0), CURVE_POINTS)
        refrains = Refrains.of(reading, self._block)
        if self._null is None or refrains.repeats_itself:
            heights = markov(values)
        else:
            scored = np.full(len(values), reading.num_scored)
            heights = self._null.log_tail(values, scored, self._nonces)
            heights = np.minimum(heights + refrains.log_rise, 0.0)
        return NullCurve.of_tail(values, heights, statistic, "ln of the likelihood ratio")


def _null_of(key: Key, mixture: str) -> MixtureNull | None:
    """Return the null that was counted on natural text, if there is one for such keys."""
    profile = key.profile
    is_usual = profile.scheme.has_default_shape and profile.alphabet.has_many_symbols
    if not is_usual or not key.circle.is_fair:
        return None
    return text_null(profile.scheme.name, mixture)
