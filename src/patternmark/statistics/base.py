"""What every statistic gives: a value, what chance gives on average, and a p-value."""

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

_BATCH = 256  # chains of like length that are measured together
CURVE_POINTS = 40  # of a tail in a picture: some nulls are computed point by point


@dataclass(frozen=True)
class Measurement:
    """A statistic with its p-value, and the smallest p-value the sequence could have reached."""

    statistic: float
    expected: float | None  # None where no mean is meant, as for a ratio
    log_p: float
    log_p_floor: float
    segment: tuple[int, int] | None = None  # positions from 0, half-open: where the mark lies
    payload: int | None = None
    payload_error: float | None = None  # the probability that it is another
    log_p_any: float | None = None  # ln p that holds for any sequence, where there is one
    log_p_any_floor: float | None = None  # the smallest it could have been
    log_e_any: float | None = None  # of a text: ln of the e-value behind it, also where it is small
    note: str = ""  # for people: how it was judged

    def with_note(self, note: str) -> Measurement:
        """Return the same with something to say."""
        return replace(self, note=note)

    def judged_by(self, statistic: float, log_p: float, log_p_floor: float) -> Measurement:
        """Return the same by another statistic; what holds for any sequence stays."""
        return replace(self, statistic=statistic, log_p=log_p, log_p_floor=log_p_floor)


@dataclass(frozen=True, eq=False)
class NullCurve:
    """What chance does with one record, for a picture of it beside what was observed."""

    values: NDArray[np.float64]  # [k], ascending
    heights: NDArray[np.float64]  # [k] the probability of each; of a tail, ln of it or more
    observed: float
    name: str  # what the values are
    is_tail: bool = False

    @classmethod
    def of_law(cls, law: NDArray[np.float64], observed: float, name: str) -> NullCurve:
        """Make a curve of P(value = 0, 1, ...), without what hardly ever happens."""
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
        """Make a curve of ln P(value or more), where that is possible at all."""
        heights = np.asarray(log_ps, dtype=np.float64)
        possible = np.isfinite(heights)
        found = values[possible].astype(np.float64)
        return cls(found, heights[possible], observed, name, is_tail=True)

    @classmethod
    def of_combined(cls, log_ps: Sequence[float]) -> NullCurve:
        """Make the curve of Fisher's method: ln p against the sum of -ln p over the chains."""
        observed = -float(np.sum(log_ps))
        values = np.linspace(0.0, 1.1 * max(observed, 10.0), CURVE_POINTS)
        chains = len(log_ps)  # how the sum is made up does not matter
        heights = [fisher([-x / max(chains, 1)] * chains) for x in values.tolist()]
        return cls.of_tail(values, heights, observed, "-ln p summed over chains")


class Statistic(Protocol):
    """What a detector measures, with the null that goes with it."""

    name: str
    signature: str  # its parameters, as `name:value` joined by `|`

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure every record of a batch."""

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return what chance does with a record whose `statistic` was measured."""


def padded(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Lay sequences under one another, filled up with UNREAD: [B, longest]."""
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
    """Yield chains of like length together: their numbers [B], and them padded [B, longest]."""
    order = np.argsort([len(chain) for chain in chains], kind="stable")
    for at in range(0, len(order), _BATCH):
        some = order[at : at + _BATCH]
        yield some, padded([chains[number] for number in some])


def likeliest_nonce(by_nonce: NDArray[np.float64]) -> tuple[int | None, float | None]:
    """Return the likeliest nonce, and how likely it is another if the sequence is marked.

    `by_nonce` are logarithms of ratios. A nonce that was not looked at (-inf) counts as ratio 1:
    the mean of the ratio of a nonce that marked nothing.
    """
    if len(by_nonce) == 1:
        return None, None
    best = int(np.argmax(by_nonce))
    others = np.delete(by_nonce, best)
    others = np.where(np.isfinite(others), others, 0.0)
    log_others = log_mean_exp(others, total=True) - by_nonce[best]
    return best, float(np.exp(-np.logaddexp(0.0, -log_others)))
