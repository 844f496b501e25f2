"""The likelihood ratio as a detector, with a proved p-value (`lr`) or a measured one (`auto`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper
from patternmark.evidence import markov
from patternmark.fast.compiled import repeated
from patternmark.null.mixture import MixtureNull
from patternmark.statistics.base import (
    CURVE_POINTS,
    Measurement,
    NullCurve,
    batches,
    likeliest_nonce,
    num_batches,
)
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.excerpts import Excerpt, Layouts
from patternmark.statistics.likelihood import (
    PAPER_MIXTURE,
    TEXT_MIXTURE,
    ChainRatio,
    Mixture,
    log_mean_exp,
)
from patternmark.statistics.nonces import NonceScreen, likeliest_nonces
from patternmark.statistics.rates import agreement_rates, with_chance


class RatioStatistic:
    """ln of the mixed likelihood ratio; its p-value is at most 1 / ratio (Markov).

    The ratio is an e-value: ratios of independent sequences from one source may be multiplied.
    """

    name = "lr"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        self._key = key
        self.mixture = mixture_of(key.profile)
        self.ratio = ratio_of(key, self.mixture, schedule)
        self.signature = f"mixture:{self.mixture.digest}"
        self._nonces = key.circle.nonces
        self._screen = NonceScreen(key, schedule)
        rates = rates_of(key, schedule)
        chance = key.profile.scheme.chance
        best = np.log(np.maximum(rates / chance, (1 - rates) / (1 - chance)))
        self._most = np.append(best.max(axis=0), 0.0)  # [V + 1] ln of a symbol's largest factor

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Average over components, nonces and phases; multiply over chains of a record."""
        rough = self._screen.log_ratios(readings)
        by_nonce = self.log_ratios(readings, rough)  # [records, R]
        total = self.over_nonces(by_nonce)
        scored = np.array([reading.num_scored for reading in readings])
        total[scored == 0] = 0.0  # exactly, because the sum of the weights is rounded
        most = np.array([self._most[reading.symbols].sum() for reading in readings])
        longest = np.array([_longest(reading) for reading in readings])
        log_p, floor = (self.log_p(ratio, scored, longest) for ratio in (total, most))
        payloads = [likeliest_nonce(row) for row in rough]
        return [
            Measurement(
                statistic=float(total[i]),
                expected=None,
                log_p=float(log_p[i]),
                log_p_floor=float(floor[i]),
                payload=payloads[i][0],
                payload_error=payloads[i][1],
            )
            for i in range(len(readings))
        ]

    def log_ratios(
        self, readings: Sequence[Reading], rough: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return ln of the mixed ratio of the few likeliest nonces: [records, few].

        `rough` are the rough ratios that choose these nonces, if they are known already.
        """
        scored = np.array([reading.num_scored for reading in readings])
        return self.mixture.mix(self.component_ratios(readings, rough), scored)

    def over_nonces(self, by_nonce: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln of the mean ratio over all nonces: those that were not computed count as 0."""
        return np.asarray(log_mean_exp(by_nonce, total=True) - np.log(self._nonces))

    def component_ratios(
        self, readings: Sequence[Reading], rough: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return ln of the ratio of the few likeliest nonces: [records, few, C]."""
        rough = self._screen.log_ratios(readings) if rough is None else rough
        chains = [(i, part) for i, reading in enumerate(readings) for part in reading.parts]
        likeliest = likeliest_nonces(rough)  # [records, few]
        found = np.zeros((*likeliest.shape, len(self.mixture.components)))
        chosen = likeliest[[record for record, _ in chains]]
        parts = [part for _, part in chains]
        with repeated(num_batches(parts)):
            for numbers, symbols in batches(parts):
                if isinstance(self.ratio, CyclicRatio):
                    ratios = self.ratio.log_ratios(symbols, chosen[numbers])
                else:
                    ratios = self.ratio.log_ratios(symbols)
                for number, row in zip(numbers, ratios, strict=True):
                    found[chains[number][0]] += row
        return found

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return ln p against the ratio's logarithm."""
        values = np.linspace(min(statistic, 0.0), 1.1 * max(statistic, 10.0), CURVE_POINTS)
        shape = np.ones(len(values), dtype=np.int64)
        heights = self.log_p(values, reading.num_scored * shape, _longest(reading) * shape)
        return NullCurve.of_tail(values, heights, statistic, "ln of the likelihood ratio")

    def log_p(
        self,
        log_ratio: NDArray[np.float64],
        scored: NDArray[np.int64],
        longest: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return ln p, given the scored symbols of each record, and those of its longest chain."""
        del scored, longest  # Markov's bound holds at any length
        return markov(log_ratio)


class AutoStatistic(RatioStatistic):
    """The default: the ratio of `lr` with a measured null: p-values are some 20 times smaller.

    If no null was simulated (another alphabet, another chain), Markov's bound decides.
    """

    name = "auto"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        self._null = _null_of(key)
        self.signature += f"|null:{self._null.digest if self._null else 'markov'}"

    def log_p(
        self,
        log_ratio: NDArray[np.float64],
        scored: NDArray[np.int64],
        longest: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return ln p from the table."""
        if self._null is None:
            return super().log_p(log_ratio, scored, longest)
        return self._null.log_tail(log_ratio, scored, self._nonces, longest)


def _longest(reading: Reading) -> int:
    """Return the number of scored symbols in the chain that has most of them."""
    return max((int(np.count_nonzero(part != UNREAD)) for part in reading.parts), default=0)


def mixture_of(profile: Profile) -> Mixture:
    """Return the mixture that fits the marks of a profile."""
    return TEXT_MIXTURE if reads_all_tokens(profile) else PAPER_MIXTURE


def reads_all_tokens(profile: Profile) -> bool:
    """Whether a ratio counts every token of a text (see `texts`), including repeated ones."""
    scheme = profile.scheme
    return scheme.is_cycle and (profile.alphabet.has_many_symbols or not scheme.takes_parts)


def _null_of(key: Key) -> MixtureNull | None:
    """Return the simulated null of a key's ratio, if there is one."""
    alphabet, scheme = key.profile.alphabet, key.profile.scheme
    is_usual = scheme.has_default_shape and alphabet == PROTEIN
    return MixtureNull.shipped(scheme.name) if is_usual else None


def ratio_of(
    key: Key, mixture: Mixture, excerpt: Excerpt | None = None
) -> CyclicRatio | ChainRatio:
    """Return an object that computes ratios for a key, or for an excerpt of its schedule."""
    profile, schedule = key.profile, excerpt or key.circle
    promoted = Layouts(schedule)
    rates, shares = rates_of(key, excerpt), schedule.shares
    if profile.scheme.is_cycle:
        times = excerpt.times if excerpt else None
        parts = (schedule.starts, mixture.components)
        return CyclicRatio(promoted, rates, *parts, shares=shares, times=times)
    chain = cast(Paper, profile.scheme).chain  # all others are cycles
    return ChainRatio(
        promoted[0],
        rates,
        np.array(chain.transition),
        np.array(chain.initial),
        mixture.components,
        shares,
    )


def rates_of(key: Key, excerpt: Excerpt | None) -> NDArray[np.float64]:
    """Return how often each symbol of a marked sequence agrees at every level: [levels, V]."""
    scheme = key.profile.scheme
    rates = agreement_rates(key.profile.alphabet, scheme.name)
    return with_chance(rates if excerpt is None else rates[:, excerpt.symbols], scheme.chance)
