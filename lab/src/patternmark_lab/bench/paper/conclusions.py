"""The summary on the page of `bench paper`: what reproduces, who is ahead, valid p-values."""

from __future__ import annotations

from collections import Counter
from typing import Any

from patternmark.evidence import DEFAULT_FPR
from patternmark_lab.bench.paper import tables
from patternmark_lab.bench.paper.findings import (
    MEASURES,
    READINGS,
    Row,
    against,
    agreements,
    compare_with_baselines,
    false_alarms,
    gains,
    is_all,
    name_of_measure,
    num_unmarked,
    tallies,
    too_many,
)
from patternmark_lab.bench.paper.numbers import SAMPLES
from patternmark_lab.bench.paper.plan import (
    JUDGED_TOO,
    MATCHED,
    OURS,
    OURS_LIKELIEST,
    PUBLISHED,
    REPORTED,
    Cell,
    selectable,
)
from patternmark_lab.bench.paper.summary import AHEAD, BEHIND, LEVEL, at_equal_quality
from patternmark_lab.bench.paper.verdicts import NULLS

TITLES = {"protein": "Proteins", "translation": "Translation"}

_NO_DETECTOR = "the paper names no detector, and no detector that we tried gives its numbers"
_WHY = {
    ("protein", "soft"): "the paper's numbers are close to those of `soft-by-step`, whose detector "
    "looks where nothing was promoted; read by position, as here, Soft works",
    ("protein", "multikey"): _NO_DETECTOR,
    ("translation", "multikey"): _NO_DETECTOR,
}


_PLACE = {
    "protein": "Our blocks follow each other along the sequence. Insertions and deletions move the "
    "borders of blocks, and a short piece does not show with which block it starts. Testing every "
    "possible place costs evidence.",
    "translation": "Our schedule runs along the sequence. Insertions, deletions and cuts move the "
    "text relative to its schedule, and a short piece does not show its place.",
}
_PAPERS_PLACE = (
    "The paper's marks repeat after two symbols. So one sequence reveals them "
    "([threat model](../threat-model.md)), but edits hide them less."
)


def in_short(found: list[Row]) -> list[str]:
    """Return the summary section."""
    lines = ["", "## In short"]
    for summary in found:
        lines += ["", f"### {TITLES[summary['task']]}", ""]
        lines += [*_reproduced(summary), "", *_ahead(summary), ""]
        lines += [*_under_attack(summary), *_validity(summary)]
    return lines


def _reproduced(summary: Row) -> list[str]:
    """Say which of the paper's numbers are reproduced."""
    found = agreements(summary)
    if not found:
        return ["This run has no strength of the paper."]
    task, level = summary["task"], tables.level_name(REPORTED)
    own = next(tally for tally in tallies(found) if tally.scheme == PUBLISHED)
    apart = [cell for cell in found if cell.scheme == PUBLISHED and not cell.agrees]
    if task == "translation":
        begin = "**PATTERN-MARK as published**, with another model on other data"
    else:
        begin = f"**PATTERN-MARK as published {'reproduces in part' if apart else 'reproduces'}**"
    lines = [
        f"{begin}: {own.agree} of {own.cells} rates are within sampling error of the paper's (ours "
        f"are from {own.n:,} sequences and {summary['keys']} keys, the paper's from "
        f"{SAMPLES[task]:,} sequences). At {level} ours differ by "
        f"{100 * own.mean_difference:+.1f} points on average, and by {100 * own.most:+.1f} at most."
    ]
    if apart and task == "protein":  # with another model nearly all differ: see the table
        lines[0] += " These differ: " + "; ".join(_apart(cell) for cell in apart) + "."
    wide = [cell.difference for cell in found if cell.scheme == PUBLISHED]
    half = 50 * sum(high - low for _, low, high in wide) / len(wide)
    lines[0] += f" The intervals of these differences are +- {half:.0f} points wide on average."
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
        if tally.agree < tally.cells and tally.scheme not in READINGS:
            reasons.append(f"`{tally.scheme}`: {_why(summary, tally.scheme)}.")
    header = ["the paper's baselines", "rates that agree", f"mean difference at {level}, points"]
    header += ["largest", "false positives there, percent"]
    lines += ["", *tables.table(header, rows), ""]
    return [*lines, *([" ".join(reasons), ""] if reasons else []), _claim(summary)]


def _why(summary: Row, scheme: str) -> str:
    """Return the known or possible reason why a scheme's numbers differ."""
    if (summary["task"], scheme) in _WHY:
        return _WHY[summary["task"], scheme]
    rows = [row for row in summary["detection"] if row["judge"] == scheme]
    row = rows[len(rows) // 2]
    rate = row["nominal"][f"{REPORTED:g}"]
    return (
        f"we found no reason; at delta {row['delta']:g} the worst and the best of our keys find "
        f"{tables.percent(rate['worst_key'])} and {tables.percent(rate['best_key'])} %, and the "
        "paper does not say how many keys it had"
    )


def _claim(summary: Row) -> str:
    """Say whether PATTERN-MARK is above its baselines at the same delta, as the paper says."""
    level = tables.level_name(REPORTED)
    parts = []
    for kind, name in (("nominal", f"a nominal {level}"), ("matched", f"a measured {level}")):
        cells, against = compare_with_baselines(summary, kind)
        text = f"at {name} in {cells - len(against)} of {cells} cells"
        if against:
            named = ", ".join(f"`{row['judge']}` {row['delta']:g}" for row in against)
            text += f" (not: {named})"
        parts.append(text)
    return (
        "The paper claims that none of its three baselines finds more than PATTERN-MARK at the "
        f"same delta. Apart from chance, this holds {'; '.join(parts)}."
    )


def _apart(cell: Any) -> str:
    return (
        f"delta {cell.delta:g} at {tables.level_name(cell.level)}: "
        f"{tables.percent(cell.ours)}, in the paper {tables.percent(cell.paper)}"
    )


def _ahead(summary: Row) -> list[str]:
    """Say where our default is ahead at equal quality, and list each cell where it is not."""
    task = summary["task"]
    first, *others = MEASURES[task]
    compared = at_equal_quality(summary, first)
    level = tables.level_name(REPORTED)
    lines = [
        f"**`{OURS}` compared with every other detector, at equal loss of "
        f"{name_of_measure(first)} and an equal measured false positive rate of {level}**: "
        f"{_counts(compared)}."
    ]
    gained = gains(compared)
    if gained is not None:
        least, middle, most = (f"{100 * gain:.1f}" for gain in gained)
        lines[0] += f" Where it is ahead, it is by {least} to {most} points (median {middle})."
    if num_unmarked(summary) * REPORTED < 1:
        lines[0] += (
            f" The threshold is the largest of {num_unmarked(summary):,} unmarked verdicts, which "
            f"are too few to measure {level}."
        )
    for verdict in (BEHIND, LEVEL):
        every = [row for row in compared if row["verdict"] == verdict]
        some = [row for row in every if not is_all(row)]
        if len(every) > len(some):
            number = len(every) - len(some)
            lines[0] += f" In {number} of the cells *{verdict}* both find 99 % or more."
        if some:
            lines += ["", f"{verdict.capitalize()}: {_cells(some)}."]
    by_others = [
        f"by {name_of_measure(measure)}: {_counts(at_equal_quality(summary, measure))}"
        for measure in others
        if any(f"{measure} lost" in row for row in summary["quality"])
    ]
    lines += ["", "With other measures of quality, " + "; ".join(by_others) + "."]
    return [*lines, "", *_ahead_otherwise(summary, first)]


def _ahead_otherwise(summary: Row, measure: str) -> list[str]:
    """Compare at the other measured level, and without the choice among candidates."""
    other = max(MATCHED)
    name = tables.level_name(other)
    compared = at_equal_quality(summary, measure, other)
    text = f"At a measured {name}: {_counts(compared)}"
    behind = [row for row in compared if row["verdict"] == BEHIND]
    lines = [text + (f"; behind: {_cells(behind)}." if behind else ".")]
    reached = summary["reached"][OURS][f"{other:g}"]
    if reached < other / 2:
        lines[0] += (
            f" Our rate is stricter there: most unmarked sequences have p = 1, and only "
            f"{tables.percent(reached)} % have a smaller p-value."
        )
    if any(row["judge"] == OURS_LIKELIEST for row in summary["detection"]):
        plain = at_equal_quality(summary, measure, ours=OURS_LIKELIEST)
        behind = [row for row in plain if row["verdict"] == BEHIND]
        lines += [
            "",
            f"`{OURS}` takes, of five candidate translations, the likeliest whose mark is clear at "
            f"p <= {tables.level_name(DEFAULT_FPR)}; all others take the likeliest. If ours takes "
            f"the likeliest too (`{OURS_LIKELIEST}`), at a measured "
            f"{tables.level_name(REPORTED)}: {_counts(plain)}"
            + (f"; behind: {_cells(behind)}." if behind else "."),
        ]
    return lines


def _cells(rows: list[Row]) -> str:
    """List cells with the rates of both."""
    return "; ".join(
        f"`{row['scheme']}` {row['delta']:g} ({tables.percent(row['rate']['rate'])}, ours "
        f"{tables.percent(row['ours']['rate'])})"
        for row in rows
    )


def _under_attack(summary: Row) -> list[str]:
    """Say where our default is ahead or behind under attack and in windows."""
    strongest = max(row["delta"] for row in summary["detection"])
    at = {
        name: [row for row in summary[name] if row["delta"] == strongest]
        for name in ("robustness", "lengths")
    }
    level = tables.level_name(REPORTED)
    # A threshold for whole sequences is wrong for windows, so compare valid p-values there.
    held = [row for row in at["lengths"] if row["judge"] not in false_alarms(summary)]
    parts = {
        f"**Under attack**, at delta {strongest:g} and a measured {level}": against(
            at["robustness"], "matched"
        ),
        f"**In windows**, at delta {strongest:g} and a nominal {level}, compared with detectors "
        "whose p-values are valid": against(held, "nominal"),
    }
    lines, named = [], set()
    for text, compared in parts.items():
        if not compared:
            continue
        behind = [row for row in compared if row["verdict"] == BEHIND]
        named |= {row["scheme"] for row in behind}
        kinds = dict.fromkeys((row["how"], row["value"]) for row in behind)
        lines += [f"{text}: {_counts(compared)}.", ""]
        if kinds:
            rows = [_more(kind, behind) for kind in sorted(kinds)]
            lines += [*tables.table(["behind in", "ours, percent", "others, percent"], rows), ""]
    if named:
        why = f"{_PLACE[summary['task']]} {_PAPERS_PLACE}"
        lines += [f"{_losses(summary, strongest, named)} {why}", ""]
    return [*lines, *_own_detector(at["robustness"])]


def _more(kind: tuple[str, float], behind: list[Row]) -> list[str]:
    """Return a row with the detectors that find more than ours after one attack."""
    rows = [row for row in behind if (row["how"], row["value"]) == kind]
    others = ", ".join(f"`{row['judge']}` {tables.percent(row['rate']['rate'])}" for row in rows)
    return [f"{kind[0]} {kind[1]:g}", tables.rate_with_span(rows[0]["ours"]), others]


def _own_detector(rows: list[Row]) -> list[str]:
    """Say under which attacks the paper's detector finds more of the paper's marks than ours."""
    on_same = [row for row in rows if row["scheme"] == PUBLISHED]
    (also,) = JUDGED_TOO[PUBLISHED]
    behind = [row for row in against(on_same, "matched", ours=also) if row["verdict"] == BEHIND]
    if not behind:
        return []
    named = "; ".join(
        f"{row['how']} {row['value']:g} ({tables.percent(row['rate']['rate'])}, ours "
        f"{tables.percent(row['ours']['rate'])})"
        for row in sorted(behind, key=lambda row: (row["how"], row["value"]))
    )
    return [
        f"On the paper's own marks, its count of patterns finds more than our detector (`{also}`) "
        f"after {named}. There our detector is weaker, not the marks.",
        "",
    ]


def _losses(summary: Row, delta: float, schemes: set[str]) -> str:
    """List the losses of the schemes that find more, because equal delta is not equal quality."""
    measure = MEASURES[summary["task"]][0]
    lost = {row["cell"]: row[f"{measure} lost"]["mean"] for row in summary["quality"]}
    digits = 1 if measure == "BLEU" else 3
    own = f"ours {lost[Cell(OURS, delta).name]:.{digits}f}"
    others = [
        f"`{name}` {lost[Cell(name, delta).name]:.{digits}f}"
        for name in selectable(summary["task"])
        if name in schemes
    ]
    name = name_of_measure(measure)
    return f"At equal delta the loss of {name} differs: {', '.join([own, *others])}."


def _counts(compared: list[Row]) -> str:
    count = Counter(row["verdict"] for row in compared)
    parts = [f"{verdict} in {count[verdict]}" for verdict in (AHEAD, LEVEL, BEHIND)]
    return f"{', '.join(parts)} of {len(compared)} cells"


def _validity(summary: Row) -> list[str]:
    """List the detectors whose p-values are not valid."""
    alarms = too_many(summary)
    level = tables.level_name(REPORTED)
    at = [row for row in alarms if row["level"] == REPORTED]
    if not at:
        return [
            f"**False positives**: at {level} no scheme has more than its nominal rate, beyond "
            "chance."
        ]
    named = "; ".join(
        f"`{row['judge']}` {tables.percent(row['rate'])} % of {row['what']} "
        f"({row['rate'] / REPORTED:.0f} times the nominal rate; its worst key "
        f"{tables.percent(row['best_key'])} %)"
        for row in at
    )
    ours = "Ours is not among them. " if all(row["judge"] != OURS for row in at) else ""
    return [
        f"**Too many false positives** at a nominal {level}, beyond chance: {named}. {ours}Rates "
        "of such detectors at their own p-values (\\* in the tables) are too good to be true."
    ]
