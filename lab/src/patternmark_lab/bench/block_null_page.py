"""The page and the picture of `patternmark bench block-null`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.null.block_bound import RARE
from patternmark_lab.bench.block_null import MARGIN, raised_c

_TABLE_CLASSES = 12  # for each length
_PANEL_CLASSES = 6  # in each panel of the picture


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lengths = _lengths(result)
    (largest,) = result["table"]["c"]
    classes = len({row["class"] for row in result["rows"]})
    draws = [row["draws"] for row in result["rows"]]
    lines = [
        "# How far are p-values of block keys below Markov's bound?",
        "",
        f"Made by `patternmark bench block-null NATURAL.fa --draws {max(draws)} -o docs/results` "
        f"with patternmark {result['version']}, Python {result['python']}, numpy "
        f"{result['numpy']}. Seed {result['seed']}, blocks of {result['block']}, mixture "
        f"{result['mixture']}.",
        "",
        "For one sequence, P(E >= t) over random keys is C(t) / t, and C(t) is at most 1. "
        f"C was measured for {classes} classes of sequences at {len(lengths)} lengths, "
        f"with {min(draws)} to {max(draws)} sequences each and one key for each sequence, drawn "
        f"with probability proportional to E. *Largest C* is the largest C(t) for t of {RARE:g} or "
        "more, with its standard error. The p-value of `auto` uses the largest C of all classes "
        f"and lengths plus two standard errors, times {MARGIN:g}, because a longer search may find "
        f"a larger C: **{largest:.3f}**, for chains of any length from {min(lengths)} on. It does "
        "not depend on the length, because an author can make a short sequence longer with letters "
        "that carry almost no evidence.",
        "",
        "![C against t](block-null.png)",
    ]
    for n in lengths:
        lines += ["", f"## {n} scored residues", "", *_largest(result, n)]
    return "\n".join(lines) + "\n"


def _lengths(result: dict[str, Any]) -> list[int]:
    return sorted({row["length"] for row in result["rows"]})


def _sorted_rows(result: dict[str, Any], length: int) -> list[dict[str, Any]]:
    rows = [row for row in result["rows"] if row["length"] == length]
    return sorted(rows, key=lambda row: -raised_c(row))


def _largest(result: dict[str, Any], length: int) -> list[str]:
    rows = _sorted_rows(result, length)
    lines = [
        f"The {min(_TABLE_CLASSES, len(rows))} largest of {len(rows)} classes:",
        "",
        "| class | sequences | largest C | at ln t |",
        "|---|---:|---|---:|",
    ]
    lines += [
        f"| {row['class']} | {row['draws']:,} | {row['largest']:.3f} ± {row['largest_error']:.3f} "
        f"| {row['largest_at']:g} |"
        for row in rows[:_TABLE_CLASSES]
    ]
    return lines


def _log_t(result: dict[str, Any], row: dict[str, Any]) -> NDArray[np.float64]:
    return np.asarray(result["step"] * np.arange(len(row["c"])))


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw C(t) of the classes with the largest C, in one panel for each length."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    lengths = _lengths(result)
    (largest,) = result["table"]["c"]
    figure = Figure(figsize=(4 * len(lengths), 4.5), layout="constrained", dpi=120)
    panels = figure.subplots(1, len(lengths), squeeze=False, sharey=True)[0]
    for axes, n in zip(panels, lengths, strict=True):
        for row in _sorted_rows(result, n)[:_PANEL_CLASSES]:
            axes.plot(_log_t(result, row), row["c"], label=row["class"], linewidth=1)
        axes.axhline(largest, color="black", linestyle=":", linewidth=0.8)
        axes.set(title=f"{n} scored residues", xlabel="ln t", ylim=(0, 1))
        axes.legend(fontsize=6)
    panels[0].set_ylabel("C(t) = t P(E >= t)")
    figure.savefig(path)
