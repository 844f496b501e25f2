"""The likelihood ratio as a detector: bounded by Markov (`lr`) or calibrated (`auto`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper, Turns
from patternmark.cyclic import FEW_NONCES, CyclicRatio
from patternmark.evidence import markov
from patternmark.likelihood import (
    PAPER_MIXTURE,
    TEXT_PAPER_MIXTURE,
    TEXT_TURNS_MIXTURE,
    ChainRatio,
    Mixture,
    log_mean_exp,
)
from patternmark.null.mixture import MixtureNull, token_table
from patternmark.rates import agreement_rates, with_chance
from patternmark.statistics.base import (
    CURVE_POINTS,
    Measurement,
    NullCurve,
    batches,
    likeliest_nonce,
)
from patternmark.statistics.excerpts import Excerpt


class RatioStatistic:
    """ln of the mixed likelihood ratio; its p-value is at most 1 / ratio (Markov).

    An e-value: the ratios of independent sequences of one source may be multiplied.
    """

    name = "lr"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        self._key = key
        self.mixture = mixture_of(key.profile)
        self.ratio = ratio_of(key, self.mixture, schedule)
        self.signature = f"mixture:{self.mixture.digest}"
        self._nonces = key.circle.nonces
        self._longest_for_any = _fresh_length(key.profile)
        rates = _rates(key, schedule)
        chance = key.profile.scheme.chance
        best = np.log(np.maximum(rates / chance, (1 - rates) / (1 - chance)))
        self._most = np.append(best.max(axis=0), 0.0)  # [V + 1] ln of a symbol's largest factor

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Mix over components, nonces and phases; chains of a record multiply."""
        by_nonce = self.log_ratios(readings)  # [records, R]
        total = log_mean_exp(by_nonce)
        scored = np.array([reading.num_scored for reading in readings])
        total[scored == 0] = 0.0  # not what rounding makes of the weights' sum
        most = np.array([self._most[reading.symbols].sum() for reading in readings])
        longest = np.array([_longest(reading) for reading in readings])
        log_p, floor = (self.log_p(ratio, scored, longest) for ratio in (total, most))
        p_any = markov(total)
        payloads = [likeliest_nonce(row) for row in by_nonce]
        return [
            Measurement(
                statistic=float(total[i]),
                expected=None,
                log_p=float(log_p[i]),
                log_p_floor=float(floor[i]),
                payload=payloads[i][0],
                payload_error=payloads[i][1],
                log_p_any=float(p_any[i]) if self._holds_for_any(readings[i]) else None,
            )
            for i in range(len(readings))
        ]

    def _holds_for_any(self, reading: Reading) -> bool:
        """Whether the ratio is an e-value over keys whatever the record says."""
        return all(len(part) <= self._longest_for_any for part in reading.parts)

    def log_ratios(self, readings: Sequence[Reading]) -> NDArray[np.float64]:
        """Return ln of the mixed ratio for each nonce: [records, R]."""
        chains = [(i, part) for i, reading in enumerate(readings) for part in reading.parts]
        found = np.zeros((len(readings), self._nonces, len(self.mixture.components)))
        chosen = self._chosen_nonces(chains, len(readings))
        for numbers, symbols in batches([part for _, part in chains]):
            if isinstance(self.ratio, CyclicRatio):
                ratios = self.ratio.log_ratios(symbols, chosen[numbers])
            else:
                ratios = self.ratio.log_ratios(symbols)
            for number, row in zip(numbers, ratios, strict=True):
                found[chains[number][0]] += row
        return self.mixture.mix(found, np.array([reading.num_scored for reading in readings]))

    def _chosen_nonces(
        self, chains: Sequence[tuple[int, NDArray[np.int64]]], records: int
    ) -> NDArray[np.int64]:
        """Return the nonces to look at, the same for all chains of a record: [chains, few].

        Chains of a record have one nonce, so that what they say of it is added up.
        """
        if not isinstance(self.ratio, CyclicRatio) or self._nonces <= FEW_NONCES:
            return np.tile(np.arange(self._nonces), (len(chains), 1))
        scores = np.zeros((records, self._nonces), dtype=np.int64)
        record_of = np.array([record for record, _ in chains], dtype=np.int64)
        for numbers, symbols in batches([part for _, part in chains]):
            np.add.at(scores, record_of[numbers], self.ratio.screen.best_in_part(symbols))
        best = np.argsort(-scores, axis=1, kind="stable")[:, :FEW_NONCES]
        return np.asarray(best[record_of])

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
        """Return ln p for records of so many scored symbols, so many in the longest chain."""
        del scored, longest  # Markov's bound holds at any length
        return markov(log_ratio)


class AutoStatistic(RatioStatistic):
    """The default: the same ratio with its measured null, some twenty times sharper.

    Where no null was simulated (an alphabet of few symbols, another chain or period), Markov's
    bound.
    """

    name = "auto"

    def __init__(self, key: Key, schedule: Excerpt | None = None) -> None:
        super().__init__(key, schedule)
        self._null = _null_of(key, self.mixture)
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
    """Return how many symbols of the longest chain are scored."""
    return max((int(np.count_nonzero(part != UNREAD)) for part in reading.parts), default=0)


_MIXTURES = {  # of alphabets of few and of many symbols
    "paper": (PAPER_MIXTURE, TEXT_PAPER_MIXTURE),
    "turns": (TEXT_TURNS_MIXTURE, TEXT_TURNS_MIXTURE),
}


def mixture_of(profile: Profile) -> Mixture:
    """Return the marks a detector looks for."""
    return _MIXTURES[profile.scheme.name][profile.alphabet.has_many_symbols]


def _null_of(key: Key, mixture: Mixture) -> MixtureNull | None:
    """Return the simulated null of a key's ratio, if there is one."""
    alphabet, scheme = key.profile.alphabet, key.profile.scheme
    if not scheme.has_default_shape:
        return None
    if alphabet == PROTEIN:
        return MixtureNull.shipped(scheme.name)
    if alphabet.has_many_symbols and key.circle.is_fair:
        rates = agreement_rates(alphabet, scheme.name)[:, alphabet.scored]
        name = token_table(scheme.name, len(key.circle.starts))
        return MixtureNull.for_tokens(name, rates, mixture.digest)
    return None


def ratio_of(
    key: Key, mixture: Mixture, excerpt: Excerpt | None = None
) -> CyclicRatio | ChainRatio:
    """Return what computes likelihood ratios for a key, or for an excerpt of its schedule."""
    profile, schedule = key.profile, excerpt or key.circle
    promoted = [schedule.promoted(nonce) for nonce in range(schedule.nonces)]
    rates, shares = _rates(key, excerpt), schedule.shares
    if profile.scheme.is_cycle:
        return CyclicRatio(promoted, rates, schedule.starts, mixture.components, shares=shares)
    chain = cast(Paper, profile.scheme).chain  # all others are cycles
    return ChainRatio(
        promoted[0],
        rates,
        np.array(chain.transition),
        np.array(chain.initial),
        mixture.components,
        shares,
    )


def _rates(key: Key, excerpt: Excerpt | None) -> NDArray[np.float64]:
    """Return how often each symbol agrees at every level: [levels, V]."""
    scheme = key.profile.scheme
    rates = agreement_rates(key.profile.alphabet, scheme.name)
    return with_chance(rates if excerpt is None else rates[:, excerpt.symbols], scheme.chance)


def _fresh_length(profile: Profile) -> int:
    """Return up to which length no path meets a secret coin twice, whatever the text; or -1.

    A path that slips moves on by half to one and a half places for each position, because it
    slips at most every second one. Parts of equal size are not quite independent coins.
    """
    length = _FRESH_LENGTHS[profile.scheme.name](profile.scheme)
    return length if profile.alphabet.has_many_symbols else -1


_FRESH_LENGTHS: dict[str, Callable[[Any], int]] = {
    Paper.name: lambda _: -1,
    Turns.name: lambda turns: 2 * (turns.period - turns.block) // 3,
}
