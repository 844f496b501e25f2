"""The transcribed tables against the paper's own source."""

import os
import re
from pathlib import Path

import pytest

from patternmark_lab.bench import protein
from patternmark_lab.bench.paper.numbers import (
    DETECTION,
    DIVERSITY,
    DIVERSITY_DELTA,
    EPSILONS,
    FPRS,
    ROBUSTNESS,
    UNMARKED_QUALITY,
)

_PAPER = Path(os.environ.get("PATTERNMARK_PAPER", "pattern-mark.tex"))
NAMES = {
    "no watermark": "none",
    "soft watermark": "soft",
    "multikey": "multikey",
    "unigram": "unigram",
    r"\methodname": "pattern-mark",
}
Rows = dict[tuple[str, float], list[float]]


def printed(label: str) -> Rows:
    """Read a table of the paper: (scheme, delta) -> numbers; no mark has delta 0."""
    if not _PAPER.exists():
        pytest.skip("the paper's source is not here: name it in PATTERNMARK_PAPER")
    tex = _PAPER.read_text(encoding="utf-8")
    body = tex.split(rf"\label{{{label}}}")[1].split(r"\end{tabular}")[0]
    rows: Rows = {}
    for line in body.split(r"\\"):
        name, *cells = re.sub(r"\\textbf\{([^}]*)\}", r"\1", line).split("&")
        name = re.sub(r"\\(midrule|bottomrule)", "", name).strip()
        found = re.fullmatch(r"(.*?)(?:\(\$\\delta=([\d.]+)\$\))?", name, re.DOTALL)
        assert found is not None
        scheme = NAMES.get(found[1].strip().lower())
        if scheme is not None:
            rows[scheme, float(found[2] or 0)] = [float(c) for c in cells if c.strip() != "-"]
    assert len(rows) >= 5
    return rows


def transcribed(task: str) -> Rows:
    marked = {
        (scheme, delta): [quality, *rates]
        for scheme, rows in DETECTION[task].items()
        for delta, (quality, rates) in rows.items()
    }
    return {("none", 0.0): [UNMARKED_QUALITY[task]], **marked}


@pytest.mark.parametrize(
    ("task", "label"), [("protein", "ProteinMPNN"), ("translation", "Mask-Predict")]
)
def test_detection_and_robustness_are_as_printed(task: str, label: str) -> None:
    full = printed(f"tab:{label} detectability2")
    assert full == transcribed(task)
    assert len(full) == 21
    short = printed(f"tab:{label} detectability")  # of the main text
    assert short == {row: full[row] for row in short}
    robust = {
        (scheme, delta): list(rates)
        for scheme, rows in ROBUSTNESS[task].items()
        for delta, rates in rows.items()
    }
    assert robust == printed(f"tab:{label} robustness")


def test_diversity_is_as_printed() -> None:
    rows = {
        (scheme, DIVERSITY_DELTA if scheme != "none" else 0.0): list(bits)
        for scheme, bits in DIVERSITY.items()
    }
    assert rows == printed("tab:protein diversity")


def test_tables_agree_with_each_other() -> None:
    """Without an attack robustness is detection at 0.1 %: the paper reused its sequences."""
    assert EPSILONS[0] == 0.0
    for task, schemes in ROBUSTNESS.items():
        for scheme, rows in schemes.items():
            for delta, rates in rows.items():
                assert rates[0] == DETECTION[task][scheme][delta][1][FPRS.index(1e-3)]
                # More is found at a laxer threshold.
                at = DETECTION[task][scheme][delta][1]
                assert list(at) == sorted(at, reverse=True)


def test_benchmarks_compare_with_these() -> None:
    assert protein.PAPER[0.5] == (47.26, 17.94, 6.29, 2.54, 0.67)
