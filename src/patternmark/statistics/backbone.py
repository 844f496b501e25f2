"""Agreement with a phase, each position weighted by what a model says it can carry.

With rates q of positions (`expect`), the best statistic for one phase is a weighted sum of signs,

    S = sum over positions of w s,    w = ln(q / (1 - q)) / 2,    s = +1 where the symbol agrees.

Its null is exact for the weights as they are rounded. The best over phases, nonces and strengths is
judged by Bonferroni's inequality with weights of its own: most of the false positives are granted
to the starts of the schedule, where an uncut design begins.

Of a hardened key nothing is assumed about the sequence. A sign rests on one secret bit: that of its
block and pair of letters. Positions that share a bit are taken together, as one weight (agreeing
letters add up, opposite ones cancel), and different bits are independent coins, so the p-value of
a phase is exact over keys for every single chain, repeats and all. The paper's scheme has one split
for all positions; signs count as independent, as in all its other detectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.blocks import protein_pairs
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Schedule
from patternmark.core.turns import TurnSchedule
from patternmark.errors import ParameterError
from patternmark.evidence import fisher
from patternmark.likelihood import log_mean_exp
from patternmark.null.signs import SignedSum
from patternmark.statistics.base import (
    CURVE_POINTS,
    Measurement,
    NullCurve,
    likeliest_nonce,
)

_AT_STARTS = 0.8  # the share of false positives granted to phases that are starts
_FINEST = 0.02  # to which weights are rounded, in nats
_MOST_STEPS = 2**14  # in the sum of all weights: longer sequences are rounded more
_KNOWN_NULLS = 512  # fresh keys meet the same nulls again


class Found(NamedTuple):
    """The strongest evidence in one chain."""

    evidence: float  # -ln of its p-value; less than 0 where the bound is more than 1
    log_share: float  # ln of its share of the false positives
    value: int  # the sum, in steps
    step: float
    null: SignedSum

    @property
    def log_p(self) -> float:
        return min(-self.evidence, 0.0)


class BackboneStatistic:
    """The weighted agreement of the best phase; readings must have rates.

    The statistic is the evidence of the best phase, -ln of what Bonferroni's inequality makes of
    its p-value: sums under different strengths have different weights and cannot be compared.
    `source` says where the rates come from: it becomes part of the signature.
    """

    name = "backbone"

    def __init__(self, key: Key, source: str = "") -> None:
        _check(key)
        self._schedule = key.schedule
        self.signature = source or "source:unknown"
        nonces = range(self._schedule.nonces)
        promoted = np.stack([self._schedule.promoted(nonce) for nonce in nonces])  # [R, P, V]
        signs = np.where(promoted, 1.0, -1.0)
        signs[..., list(PROTEIN.unscored)] = 0.0
        self._transform = np.fft.rfft(signs, axis=1).transpose(1, 0, 2)  # [P/2 + 1, R, V]
        self._is_start = np.isin(np.arange(self._schedule.period), self._schedule.starts)

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record; its chains are combined by Fisher's method."""
        return [self._judge(reading) for reading in readings]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the tail that decided; of several chains, that of Fisher's method."""
        del statistic  # of one chain it is computed again, in steps
        chains = [self._chain(reading, chain) for chain in reading.spoken]
        found = [chain.best() for chain in chains]
        if len(found) != 1:
            return NullCurve.of_combined([one.log_p for one in found])
        one = found[0]
        last = max(min(int(1.1 * max(one.value, one.null.most // 4)), one.null.most), 1)
        values = np.unique(np.linspace(0, last, CURVE_POINTS).astype(np.int64))
        tails = [min(one.null.log_tail(value) - one.log_share, 0.0) for value in values.tolist()]
        observed = one.value * one.step
        in_nats = np.asarray(values * one.step, dtype=np.float64)
        return NullCurve.of_tail(in_nats, tails, observed, "weighted agreement")

    def _judge(self, reading: Reading) -> Measurement:
        chains = [self._chain(reading, chain) for chain in reading.spoken]
        if not chains:
            return Measurement(0.0, None, 0.0, 0.0)
        found = [chain.best() for chain in chains]
        by_nonce = np.sum([chain.log_ratios() for chain in chains], axis=0)
        payload, error = likeliest_nonce(by_nonce)
        return Measurement(
            statistic=float(sum(one.evidence for one in found)),
            expected=None,
            log_p=fisher([one.log_p for one in found]),
            log_p_floor=fisher([chain.log_floor() for chain in chains]),
            payload=payload,
            payload_error=error,
        )

    def _chain(self, reading: Reading, chain: slice) -> _Chain:
        if reading.rates is None:
            raise ParameterError(
                "the detector backbone needs the rates of positions that a model gives: "
                "pass them as rates (patternmark.expect), or --backbone on the command line"
            )
        symbols, rates = reading.symbols[chain], reading.rates[:, chain]
        read = symbols != UNREAD
        exact = np.where(read, 0.5 * np.log(rates / (1.0 - rates)), 0.0)  # [levels, n]
        step = max(_FINEST, float(exact.sum(axis=1).max()) / _MOST_STEPS)
        weights = np.rint(exact / step).astype(np.int64)
        sums = self._sums(symbols, weights)
        missed = 0.5 * np.log(4.0 * rates * (1.0 - rates)) @ read  # [levels]
        return _Chain(self._schedule, self._is_start, symbols, weights, sums, step, missed)

    def _sums(self, symbols: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return S of every level, nonce and phase, by correlation: [levels, R, P]."""
        period = self._schedule.period
        at = np.flatnonzero(symbols != UNREAD)
        heaps = np.zeros((len(weights), period, PROTEIN.size))
        for heap, row in zip(heaps, weights, strict=True):
            np.add.at(heap, (at % period, symbols[at]), row[at])
        seen = np.fft.rfft(heaps, axis=1).conj().transpose(1, 2, 0)  # [P/2 + 1, V, levels]
        sums = np.fft.irfft(self._transform @ seen, n=period, axis=0)  # [P, R, levels]
        return np.asarray(np.rint(sums).astype(np.int64).transpose(2, 1, 0))


class _Chain(NamedTuple):
    """One chain: its weights, and its sums under all phases."""

    schedule: Schedule
    is_start: NDArray[np.bool_]  # [P]
    symbols: NDArray[np.int64]  # [n]
    weights: NDArray[np.int64]  # [levels, n] in steps
    sums: NDArray[np.int64]  # [levels, R, P]
    step: float
    missed: NDArray[np.float64]  # [levels] what turns S into ln of the likelihood ratio

    def best(self) -> Found:
        """Return the phase, nonce and strength with the smallest p-value."""
        return max(self._candidates(), key=lambda found: found.evidence)

    def _candidates(self) -> Iterator[Found]:
        """Find the best phases of each alignment: starts, and any."""
        alignments = _num_alignments(self.schedule)
        for level, weights in enumerate(self.weights):
            for alignment in range(alignments):
                null = _null_of(_coins(self.schedule, self.symbols, weights, alignment).tobytes())
                phases = slice(alignment, None, alignments)
                sums, starts = self.sums[level][:, phases], self.is_start[phases]
                for share, some in ((self._share_of_start, starts), (self._share_of_any, None)):
                    chosen = sums if some is None else sums[:, some]
                    if chosen.size and share > 0.0:
                        value = int(chosen.max())
                        evidence = log(share) - null.log_tail(value)
                        yield Found(evidence, log(share), value, self.step, null)

    def log_floor(self) -> float:
        """Return ln of the smallest p-value these symbols could have reached."""
        share = max(self._share_of_start, self._share_of_any)
        bits = [
            np.count_nonzero(_coins(self.schedule, self.symbols, weights, alignment))
            for weights in self.weights
            for alignment in range(_num_alignments(self.schedule))
        ]
        return min(-max(bits) * log(2.0) - log(share), 0.0)

    def log_ratios(self) -> NDArray[np.float64]:
        """Return ln of the likelihood ratio of each nonce, over starts and strengths: [R]."""
        logs = self.sums[..., self.is_start] * self.step + self.missed[:, None, None]
        return log_mean_exp(np.moveaxis(logs, 1, 0).reshape(logs.shape[1], -1))

    @property
    def _share_of_start(self) -> float:
        """The share of the false positives of one start of one nonce at one strength."""
        share = 1.0 if self.is_start.all() else _AT_STARTS
        return float(share / (np.count_nonzero(self.is_start) * self._chances))

    @property
    def _share_of_any(self) -> float:
        share = 0.0 if self.is_start.all() else 1.0 - _AT_STARTS
        return float(share / (len(self.is_start) * self._chances))

    @property
    def _chances(self) -> int:
        return self.schedule.nonces * len(self.weights)


def _check(key: Key) -> None:
    """Refuse keys whose agreement is no fair coin, or for which no model gives rates."""
    profile = key.profile
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            f"the detector backbone is for proteins: key {key.key_id} marks alphabet "
            f"{profile.alphabet.name!r}"
        )
    takes_turns = [row.tolist() for row in np.array(profile.chain.transition)] == [[0, 1], [1, 0]]
    if not profile.is_hardened and not takes_turns:
        raise ParameterError(
            "the detector backbone needs a hardened key, or two keys that take turns as the "
            f"paper's do: take another --detector for key {key.key_id}"
        )


def _num_alignments(schedule: Schedule) -> int:
    """Return in how many ways phases cut a sequence into blocks."""
    return schedule.block if isinstance(schedule, HardenedSchedule) else 1


def _coins(
    schedule: Schedule, symbols: NDArray[np.int64], weights: NDArray[np.int64], alignment: int
) -> NDArray[np.int64]:
    """Return the weight of each independent coin under phases of an alignment."""
    at = np.flatnonzero(symbols != UNREAD)
    if not isinstance(schedule, HardenedSchedule):
        return weights[at]
    pairs = protein_pairs()
    pair_of, side_of = np.zeros((2, PROTEIN.size), dtype=np.int64)
    for side in (0, 1):
        pair_of[pairs[:, side]] = np.arange(len(pairs))
        side_of[pairs[:, side]] = side
    place = at + alignment
    bit = place % schedule.period // schedule.block * len(pairs) + pair_of[symbols[at]]
    agrees = (place + side_of[symbols[at]]) % 2 == 0  # the bit that is 1 promotes it
    heaps = np.zeros(schedule.bits, dtype=np.int64)
    np.add.at(heaps, bit, np.where(agrees, 1, -1) * weights[at])
    return heaps


@lru_cache(_KNOWN_NULLS)
def _null_of(weights: bytes) -> SignedSum:
    return SignedSum(np.frombuffer(weights, dtype=np.int64))
