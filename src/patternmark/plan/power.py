"""Estimate how often a mark is found: simulate marked sequences and judge them by `auto`.

Letters have their natural frequencies, changed by the agreement rates that were measured on designs
(see `rates`). The simulation does not model one effect: in real designs some stretches can follow
the key and others cannot, so designs differ more from each other than simulated sequences do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.fast.compiled import repeated
from patternmark.intervals import rate_interval
from patternmark.plan.simulate import marked_sequences, rates_at
from patternmark.results import Result
from patternmark.statistics.rates import DELTAS

LONGEST = 4000  # symbols of a simulated sequence
DRAWS, KEYS = 400, 8
_DELTA_STEP = 0.01

Step = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Power(Result):
    """The share of marked sequences that are found, with its 95 % interval."""

    delta: float
    length: int
    tpr: float
    low: float
    high: float
    hits: int
    trials: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
        return asdict(self)

    def cells(self) -> dict[str, str]:
        """Return what people look at first, by name."""
        return {
            "delta": f"{self.delta:g}",
            "length": str(self.length),
            "found": f"{self.tpr:.1%} ({self.low:.1%} to {self.high:.1%})",
        }


class PowerStudy:
    """Simulates marks of a profile and counts how many `auto` finds at a false positive rate.

    All deltas and lengths use the same keys and random numbers: a longer sequence begins with the
    shorter ones. So differences between rates are more exact than the rates themselves.
    """

    def __init__(
        self,
        profile: Profile,
        fpr: float,
        *,
        draws: int = DRAWS,
        seed: int = 1,
        step: Step = lambda what: None,
    ) -> None:
        self.profile, self.fpr, self.draws = profile, fpr, draws
        self._step = step
        keys = [_synthetic_key(profile, seed, number) for number in range(min(KEYS, draws))]
        self._judges = [Detector(key, fpr=fpr) for key in keys]
        self._uniforms = np.random.default_rng(seed).random((draws, LONGEST))
        self._known: dict[tuple[float, int], Power] = {}

    def power(self, delta: float, length: int) -> Power:
        """Return the rate for one delta and length."""
        if not 1 <= length <= LONGEST:
            raise ParameterError(f"the length must be from 1 to {LONGEST}, not {length}")
        if (delta, length) not in self._known:
            self._step(f"delta {delta:g}, length {length}")
            rates = rates_at(delta, self.profile.alphabet, self.profile.scheme.name)
            hits = 0
            with repeated(len(self._judges)):
                for number, judge in enumerate(self._judges):
                    some = self._uniforms[number :: len(self._judges), :length]
                    marked = marked_sequences(judge.key, rates, some)
                    hits += sum(verdict.prediction for verdict in judge.detect_many(marked))
            low, high = rate_interval(hits, self.draws)
            share = hits / self.draws
            self._known[delta, length] = Power(delta, length, share, low, high, hits, self.draws)
        return self._known[delta, length]

    def least_length(self, delta: float, tpr: float) -> Power | None:
        """Return the shortest length that reaches a rate, to 2 %; None if even LONGEST does not."""
        high = 50
        while self.power(delta, high).tpr < tpr:
            if high == LONGEST:
                return None
            high = min(2 * high, LONGEST)
        low = high // 2 if high > 50 else 0
        while high - low > max(1, high // 50):
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(delta, middle).tpr >= tpr else (middle, high)
        return self.power(delta, high)

    def least_delta(self, length: int, tpr: float) -> Power | None:
        """Return the least delta that reaches a rate, to 0.01; None if no measured delta does."""
        low, high = 0, round(DELTAS[-1] / _DELTA_STEP)
        if self._at(high, length).tpr < tpr:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._at(middle, length).tpr >= tpr else (middle, high)
        return self._at(high, length)

    def curves(self, deltas: Iterable[float], lengths: Iterable[int]) -> list[list[Power]]:
        """Return one curve over the lengths for each delta."""
        lengths = list(lengths)
        return [[self.power(delta, length) for length in lengths] for delta in deltas]

    def _at(self, steps: int, length: int) -> Power:
        return self.power(round(steps * _DELTA_STEP, 6), length)


def _synthetic_key(profile: Profile, seed: int, number: int) -> Key:
    raw = hashlib.sha256(f"synthetic key/{seed}/{number}".encode()).digest()
    return Key.of(Secret(raw), profile)
