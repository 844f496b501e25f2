"""What every statistic returns: a value, its mean under the null, and a p-value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading
from patternmark.evidence import fisher
from patternmark.statistics.likelihood import log_mean_exp

_BATCH = 256  # chains of similar length that are measured together
CURVE_POINTS = 40  # points of a tail in a figure: some nulls are computed point by point


@dataclass(frozen=True)
class Measurement:
    """A statistic with its p-value, and the smallest p-value that the sequence could have."""

    statistic: float
    expected: float | None  # the mean under the null; None for ratios and where it is unknown
    log_p: float
    log_p_floor: float
    segment: tuple[int, int] | None = None  # positions from 0, half-open: where the mark lies
    payload: int | None = None
    payload_error: float | None = None  # the probability that the payload is another one
    log_p_any: float | None = None  # ln of `p_any`, if the detector has one
    log_p_any_floor: float | None = None  # the smallest that `log_p_any` could be
    log_e_any: float | None = None  # for texts: ln of the e-value behind `p_any`, even if below 1
    note: str = ""  # for people: how the sequence was judged

    def with_note(self, note: str) -> Measurement:
        """Return this measurement with a note."""
        return replace(self, note=note)

    def judged_by(self, statistic: float, log_p: float, log_p_floor: float) -> Measurement:
        """Return this measurement with another statistic; what belongs to `p_any` stays."""
        return replace(self, statistic=statistic, log_p=log_p, log_p_floor=log_p_floor)


@dataclass(frozen=True, eq=False)
class NullCurve:
    """The null distribution for one record and the observed value, to be drawn in a figure."""

    values: NDArray[np.float64]  # [k], ascending
    heights: NDArray[np.float64]  # [k] P(value); for a tail, ln P(this value or more)
    observed: float
    name: str  # what the values are
    is_tail: bool = False

    @classmethod
    def of_law(cls, law: NDArray[np.float64], observed: float, name: str) -> NullCurve:
        """Make a curve of P(value = 0, 1, ...) without very unlikely values."""
        likely = np.flatnonzero(law > law.max() * 1e-6)
        values = np.arange(likely[0], likely[-1] + 1)
        return cls(values.astype(np.float64), law[values], observed, name)

    @classmethod
    def of_tail(
        cls,
        values: NDArray[np.int64] | NDArray[np.float64],
        log_ps: ArrayLike,
        observed: float,
        name: str,
    ) -> NullCurve:
        """Make a curve of ln P(value or more), without impossible values."""
        heights = np.asarray(log_ps, dtype=np.float64)
        possible = np.isfinite(heights)
        found = values[possible].astype(np.float64)
        return cls(found, heights[possible], observed, name, is_tail=True)

    @classmethod
    def of_combined(cls, log_ps: Sequence[float]) -> NullCurve:
        """Make the curve of Fisher's method: ln p against the sum of -ln p over the chains."""
        observed = -float(np.sum(log_ps))
        values = np.linspace(0.0, 1.1 * max(observed, 10.0), CURVE_POINTS)
        chains = len(log_ps)  # only the sum of the chains matters
        heights = [fisher([-x / max(chains, 1)] * chains) for x in values.tolist()]
        return cls.of_tail(values, heights, observed, "-ln p summed over chains")


class Statistic(Protocol):
    """What a detector computes from a reading, with its null."""

    name: str
    signature: str  # its parameters, as `name:value` joined by `|`

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the null for a record whose `statistic` was measured."""


def padded(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return sequences as rows, padded with UNREAD: [B, longest]."""
    table = np.full((len(rows), max(map(len, rows), default=0)), UNREAD)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def num_batches(chains: Sequence[NDArray[np.int64]]) -> int:
    """Return how many `batches` there are."""
    return -(-len(chains) // _BATCH)


def batches(
    chains: Sequence[NDArray[np.int64]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield batches of chains of similar length: their numbers [B], and symbols [B, longest]."""
    order = np.argsort([len(chain) for chain in chains], kind="stable")
    for at in range(0, len(order), _BATCH):
        some = order[at : at + _BATCH]
        yield some, padded([chains[number] for number in some])


def likeliest_nonce(by_nonce: NDArray[np.float64]) -> tuple[int | None, float | None]:
    """Return the likeliest nonce, and the probability that a marked sequence has another one.

    `by_nonce` are logarithms of ratios. A nonce that was not tested (-inf) counts with a ratio of
    1, the mean ratio of nonces that marked nothing.
    """
    if len(by_nonce) == 1:
        return None, None
    best = int(np.argmax(by_nonce))
    others = np.delete(by_nonce, best)
    others = np.where(np.isfinite(others), others, 0.0)
    log_others = log_mean_exp(others, total=True) - by_nonce[best]
    return best, float(np.exp(-np.logaddexp(0.0, -log_others)))
