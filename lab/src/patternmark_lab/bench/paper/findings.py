"""The findings in the numbers of `bench paper`: what reproduces, who is ahead, valid p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from patternmark.intervals import rate_interval
from patternmark_lab.bench.paper.numbers import DETECTION, FPRS, SAMPLES
from patternmark_lab.bench.paper.plan import LEVELS, OURS, OURS_LIKELIEST, PUBLISHED, REPORTED
from patternmark_lab.bench.paper.summary import AHEAD, difference, span, verdict_of
from patternmark_lab.bench.paper.verdicts import NULLS

Row = dict[str, Any]
_NEARLY_ALL = 0.99
# Measures of equal quality; the tables use the first one.
MEASURES = {
    "protein": ("nll", "score, v_48_002", "score, v_48_030", "structure agreement"),
    "translation": ("BLEU", "chrF"),
}

_NAMES = {
    "nll": "likelihood",
    "score, v_48_002": "likelihood under v_48_002",
    "score, v_48_030": "likelihood under v_48_030",
}


def key_of(level: float) -> str:
    """Return the name of a level in a result."""
    return f"{level:g}"


def name_of_measure(measure: str) -> str:
    """Return the readable name of a measure of quality."""
    return _NAMES.get(measure, measure)


@dataclass(frozen=True)
class Agreement:
    """One of our rates and the paper's, as shares."""

    scheme: str
    delta: float
    level: float
    ours: float
    n: int  # sequences behind our rate
    paper: float
    difference: tuple[float, float, float]  # and its interval

    @property
    def agrees(self) -> bool:
        """True if chance explains the difference."""
        _, low, high = self.difference
        return low <= 0.0 <= high


# Other readings of the paper's schemes, which are compared with its numbers too.
READINGS = {"soft-by-step": "soft"}


def agreements(summary: dict[str, Any]) -> list[Agreement]:
    """Compare every rate that the paper also reports."""
    found = []
    for row in summary["detection"]:
        name = READINGS.get(row["judge"], row["judge"])
        printed = DETECTION[summary["task"]].get(name, {}).get(row["delta"])
        if printed is None:
            continue
        for level, percent in zip(FPRS, printed[1], strict=True):
            rate, paper = row["nominal"][key_of(level)], percent / 100.0
            n = SAMPLES[summary["task"]]
            its_span = rate_interval(round(paper * n), n)
            apart = difference(rate["rate"], span(rate), paper, its_span)
            found.append(
                Agreement(row["judge"], row["delta"], level, rate["rate"], rate["n"], paper, apart)
            )
    return found


@dataclass(frozen=True)
class Tally:
    """How a scheme's rates agree with the paper's."""

    scheme: str
    n: int  # sequences behind each of our rates, at most
    cells: int
    agree: int
    mean_difference: float  # at the reported level
    most: float  # the largest difference there


def tallies(found: Sequence[Agreement]) -> list[Tally]:
    """Return the tally of every scheme of the paper."""
    result = []
    for scheme in dict.fromkeys(cell.scheme for cell in found):
        own = [cell for cell in found if cell.scheme == scheme]
        at = [cell.difference[0] for cell in own if cell.level == REPORTED]
        agree = sum(cell.agrees for cell in own)
        n = max(cell.n for cell in own)
        result.append(Tally(scheme, n, len(own), agree, sum(at) / len(at), max(at, key=abs)))
    return result


def compare_with_baselines(summary: dict[str, Any], kind: str) -> tuple[int, list[Row]]:
    """Compare the paper's scheme with its baselines at the same delta, as the paper does.

    Return the number of cells, and the rows of baselines that find more, beyond chance; `kind` is
    "nominal" or "matched".
    """
    rows = {(row["judge"], row["delta"]): row for row in summary["detection"]}
    baselines = [name for name in DETECTION[summary["task"]] if name != PUBLISHED]
    cells = [row for (judge, _), row in rows.items() if judge in baselines]

    def finds_more(row: Row) -> bool:
        theirs = row[kind][key_of(REPORTED)]
        own = rows[PUBLISHED, row["delta"]][kind][key_of(REPORTED)]
        return difference(theirs["rate"], span(theirs), own["rate"], span(own))[1] > 0.0

    return len(cells), [row for row in cells if finds_more(row)]


def too_many(summary: dict[str, Any]) -> list[Row]:
    """Return the rates of false positives that are above their level, beyond chance."""
    return [
        {"judge": row["judge"], "what": row["what"], "level": level, **row["rates"][key_of(level)]}
        for row in summary["false_positives"]
        for level in LEVELS
        if span(row["rates"][key_of(level)])[0] > level
    ]


def false_alarms(summary: dict[str, Any]) -> set[str]:
    """Return the detectors whose p-value is not valid at 0.1 % on the model's unmarked outputs."""
    return {
        row["judge"]
        for row in too_many(summary)
        if row["what"] == NULLS[0] and row["level"] == REPORTED
    }


def against(rows: Sequence[Row], kind: str, ours: str = OURS) -> list[Row]:
    """Compare the rates of other detectors with those of one detector (`ours`).

    Rows are of attacks or of windows, all at one delta; `kind` is "nominal" or "matched".
    """
    level = key_of(REPORTED)
    own = {(r["how"], r["value"]): r[kind][level] for r in rows if r["judge"] == ours}
    found = []
    for row in rows:
        mine, theirs = own.get((row["how"], row["value"])), row[kind][level]
        if mine is None or row["judge"] in (ours, OURS, OURS_LIKELIEST):
            continue
        _, low, high = difference(mine["rate"], span(mine), theirs["rate"], span(theirs))
        names = {name: row[name] for name in ("judge", "scheme", "how", "value")}
        found.append(names | {"rate": theirs, "ours": mine, "verdict": verdict_of(low, high)})
    return found


def is_all(row: Row) -> bool:
    """Tell whether both find nearly everything, so that neither can be ahead."""
    return bool(min(row["rate"]["rate"], row["ours"]["rate"]) >= _NEARLY_ALL)


def gains(compared: Sequence[Row]) -> tuple[float, float, float] | None:
    """Return the smallest, median and largest gain of cells where we are ahead."""
    ahead = [row["difference"]["value"] for row in compared if row["verdict"] == AHEAD]
    return (min(ahead), median(ahead), max(ahead)) if ahead else None


def num_unmarked(summary: dict[str, Any]) -> int:
    """Return the number of unmarked verdicts behind a measured threshold."""
    return int(_unmarked(summary)["n"])


def num_null_keys(summary: dict[str, Any]) -> int:
    """Return the number of keys that gave the unmarked verdicts."""
    return int(_unmarked(summary)["keys"])


def _unmarked(summary: dict[str, Any]) -> Row:
    rows = (row for row in summary["false_positives"] if row["what"] == NULLS[0])
    return dict(next(rows)["rates"][key_of(REPORTED)])
