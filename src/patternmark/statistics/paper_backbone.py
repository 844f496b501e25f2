"""A detector for the paper's marks that weights each position by a model's expected rate.

With rates q of positions (`expected_rates`), the best statistic of one phase is a weighted sum of
signs,

    S = sum over positions of w s,    w = ln(q / (1 - q)) / 2,    s = +1 if the symbol agrees.

Its null is exact for the rounded weights. Two alternating keys have two phases, and the sum of one
is minus that of the other. Bonferroni's inequality corrects for the choice among phases and
strengths. Signs count as independent, as in all detectors of the paper's scheme.

Block marks do not need a statistic of their own: `block_ratio` accepts rates of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper
from patternmark.errors import ParameterError
from patternmark.evidence import fisher
from patternmark.null.signs import SignedSum
from patternmark.statistics.base import CURVE_POINTS, Measurement, NullCurve

BACKBONE = "backbone"  # the name of detectors that are given rates of positions
_PHASES = 2
_MIN_STEP = 0.02  # nats; weights are rounded to multiples of a step, which is at least this
_MAX_STEPS = 2**14  # steps in the sum of all weights: longer sequences get larger steps
_CACHED_NULLS = 512  # fresh keys need the same nulls again


class PhaseFit(NamedTuple):
    """The strongest evidence in one chain."""

    evidence: float  # -ln of its p-value; below 0 if the bound is above 1
    log_chances: float  # ln of the number of phases and strengths that were tried
    value: int  # the weighted sum, in steps
    step: float
    null: SignedSum

    @property
    def log_p(self) -> float:
        return min(-self.evidence, 0.0)


class BackboneStatistic:
    """The weighted agreement of the best phase; readings must have rates.

    The statistic is the evidence of the best phase: -ln of its p-value after Bonferroni's
    correction. The sums themselves cannot be compared, because each strength has its own weights.
    `source` says where the rates come from: it becomes part of the signature.
    """

    name = BACKBONE

    def __init__(self, key: Key, source: str) -> None:
        if cast(Paper, key.profile.scheme).chain.transition != KeyChain.alternating().transition:
            raise ParameterError(
                "rates of positions need two keys that alternate like the paper's: judge key "
                f"{key.key_id} without them"
            )
        self.signature = source
        part_of = key.partition.part_of
        self._sign = np.append(np.where(part_of < 0, 0, 1 - 2 * part_of), 0)  # UNREAD is last

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record; its chains are combined by Fisher's method."""
        return [self._judge(reading) for reading in readings]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the tail that decided; for several chains, that of Fisher's method."""
        del statistic  # it is computed again, in steps
        found = [self._best(reading, chain) for chain in reading.scored_chains]
        if len(found) != 1:
            return NullCurve.of_combined([one.log_p for one in found])
        one = found[0]
        last = max(min(int(1.1 * max(one.value, one.null.most // 4)), one.null.most), 1)
        values = np.unique(np.linspace(0, last, CURVE_POINTS).astype(np.int64))
        tails = [min(one.null.log_tail(v) + one.log_chances, 0.0) for v in values.tolist()]
        observed = one.value * one.step
        in_nats = np.asarray(values * one.step, dtype=np.float64)
        return NullCurve.of_tail(in_nats, tails, observed, "weighted agreement")

    def _judge(self, reading: Reading) -> Measurement:
        found = [self._best(reading, chain) for chain in reading.scored_chains]
        if not found:
            return Measurement(0.0, None, 0.0, 0.0)
        floors = [min(one.null.log_floor + one.log_chances, 0.0) for one in found]
        return Measurement(
            statistic=float(sum(one.evidence for one in found)),
            expected=None,
            log_p=fisher([one.log_p for one in found]),
            log_p_floor=fisher(floors),
        )

    def _best(self, reading: Reading, chain: slice) -> PhaseFit:
        """Return the phase and strength with the smallest p-value in one chain."""
        symbols = reading.symbols[chain]
        weights, step = _weights(reading, chain)
        turns = 1 - 2 * (np.arange(len(symbols)) % _PHASES)  # +1 at positions of the first key
        sums = np.abs(weights @ (self._sign[symbols] * turns))  # [levels] for the better phase
        log_chances = log(_PHASES * len(weights))
        read = symbols != UNREAD
        found = []
        for value, row in zip(sums.tolist(), weights, strict=True):
            null = _null_of(row[read].tobytes())
            found.append(
                PhaseFit(-null.log_tail(value) - log_chances, log_chances, value, step, null)
            )
        return max(found, key=lambda one: one.evidence)


def _weights(reading: Reading, chain: slice) -> tuple[NDArray[np.int64], float]:
    """Return the weights of a chain's positions [levels, n] in steps, and the step in nats."""
    if reading.rates is None:
        raise ParameterError(
            "this detector needs the rates of positions that a model gives: pass them as rates "
            "(see patternmark.statistics.expected_rates)"
        )
    rates, read = reading.rates[:, chain], reading.symbols[chain] != UNREAD
    exact = np.where(read, 0.5 * np.log(rates / (1.0 - rates)), 0.0)
    step = max(_MIN_STEP, float(exact.sum(axis=1).max()) / _MAX_STEPS)
    return np.rint(exact / step).astype(np.int64), step


@lru_cache(_CACHED_NULLS)
def _null_of(weights: bytes) -> SignedSum:
    return SignedSum(np.frombuffer(weights, dtype=np.int64))
