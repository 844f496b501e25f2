"""What the numbers of `bench paper` say: what reproduces, who is ahead, whose p-values hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from patternmark.bench.paper.numbers import DETECTION, FPRS, SAMPLES
from patternmark.bench.paper.plan import LEVELS, REPORTED
from patternmark.bench.paper.summary import AHEAD, difference, span
from patternmark.bench.paper.verdicts import NULLS
from patternmark.intervals import rate_interval

Row = dict[str, Any]
# By what cells are said to be of equal quality, the first for all tables.
MEASURES = {
    "protein": ("nll", "score, v_48_002", "score, v_48_030", "structure agreement"),
    "translation": ("BLEU", "chrF"),
}


def key_of(level: float) -> str:
    """Return how a result names a level."""
    return f"{level:g}"


@dataclass(frozen=True)
class Agreement:
    """One rate of ours beside the paper's, as shares."""

    scheme: str
    delta: float
    level: float
    ours: float
    paper: float
    difference: tuple[float, float, float]  # with its interval

    @property
    def agrees(self) -> bool:
        """Whether chance explains the difference."""
        _, low, high = self.difference
        return low <= 0.0 <= high


def agreements(summary: dict[str, Any]) -> list[Agreement]:
    """Compare every rate that the paper reports too."""
    found = []
    for row in summary["detection"]:
        printed = DETECTION[summary["task"]].get(row["judge"], {}).get(row["delta"])
        if printed is None:
            continue
        for level, percent in zip(FPRS, printed[1], strict=True):
            rate, paper = row["nominal"][key_of(level)], percent / 100.0
            n = SAMPLES[summary["task"]]
            its_span = rate_interval(round(paper * n), n)
            apart = difference(rate["rate"], span(rate), paper, its_span)
            found.append(
                Agreement(row["judge"], row["delta"], level, rate["rate"], paper, apart)
            )
    return found


@dataclass(frozen=True)
class Tally:
    """How a scheme's rates agree with the paper's."""

    scheme: str
    cells: int
    agree: int
    mean_difference: float  # at the reported level
    most: float  # the largest one there


def tallies(found: Sequence[Agreement]) -> list[Tally]:
    """Return the tally of every scheme that the paper has."""
    result = []
    for scheme in dict.fromkeys(cell.scheme for cell in found):
        own = [cell for cell in found if cell.scheme == scheme]
        at = [cell.difference[0] for cell in own if cell.level == REPORTED]
        agree = sum(cell.agrees for cell in own)
        result.append(Tally(scheme, len(own), agree, sum(at) / len(at), max(at, key=abs)))
    return result


def too_many(summary: dict[str, Any]) -> list[Row]:
    """Return the rates of false positives that are above their level, beyond chance."""
    return [
        {"judge": row["judge"], "what": row["what"], "level": level, **row["rates"][key_of(level)]}
        for row in summary["false_positives"]
        for level in LEVELS
        if span(row["rates"][key_of(level)])[0] > level
    ]


def false_alarms(summary: dict[str, Any]) -> set[str]:
    """Return the detectors whose own p-value of 0.1 % is not true for what the model writes."""
    return {
        row["judge"]
        for row in too_many(summary)
        if row["what"] == NULLS[0] and row["level"] == REPORTED
    }


def gains(compared: Sequence[Row]) -> tuple[float, float, float] | None:
    """Return the least, median and greatest gain of cells where we are ahead."""
    ahead = [row["difference"]["value"] for row in compared if row["verdict"] == AHEAD]
    return (min(ahead), median(ahead), max(ahead)) if ahead else None


def num_unmarked(summary: dict[str, Any]) -> int:
    """Return behind how many verdicts a measured threshold stands."""
    return int(
        next(
            row["rates"][key_of(REPORTED)]["n"]
            for row in summary["false_positives"]
            if row["what"] == NULLS[0]
        )
    )
