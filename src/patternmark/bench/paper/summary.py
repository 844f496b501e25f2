"""From verdicts to numbers: rates with their intervals, at nominal and at measured thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.bench.paper.designs import NONE
from patternmark.bench.paper.material import Material
from patternmark.bench.paper.plan import (
    LEVELS,
    MATCHED,
    OURS,
    PUBLISHED,
    REPORTED,
    Cell,
)
from patternmark.bench.paper.verdicts import NULLS, Label, Verdicts
from patternmark.bench.report import mean_interval
from patternmark.intervals import rate_interval

Arrays = Sequence[NDArray[np.float64]]  # an array for each key
_WANTED = 0.95
_LESS_IS_BETTER = ("nll", "score")  # negative log-likelihoods


def summarise(material: Material, verdicts: dict[str, Verdicts]) -> dict[str, Any]:
    """Return all numbers of a task."""
    thresholds = {judge: _thresholds(found) for judge, found in verdicts.items()}
    rows = [
        row
        for judge, found in verdicts.items()
        for cell in material.marked
        for row in _cell_rows(judge, found, thresholds[judge], cell)
    ]
    return {
        **material.about,
        "task": material.task,
        "keys": max(len(by_key) for by_key in material.marked.values()),
        "detection": [row for row in rows if not row["how"] and not row["stay"]],
        "robustness": [row for row in rows if row["how"] not in ("", "length", "m")],
        "lengths": [row for row in rows if row["how"] == "length"],
        "ablation_m": [row for row in rows if row["how"] == "m"],
        "ablation_stay": [row for row in rows if not row["how"] and _ablated(row, rows)],
        "false_positives": [
            row for judge, found in verdicts.items() for row in _null_rows(judge, found)
        ],
        "thresholds": thresholds,
        "quality": _quality(material),
    }


def _ablated(row: dict[str, Any], rows: Iterable[dict[str, Any]]) -> bool:
    """Whether a row has another transition matrix, or is the paper's at the same strength."""
    deltas = {other["delta"] for other in rows if other["stay"]}
    return row["judge"] == PUBLISHED and row["delta"] in deltas


def _thresholds(found: Verdicts) -> dict[str, float]:
    """Return the scores that so many unmarked sequences of the model exceed, all keys together.

    Where there are too few of them to tell, the largest score is the threshold.
    """
    scores = np.sort(np.concatenate(found.score[Label(NULLS[0])]))[::-1]
    return {f"{level:g}": float(scores[int(level * len(scores))]) for level in MATCHED}


def _cell_rows(
    judge: str, found: Verdicts, thresholds: dict[str, float], cell: Cell
) -> Iterable[dict[str, Any]]:
    for label, log10_p in found.log10_p.items():
        if label.what != cell.name:
            continue
        nominal = {f"{level:g}": _rates(log10_p, np.log10(level), -1) for level in LEVELS}
        matched = {
            level: _rates(found.score[label], threshold, 1)
            for level, threshold in thresholds.items()
        }
        yield {
            "judge": judge,
            "scheme": cell.scheme,
            "delta": cell.delta,
            "stay": cell.stay,
            "how": label.how,
            "value": label.value,
            "nominal": nominal,
            "matched": matched,
        }


def _rates(values: Arrays, threshold: float, sign: int) -> dict[str, Any]:
    """Return how many are found: p at most, or score above the threshold."""
    hits = [v <= threshold if sign < 0 else v > threshold for v in values]
    return rate_of(hits)


def rate_of(hits: Sequence[NDArray[np.bool_]]) -> dict[str, Any]:
    """Return a rate, its exact interval over sequences, and that of the mean over keys.

    Keys differ more than sequences do: the second interval says what another set of keys may give.
    """
    together = np.concatenate(hits)
    low, high = rate_interval(int(together.sum()), len(together))
    by_key = np.array([own.mean() for own in hits if len(own)])
    over = mean_interval(by_key)
    return {
        "rate": float(together.mean()),
        "n": len(together),
        "low": low,
        "high": high,
        "keys": len(by_key),
        "keys_low": max(over["low"], 0.0),
        "keys_high": min(over["high"], 1.0),
        "worst_key": float(by_key.min()),
        "best_key": float(by_key.max()),
    }


def _null_rows(judge: str, found: Verdicts) -> Iterable[dict[str, Any]]:
    for name in NULLS:
        log10_p = found.log10_p[Label(name)]
        yield {
            "judge": judge,
            "what": name,
            "rates": {f"{level:g}": _rates(log10_p, np.log10(level), -1) for level in LEVELS},
        }


def _quality(material: Material) -> list[dict[str, Any]]:
    """Return quality measures of every cell, and what was lost against no mark."""
    rows = []
    for name, measures in material.quality.items():
        row: dict[str, Any] = {"cell": name}
        for measure, values in measures.items():
            if material.task == "translation":  # a score of all texts, and half its interval
                score, half = values
                row[measure] = {"mean": score, "low": score - half, "high": score + half}
                row[f"{measure} lost"] = {"mean": material.quality[NONE][measure][0] - score}
                continue
            worse = np.array(material.quality[NONE][measure]) - np.array(values)
            if measure.startswith(_LESS_IS_BETTER):
                worse = -worse
            row[measure] = mean_interval(np.array(values))
            row[f"{measure} lost"] = mean_interval(worse)
        rows.append(row)
    return rows


def length_needed(rows: Sequence[dict[str, Any]], judge: str, delta: float) -> float | None:
    """Return the length at which so many windows are found, read between two measured ones."""
    own = sorted(
        (row["value"], row["nominal"][f"{REPORTED:g}"]["rate"])
        for row in rows
        if row["judge"] == judge and row["delta"] == delta
    )
    for (shorter, below), (longer, above) in pairwise(own):
        if below < _WANTED <= above:
            return float(shorter + (longer - shorter) * (_WANTED - below) / (above - below))
    return float(own[0][0]) if own and own[0][1] >= _WANTED else None


def at_equal_quality(
    summary: dict[str, Any], measure: str, level: float = REPORTED
) -> list[dict[str, Any]]:
    """Compare each cell with our default where that loses as much quality, at a measured rate.

    Our rate at that loss is read between two of our strengths; beyond the strongest it is that
    one's, which can only be too little.
    """
    lost = {row["cell"]: row[f"{measure} lost"]["mean"] for row in summary["quality"]}
    detection = [row for row in summary["detection"] if row["judge"] == row["scheme"]]

    def point(row: dict[str, Any]) -> tuple[float, float]:
        cell = Cell(row["scheme"], row["delta"]).name
        return lost[cell], row["matched"][f"{level:g}"]["rate"]

    ours = sorted(point(row) for row in detection if row["scheme"] == OURS)
    costs, rates = zip(*[(0.0, level), *ours], strict=True)
    found = []
    for row in detection:
        if row["scheme"] != OURS:
            cost, rate = point(row)
            mine = float(np.interp(cost, costs, rates))
            found.append(
                {
                    "scheme": row["scheme"],
                    "delta": row["delta"],
                    "lost": cost,
                    "rate": row["matched"][f"{level:g}"],
                    "ours": mine,
                    "ahead": mine >= rate,
                }
            )
    return found
