"""What the page of `bench paper` says first: what reproduces, who is ahead, whose p-values hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

from patternmark.bench.paper import tables
from patternmark.bench.paper.findings import (
    MEASURES,
    Row,
    against_ours,
    agreements,
    claimed,
    gains,
    is_all,
    name_of_measure,
    num_unmarked,
    tallies,
    too_many,
)
from patternmark.bench.paper.numbers import SAMPLES
from patternmark.bench.paper.plan import OURS, PUBLISHED, REPORTED, Cell, schemes_of
from patternmark.bench.paper.summary import AHEAD, BEHIND, LEVEL, at_equal_quality
from patternmark.bench.paper.verdicts import NULLS

TITLES = {"protein": "Proteins", "translation": "Translation"}

_WHY = {
    ("protein", "soft"): "the paper's numbers are those of `soft-by-step`, whose detector looks "
    "where nothing was promoted; read by position, as here, Soft works",
    ("protein", "multikey"): "the paper names no detector; this is the one that comes closest",
    ("translation", "multikey"): "the paper names no detector",
}


_PRICE = (
    "What shifts a sequence against a schedule nobody can learn, or leaves a short piece of it, "
    "hides its place: that is the price of [secrecy](../threat-model.md). The paper's marks, which "
    "one sequence gives away, survive such edits better under the same detector (`pattern-auto`)."
)


def in_short(found: list[Row]) -> list[str]:
    """Return the section that says what was found."""
    lines = ["", "## In short"]
    for summary in found:
        lines += ["", f"### {TITLES[summary['task']]}", ""]
        lines += [*_reproduced(summary), "", *_ahead(summary), ""]
        lines += [*_attacked(summary), *_truth(summary)]
    return lines


def _reproduced(summary: Row) -> list[str]:
    """Say which of the paper's numbers come out again."""
    found = agreements(summary)
    if not found:
        return ["No strength of this run is one of the paper's."]
    task, level = summary["task"], tables.level_name(REPORTED)
    own = next(tally for tally in tallies(found) if tally.scheme == PUBLISHED)
    apart = [cell for cell in found if cell.scheme == PUBLISHED and not cell.agrees]
    if task == "translation":
        begin = "**PATTERN-MARK as published**, with another model on other data"
    else:
        begin = f"**PATTERN-MARK as published {'reproduces in part' if apart else 'reproduces'}**"
    lines = [
        f"{begin}: {own.agree} of {own.cells} rates are within sampling error of the paper's (ours "
        f"of {own.n:,} sequences and {summary['keys']} keys, the paper's of {SAMPLES[task]:,} "
        f"sequences); at {level} ours differ by "
        f"{100 * own.mean_difference:+.1f} points on average, by {100 * own.most:+.1f} at most."
    ]
    if apart and task == "protein":  # another model gives other numbers: all stand in the table
        lines[0] += " Apart: " + "; ".join(_apart(cell) for cell in apart) + "."
    rows, reasons = [], []
    unmarked = {
        row["judge"]: row["rates"][f"{REPORTED:g}"]
        for row in summary["false_positives"]
        if row["what"] == NULLS[0]
    }
    for tally in (tally for tally in tallies(found) if tally.scheme != PUBLISHED):
        points = [f"{100 * value:+.1f}" for value in (tally.mean_difference, tally.most)]
        alarms = tables.rate_with_span(unmarked[tally.scheme])
        rows.append([f"`{tally.scheme}`", f"{tally.agree} of {tally.cells}", *points, alarms])
        if tally.agree < tally.cells and (task, tally.scheme) in _WHY:
            reasons.append(f"`{tally.scheme}`: {_WHY[task, tally.scheme]}.")
    header = ["the paper's baselines", "rates agree", f"points at {level}, on average", "at most"]
    header.append("false positives there, percent")
    lines += ["", *tables.table(header, rows), ""]
    return [*lines, *([" ".join(reasons), ""] if reasons else []), _claim(summary)]


def _claim(summary: Row) -> str:
    """Say whether PATTERN-MARK is above its baselines at the same delta, as the paper says."""
    level = tables.level_name(REPORTED)
    parts = []
    for kind, name in (("nominal", f"a nominal {level}"), ("matched", f"a measured {level}")):
        cells, against = claimed(summary, kind)
        text = f"at {name} in {cells - len(against)} of {cells} cells"
        if against:
            named = ", ".join(f"`{row['judge']}` {row['delta']:g}" for row in against)
            text += f" (not: {named})"
        parts.append(text)
    return (
        "The paper's own claim, that none of its three baselines finds more than PATTERN-MARK at "
        f"the same delta, holds {'; '.join(parts)}."
    )


def _apart(cell: Any) -> str:
    return (
        f"delta {cell.delta:g} at {tables.level_name(cell.level)}: "
        f"{tables.percent(cell.ours)} against {tables.percent(cell.paper)}"
    )


def _ahead(summary: Row) -> list[str]:
    """Say where our default is ahead at equal quality, and name each cell where it is not."""
    task = summary["task"]
    first, *others = MEASURES[task]
    compared = at_equal_quality(summary, first)
    count = Counter(row["verdict"] for row in compared)
    level = tables.level_name(REPORTED)
    enough = num_unmarked(summary) * REPORTED
    lines = [
        f"**`{OURS}` against every other scheme at equal loss of {name_of_measure(first)} and an "
        f"equal measured false positive rate of {level}**: {_counted(count, len(compared))}."
    ]
    gained = gains(compared)
    if gained is not None:
        least, middle, most = (f"{100 * gain:.1f}" for gain in gained)
        lines[0] += f" Where ahead, by {least} to {most} points, {middle} in the middle."
    if enough < 1:
        lines[0] += (
            f" The threshold is the largest of {num_unmarked(summary):,} unmarked verdicts: too "
            f"few to tell {level}."
        )
    for verdict in (BEHIND, LEVEL):
        every = [row for row in compared if row["verdict"] == verdict]
        some = [row for row in every if not is_all(row)]
        if len(every) > len(some):
            number = len(every) - len(some)
            lines[0] += f" In {number} of those {verdict} both find 99 % or more."
        if some:
            named = "; ".join(
                f"`{row['scheme']}` {row['delta']:g} ({tables.percent(row['rate']['rate'])} "
                f"against our {tables.percent(row['ours']['rate'])})"
                for row in some
            )
            lines += ["", f"{verdict.capitalize()}: {named}."]
    by_others = [
        f"by {name_of_measure(measure)}: "
        + _counted(Counter(r["verdict"] for r in at_equal_quality(summary, measure)), len(compared))
        for measure in others
        if any(f"{measure} lost" in row for row in summary["quality"])
    ]
    return [*lines, "", "With other measures of quality, " + "; ".join(by_others) + "."]


def _attacked(summary: Row) -> list[str]:
    """Say where our default is ahead of others under attack and in windows, and where it is not."""
    strongest = max(row["delta"] for row in summary["detection"])
    parts = {
        "Under attack": summary["robustness"],
        "In windows": [row for row in summary["lengths"] if row["delta"] == strongest],
    }
    lines, named = [], set()
    for name, rows in parts.items():
        compared = against_ours(rows)
        if not compared:
            continue
        count = Counter(row["verdict"] for row in compared)
        text = (
            f"**{name}**, at delta {strongest:g} and a measured {tables.level_name(REPORTED)}: "
            f"{_counted(count, len(compared))}."
        )
        behind = [row for row in compared if row["verdict"] == BEHIND]
        named |= {row["scheme"] for row in behind}
        kinds = dict.fromkeys((row["how"], row["value"]) for row in behind)
        cells = [
            _more(kind, [r for r in behind if (r["how"], r["value"]) == kind], rows)
            for kind in sorted(kinds)
        ]
        lines += [text, ""]
        if cells:
            lines += [*tables.table(["behind", "ours", "found by others, percent"], cells), ""]
    if named:
        lines += [f"{_losses(summary, strongest, named)} {_PRICE}", ""]
    return lines


def _more(kind: tuple[str, float], behind: list[Row], rows: list[Row]) -> list[str]:
    """Name who finds more of one kind, beside ours and our detector with the paper's marks."""
    how, value = kind
    also = [
        row for row in rows if (row["how"], row["value"]) == kind and row["judge"] != row["scheme"]
    ]
    theirs = [(row["scheme"], row["rate"]) for row in behind]
    theirs += [(row["judge"], row["matched"][f"{REPORTED:g}"]) for row in also]
    others = ", ".join(f"`{name}` {tables.percent(rate['rate'])}" for name, rate in theirs)
    return [f"{how} {value:g}", tables.rate_with_span(behind[0]["ours"]), others]


def _losses(summary: Row, delta: float, schemes: set[str]) -> str:
    """Say what those lose that find more: one delta is not one quality."""
    measure = MEASURES[summary["task"]][0]
    lost = {row["cell"]: row[f"{measure} lost"]["mean"] for row in summary["quality"]}
    digits = 1 if measure == "BLEU" else 3
    own = f"ours {lost[Cell(OURS, delta).name]:.{digits}f}"
    others = [
        f"`{name}` {lost[Cell(name, delta).name]:.{digits}f}"
        for name in schemes_of(summary["task"])
        if name in schemes
    ]
    return f"One delta is not one loss of {name_of_measure(measure)}: {', '.join([own, *others])}."


def _counted(count: Counter[str], total: int) -> str:
    parts = [f"{verdict} in {count[verdict]}" for verdict in (AHEAD, LEVEL, BEHIND)]
    return f"{', '.join(parts)} of {total} cells"


def _truth(summary: Row) -> list[str]:
    """Say whose p-values are not true."""
    alarms = too_many(summary)
    level = tables.level_name(REPORTED)
    at = [row for row in alarms if row["level"] == REPORTED]
    if not at:
        return [f"**False positives**: at {level} no scheme has more than it says, beyond chance."]
    named = "; ".join(
        f"`{row['judge']}` {tables.percent(row['rate'])} % of {row['what']} "
        f"({row['rate'] / REPORTED:.0f} times as many, its worst key "
        f"{tables.percent(row['best_key'])} %)"
        for row in at
    )
    ours = "Ours is not among them. " if all(row["judge"] != OURS for row in at) else ""
    return [
        f"**False positives** at a nominal {level}, beyond chance: {named}. {ours}What such a "
        "detector finds at its own p-values (\\* in the tables) is worth less than it seems."
    ]
