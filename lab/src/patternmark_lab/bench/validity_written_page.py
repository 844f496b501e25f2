"""The part of the page of `patternmark bench validity` about sequences written on purpose."""

from __future__ import annotations

from typing import Any

from patternmark_lab.bench.validity_written import LEVELS

_TOLERATED = 1.1  # times the nominal rate
_STANDARD_ERRORS = 2.0  # by which a rate must be too high

HOW_DRAWN = """\
The author of each class knows everything but the key. The table has the ratios P(p <= a) / a over
keys with one nonce at a = {levels}, with their standard errors. Keys are drawn with probability
proportional to E, and with another seed than for the table of C. `p_value` is that of `auto`. The
ratio of `p_any` may never be above 1. The largest ratios come first.
"""

HOW_COUNTED = """\
The default detector judges these records under fresh keys, with a new record for each key. The
table has, at a = {levels}, the number of hits and the ratio to the nominal rate with its exact 95 %
interval. Keys of the paper's scheme have no `p_any`: {paper} of their {records} kinds of records
are called marked too often, and only `--null keys` helps there. With n pairs, levels below about
10 / n cannot be judged; the intervals say how large the ratio may be. The largest ratios come
first.
"""


def written_section(rows: list[dict[str, Any]]) -> list[str]:
    """Return the section on single chains."""
    worst = sorted(rows, key=lambda row: -max(row["ratio"]))
    failed = [row for row in rows if _fails(row["ratio"], row["error"])]
    broken = [row for row in rows if _fails(row["any"], row["any_error"], 1.0)]
    lines = [
        "## Written on purpose",
        "",
        HOW_DRAWN.format(levels=_names()),
        f"Of {len(rows)} classes and lengths, {len(failed)} have a rate of `p_value` that is too "
        f"high (two standard errors above {_TOLERATED} times the nominal rate), and {len(broken)} "
        "have a rate of `p_any` that is too high.",
        "",
        "| class | residues | n | p_value / nominal | p_any / nominal | verdict |",
        "|---|---:|---:|---|---|---|",
    ]
    for row in worst:
        verdict = f"**{max(row['ratio']):.2f}**" if row in failed else "ok"
        lines.append(
            f"| {row['class']} | {row['length']} | {row['draws']:,} "
            f"| {_with_errors(row['ratio'], row['error'])} "
            f"| {_with_errors(row['any'], row['any_error'])} | {verdict} |"
        )
    return lines


def records_section(rows: list[dict[str, Any]]) -> list[str]:
    """Return the section on records, which were counted directly."""
    worst = sorted(rows, key=lambda row: -max(_least(cell) for cell in row["p_value"]))
    of_paper = [row for row in rows if row["p_any"] is None]
    failed = sum(_too_often(row["p_value"]) for row in of_paper)
    text = HOW_COUNTED.format(levels=_names(), paper=failed, records=len(of_paper))
    lines = [
        "## Records of many chains, and repeats",
        "",
        text,
        "| record | scheme | n | p_value: hits, ratio | p_any: hits, ratio | verdict |",
        "|---|---|---:|---|---|---|",
    ]
    for row in worst:
        verdict = "**too often**" if _too_often(row["p_value"]) else "no excess seen"
        for_any = "none" if row["p_any"] is None else _cells(row["p_any"])
        lines.append(
            f"| {row['record']} | {row['scheme']} | {row['pairs']:,} | {_cells(row['p_value'])} "
            f"| {for_any} | {verdict} |"
        )
    return lines


def _names() -> str:
    return ", ".join(f"{level:g}" for level in LEVELS)


def _fails(ratios: list[float], errors: list[float], most: float = _TOLERATED) -> bool:
    return any(r - _STANDARD_ERRORS * e > most for r, e in zip(ratios, errors, strict=True))


def _least(cell: dict[str, Any]) -> float:
    return float(cell["low"])


def _too_often(cells: list[dict[str, Any]]) -> bool:
    return any(_least(cell) > _TOLERATED for cell in cells)


def _with_errors(values: list[float], errors: list[float]) -> str:
    return ", ".join(f"{v:.2f} ± {e:.2f}" for v, e in zip(values, errors, strict=True))


def _cells(cells: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{c['hits']}: {c['ratio']:.3g} [{c['low']:.2g}, {c['high']:.3g}]" for c in cells
    )
