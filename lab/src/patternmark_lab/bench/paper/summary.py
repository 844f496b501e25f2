"""Turn verdicts into rates with intervals, at nominal and at measured thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import hypot
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.intervals import mean_interval, rate_interval
from patternmark_lab.bench.paper.material import Material
from patternmark_lab.bench.paper.plan import (
    LEVELS,
    MATCHED,
    NONE,
    OURS,
    OURS_LIKELIEST,
    PUBLISHED,
    REPORTED,
    Cell,
)
from patternmark_lab.bench.paper.verdicts import NULLS, Label, Verdicts

Arrays = Sequence[NDArray[np.float64]]  # an array for each key
_WANTED = 0.95  # share of windows found
_DRAWS = 200  # resamples of keys, for the uncertainty of a threshold
_NORMAL = NormalDist()
_LESS_IS_BETTER = ("nll", "score")  # negative log-likelihoods


def summarise(material: Material, verdicts: dict[str, Verdicts]) -> dict[str, Any]:
    """Return all numbers of a task."""
    thresholds = {judge: _thresholds(found) for judge, found in verdicts.items()}
    measured = {
        judge: {level: float(drawn[0]) for level, drawn in of_level.items()}
        for judge, of_level in thresholds.items()
    }
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
        "thresholds": measured,
        "reached": {judge: _reached(verdicts[judge], own) for judge, own in measured.items()},
        "quality": _quality(material),
    }


def _ablated(row: dict[str, Any], rows: Iterable[dict[str, Any]]) -> bool:
    """Tell whether a row has another transition matrix, or is the paper's at the same strength."""
    deltas = {other["delta"] for other in rows if other["stay"]}
    return row["judge"] == PUBLISHED and row["delta"] in deltas


def _thresholds(found: Verdicts) -> dict[str, NDArray[np.float64]]:
    """Return for each level the score that this share of unmarked outputs exceeds.

    If there are too few outputs, it is the largest score. The first value is for all keys together;
    the others are for resampled keys and show its uncertainty.
    """
    by_key = found.score[Label(NULLS[0])]
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(by_key), size=(_DRAWS, len(by_key)))
    sets = [range(len(by_key)), *drawn.tolist()]
    scores = [np.sort(np.concatenate([by_key[i] for i in keys]))[::-1] for keys in sets]
    return {f"{level:g}": np.array([s[int(level * len(s))] for s in scores]) for level in MATCHED}


def _reached(found: Verdicts, thresholds: dict[str, float]) -> dict[str, float]:
    """Return the share of unmarked sequences above each threshold; equal scores make it smaller."""
    scores = np.concatenate(found.score[Label(NULLS[0])])
    return {level: float((scores > score).mean()) for level, score in thresholds.items()}


def _cell_rows(
    judge: str, found: Verdicts, thresholds: dict[str, NDArray[np.float64]], cell: Cell
) -> Iterable[dict[str, Any]]:
    for label, log10_p in found.log10_p.items():
        if label.what != cell.name:
            continue
        nominal = {f"{level:g}": _rates(log10_p, np.log10(level), -1) for level in LEVELS}
        matched = {
            level: _rates(found.score[label], float(drawn[0]), 1)
            | _over_thresholds(found.score[label], drawn[1:])
            for level, drawn in thresholds.items()
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
    """Return the rate found: p at most the threshold (sign -1), or score above it (sign 1)."""
    hits = [v <= threshold if sign < 0 else v > threshold for v in values]
    return rate_of(hits)


def _over_thresholds(values: Arrays, thresholds: NDArray[np.float64]) -> dict[str, float]:
    """Return the interval of the rate that the uncertainty of the threshold gives."""
    scores = np.sort(np.concatenate(values))
    rates = 1.0 - np.searchsorted(scores, thresholds, side="right") / len(scores)
    low, high = np.quantile(rates, [0.025, 0.975])
    return {"threshold_low": float(low), "threshold_high": float(high)}


def rate_of(hits: Sequence[NDArray[np.bool_]]) -> dict[str, Any]:
    """Return a rate, its exact interval over sequences, and that of the mean over keys.

    Keys differ more than sequences do; the second interval is for another set of keys.
    """
    together = np.concatenate(hits)
    low, high = rate_interval(int(together.sum()), len(together))
    by_key = np.array([own.mean() for own in hits if len(own)])
    over = _mean(by_key)
    several = len(by_key) > 1
    return {
        "rate": float(together.mean()),
        "n": len(together),
        "low": low,
        "high": high,
        "keys": len(by_key),
        "keys_low": max(over["low"], 0.0) if several else None,
        "keys_high": min(over["high"], 1.0) if several else None,
        "worst_key": float(by_key.min()),
        "best_key": float(by_key.max()),
    }


def _mean(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return a mean with its interval by Student's t; a single value has no interval."""
    found = mean_interval(values)
    ends = {"low": None, "high": None} if found["n"] < 2 else {}
    return {name: found[name] for name in ("mean", "low", "high", "n")} | ends


def _of_resamples(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return the first value, of all texts, with the interval of the others, of resamples."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return {"mean": float(values[0]), "low": float(low), "high": float(high)}


def span(rate: dict[str, Any]) -> tuple[float, float]:
    """Return the wider interval of a rate, over sequences or over keys.

    If the threshold was measured, its uncertainty is added as squares.
    """
    share, low, high = rate["rate"], rate["low"], rate["high"]
    if rate["keys_low"] is not None:
        low, high = min(low, rate["keys_low"]), max(high, rate["keys_high"])
    if "threshold_low" not in rate:
        return low, high
    down = max(share - rate["threshold_low"], 0.0)
    up = max(rate["threshold_high"] - share, 0.0)
    return max(share - hypot(share - low, down), 0.0), min(share + hypot(high - share, up), 1.0)


def difference(
    one: float, one_span: tuple[float, float], other: float, other_span: tuple[float, float]
) -> tuple[float, float, float]:
    """Return one rate minus the other, with the interval that follows from theirs.

    The distances to the relevant ends of the two intervals are added as squares.

    >>> [round(x, 3) for x in difference(0.5, (0.4, 0.6), 0.5, (0.4, 0.6))]
    [0.0, -0.141, 0.141]
    """
    value = one - other
    low = value - hypot(one - one_span[0], other_span[1] - other)
    high = value + hypot(one_span[1] - one, other - other_span[0])
    return value, low, high


def _null_rows(judge: str, found: Verdicts) -> Iterable[dict[str, Any]]:
    for name in NULLS:
        log10_p = found.log10_p[Label(name)]
        yield {
            "judge": judge,
            "what": name,
            "rates": {f"{level:g}": _rates(log10_p, np.log10(level), -1) for level in LEVELS},
            "by_key": [float((own <= np.log10(REPORTED)).mean()) for own in log10_p],
        }


def _quality(material: Material) -> list[dict[str, Any]]:
    """Return quality measures of every cell, and the losses compared with no mark."""
    rows = []
    for name, measures in material.quality.items():
        row: dict[str, Any] = {"cell": name}
        for measure, values in measures.items():
            worse = np.array(material.quality[NONE][measure]) - np.array(values)
            if measure.startswith(_LESS_IS_BETTER):
                worse = -worse
            summed = _of_resamples if material.task == "translation" else _mean
            row[measure] = summed(np.array(values))
            row[f"{measure} lost"] = summed(worse)
        rows.append(row)
    return rows


def length_needed(rows: Sequence[dict[str, Any]], judge: str, delta: float) -> float | None:
    """Return the length at which 95 % of windows are found, interpolated, or None."""
    own = sorted(
        (row["value"], row["nominal"][f"{REPORTED:g}"]["rate"])
        for row in rows
        if row["judge"] == judge and row["delta"] == delta
    )
    for (shorter, below), (longer, above) in pairwise(own):
        if below < _WANTED <= above:
            return float(shorter + (longer - shorter) * (_WANTED - below) / (above - below))
    return float(own[0][0]) if own and own[0][1] >= _WANTED else None


AHEAD, LEVEL, BEHIND = "ahead", "no clear difference", "behind"


def verdict_of(low: float, high: float) -> str:
    """Return the verdict on the interval of the difference of rates, ours minus theirs."""
    return AHEAD if low > 0.0 else BEHIND if high < 0.0 else LEVEL


def at_equal_quality(
    summary: dict[str, Any], measure: str, level: float = REPORTED, ours: str = OURS
) -> list[dict[str, Any]]:
    """Compare each cell with our default at an equal loss of quality, at a measured rate.

    Every detector has its own cells; our detector on the paper's marks counts as another detector.
    Our rate is the largest at no larger loss, interpolated between two of our strengths ("no mark"
    is one of them). Interpolation is on the normal scale, where rates grow more and more slowly
    with the loss, so that a straight line gives too little rather than too much. Beyond our largest
    strength, our rate is the rate there. Intervals include the uncertainty of the other's loss. We
    are ahead or behind only if the interval of the difference does not contain 0.
    """
    lost = {row["cell"]: row[f"{measure} lost"] for row in summary["quality"]}
    points = [(lost[Cell(row["scheme"], row["delta"]).name], row) for row in summary["detection"]]
    matched = f"{level:g}"
    own = [(cost["mean"], row["matched"][matched]) for cost, row in points if row["judge"] == ours]
    return [
        _compare(cost, row, row["matched"][matched], [(0.0, _no_mark(level)), *own])
        for cost, row in points
        if row["judge"] not in (OURS, OURS_LIKELIEST)
    ]


def _no_mark(level: float) -> dict[str, Any]:
    """Return the rate without a mark, which has no loss."""
    ends = {"low": level, "high": level, "keys_low": None, "keys_high": None}
    return {"rate": level, "n": round(1.0 / level)} | ends


def _compare(
    cost: dict[str, Any],
    row: dict[str, Any],
    rate: dict[str, Any],
    ours: Sequence[tuple[float, dict[str, Any]]],
) -> dict[str, Any]:
    curve = sorted(ours, key=lambda point: point[0])
    costs = [place for place, _ in curve]
    shares = np.array([(own["rate"], *span(own)) for _, own in curve])
    shares = np.maximum.accumulate(shares)  # the largest rate at no larger loss
    # Rates of 0 and 1 count as half a sequence away from it, so they depend on n.
    half = 0.5 / np.array([[own["n"]] for _, own in curve])
    scale = np.vectorize(_NORMAL.inv_cdf)(np.clip(shares, half, 1.0 - half))

    def at(place: float, column: int) -> float:
        if place >= costs[-1]:
            return float(shares[-1, column])
        return _NORMAL.cdf(np.interp(place, costs, scale[:, column]))

    least, most = cost.get("low"), cost.get("high")  # a single backbone has no interval
    mine = at(cost["mean"], 0)
    low = at(cost["mean"] if least is None else least, 1)
    high = at(cost["mean"] if most is None else most, 2)
    value, least, most = difference(mine, (low, high), rate["rate"], span(rate))
    return {
        "scheme": row["judge"],
        "delta": row["delta"],
        "lost": cost["mean"],
        "rate": rate,
        "ours": {"rate": mine, "low": low, "high": high},
        "difference": {"value": value, "low": least, "high": most},
        "verdict": verdict_of(least, most),
        "beyond": cost["mean"] >= costs[-1],
    }
