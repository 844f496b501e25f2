"""The tables on the page of `bench paper`, with the paper's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from patternmark.core.schemes import Paper
from patternmark_lab.bench.paper.findings import (
    MEASURES,
    Row,
    false_alarms,
    key_of,
    name_of_measure,
)
from patternmark_lab.bench.paper.numbers import (
    DETECTION,
    DIVERSITY,
    EPSILONS,
    FPRS,
    ROBUSTNESS,
    UNMARKED_QUALITY,
)
from patternmark_lab.bench.paper.plan import MATCHED, NONE, OURS, PAPER_ATTACK, REPORTED, Cell
from patternmark_lab.bench.paper.summary import at_equal_quality, length_needed, span

_REPORTED = key_of(REPORTED)
_MODEL_ATTACKS = ("redesign", "rewrite")
_NULL_LEVELS = (0.1, 0.01, 1e-3, 1e-4)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Return a Markdown table; all columns after the first `left` align right."""
    marks = ["---"] * left + ["---:"] * (len(header) - left)
    return [_line(header), _line(marks), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def percent(share: float) -> str:
    """Return a share as a percentage; values below 1 have more digits."""
    value = 100 * share
    return f"{value:.2f}" if 0 < value < 1 else f"{value:.1f}"


def level_name(level: float) -> str:
    """Return a level as a percentage."""
    return f"{100 * level:g} %"


def rate_with_span(rate: Row) -> str:
    """Return a rate with its interval."""
    low, high = span(rate)
    return f"{percent(rate['rate'])} [{percent(low)}, {percent(high)}]"


def _with_paper(rate: Row | None, paper: float | None) -> str:
    """Return a rate, and the paper's if it has one."""
    if rate is None:
        return "" if paper is None else f"/ {paper:g}"
    own = rate_with_span(rate)
    return own if paper is None else f"{own} / {paper:g}"


def name_of(judge: str, alarms: set[str]) -> str:
    """Return a detector's name, ours in bold, with a star if its own p-values are not valid."""
    name = f"**`{judge}`**" if judge == OURS else f"`{judge}`"
    return f"{name}\\*" if judge in alarms else name


def _judges(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["judge"] for row in rows))


def _printed(summary: Row, judge: str, delta: float) -> tuple[float, tuple[float, ...]] | None:
    return DETECTION[summary["task"]].get(judge, {}).get(delta)


def detection_at_a_glance(summary: Row) -> list[str]:
    """Return the TPR at the reported level, a row for each scheme, a column for each strength."""
    rows, alarms = summary["detection"], false_alarms(summary)
    deltas = sorted({row["delta"] for row in rows})
    at = {(row["judge"], row["delta"]): row["nominal"][_REPORTED] for row in rows}
    place = FPRS.index(REPORTED)
    lines = []
    for judge in _judges(rows):
        cells = []
        for delta in deltas:
            printed = _printed(summary, judge, delta)
            paper = None if printed is None else printed[1][place]
            cells.append(_with_paper(at.get((judge, delta)), paper))
        lines.append([name_of(judge, alarms), *cells])
    return table(["scheme", *(f"delta {delta:g}" for delta in deltas)], lines)


def all_levels(summary: Row) -> list[str]:
    """Return the full table: TPR at five levels, with quality."""
    alarms, task = false_alarms(summary), summary["task"]
    quality = {row["cell"]: row for row in summary["quality"]}
    measure = MEASURES[task][0]
    unmarked = quality[NONE] if task == "translation" else None  # proteins have only losses
    none = _quality(unmarked, measure, UNMARKED_QUALITY[task])
    lines = [["no mark", "", "", *none, *([""] * len(FPRS))]]
    for row in summary["detection"]:
        printed = _printed(summary, row["judge"], row["delta"])
        papers: Sequence[float | None] = printed[1] if printed else [None] * len(FPRS)
        cells = [
            _with_paper(row["nominal"][key_of(level)], paper)
            for level, paper in zip(FPRS, papers, strict=True)
        ]
        own = quality.get(Cell(row["scheme"], row["delta"]).name)
        lines.append(
            [
                name_of(row["judge"], alarms),
                f"{row['delta']:g}",
                f"{row['nominal'][_REPORTED]['n']:,}",
                *_quality(own, measure, printed[0] if printed else None),
                *cells,
            ]
        )
    names = {
        "protein": ("likelihood lost", "the paper's pLDDT"),
        "translation": ("BLEU", "the paper's"),
    }
    header = ["scheme", "delta", "n", *names[task], *(level_name(level) for level in FPRS)]
    return table(header, lines)


def _quality(row: Row | None, measure: str, paper: float | None) -> tuple[str, str]:
    """Return our quality, as BLEU or as a loss, and the paper's."""
    printed = "" if paper is None else f"{paper:.2f}"
    if row is None:
        return "", printed
    return value_with_ends(row[measure if measure == "BLEU" else f"{measure} lost"]), printed


def value_with_ends(value: Row, digits: int = 3) -> str:
    """Return a mean with its interval, if it has one."""
    if value.get("low") is None:
        return f"{value['mean']:.{digits}f}"
    return f"{value['mean']:.{digits}f} [{value['low']:.{digits}f}, {value['high']:.{digits}f}]"


def qualities(summary: Row) -> list[str]:
    """Return the losses of all quality measures at the largest strength."""
    strongest = max(row["delta"] for row in summary["detection"])
    rows = {row["cell"]: row for row in summary["quality"]}
    measures = [name for name in summary["quality"][0] if f"{name} lost" in summary["quality"][0]]
    lines = [["no mark: the value", *(value_with_ends(rows[NONE][name]) for name in measures)]]
    for scheme in dict.fromkeys(row["scheme"] for row in summary["detection"]):
        row = rows[Cell(scheme, strongest).name]
        lost = [value_with_ends(row[f"{name} lost"]) for name in measures]
        lines.append([name_of(scheme, set()), *lost])
    return table([f"lost at delta {strongest:g}", *map(name_of_measure, measures)], lines)


def matched_rates(summary: Row) -> list[str]:
    """Return the TPR at measured false positive rates."""
    lines = []
    for row in summary["detection"]:
        cells = [rate_with_span(row["matched"][key_of(level)]) for level in MATCHED]
        n = f"{row['matched'][_REPORTED]['n']:,}"
        lines.append([name_of(row["judge"], set()), f"{row['delta']:g}", n, *cells])
    return table(["scheme", "delta", "n", *(level_name(level) for level in MATCHED)], lines)


def equal_quality(summary: Row) -> list[str]:
    """Compare each cell with our default at the same loss, at a measured 0.1 %."""
    measure = MEASURES[summary["task"]][0]
    lines = []
    for row in at_equal_quality(summary, measure):
        ours, apart = row["ours"], row["difference"]
        lines.append(
            [
                f"`{row['scheme']}`",
                f"{row['delta']:g}",
                f"{row['lost']:.3f}" + (" (more than our strongest)" if row["beyond"] else ""),
                f"{row['rate']['n']:,}",
                rate_with_span(row["rate"]),
                f"{percent(ours['rate'])} [{percent(ours['low'])}, {percent(ours['high'])}]",
                f"{100 * apart['value']:+.1f} [{100 * apart['low']:+.1f}, "
                f"{100 * apart['high']:+.1f}]",
                row["verdict"],
            ]
        )
    columns = ("n", "found", "ours at that loss", "points", "verdict")
    return table(["scheme", "delta", f"{name_of_measure(measure)} lost", *columns], lines)


def paper_attack(summary: Row) -> list[str]:
    """Return the rates after the paper's attack at each strength, at the paper's level."""
    task, rows, alarms = summary["task"], summary["robustness"], false_alarms(summary)
    attack = PAPER_ATTACK[task]
    own = [row for row in rows if row["how"] == attack]
    epsilons = sorted({0.0, *EPSILONS[1:]} & {0.0, *(row["value"] for row in own)})
    lines = []
    for judge, delta in dict.fromkeys((row["judge"], row["delta"]) for row in own):
        at = {r["value"]: r["nominal"][_REPORTED] for r in own if _is(r, judge, delta)}
        intact = next(row for row in summary["detection"] if _is(row, judge, delta))
        at[0.0] = intact["nominal"][_REPORTED]
        papers = dict(zip(EPSILONS, ROBUSTNESS[task].get(judge, {}).get(delta, ()), strict=False))
        cells = [_with_paper(at.get(epsilon), papers.get(epsilon)) for epsilon in epsilons]
        edited = max(rate["n"] for value, rate in at.items() if value)
        n = f"{edited:,}"
        if at[0.0]["n"] != edited:
            n += f" (eps 0: {at[0.0]['n']:,})"
        lines.append([name_of(judge, alarms), f"{delta:g}", n, *cells])
    return table(["scheme", "delta", "n", *(f"eps {e:g}" for e in epsilons)], lines)


def _is(row: Row, judge: str, delta: float) -> bool:
    return bool(row["judge"] == judge and row["delta"] == delta)


def other_attacks(summary: Row, by_model: bool) -> list[str]:
    """Return the rates after other attacks at the largest strength, at a measured 0.1 %.

    `by_model` selects the attacks with the design model itself.
    """
    without = PAPER_ATTACK[summary["task"]]
    rows = [
        row
        for row in summary["robustness"]
        if row["how"] != without and (row["how"] in _MODEL_ATTACKS) == by_model
    ]
    if not rows:
        return []
    kinds = list(dict.fromkeys((row["how"], row["value"]) for row in rows))
    at = {(row["judge"], row["how"], row["value"]): row["matched"][_REPORTED] for row in rows}
    lines = []
    for judge in _judges(rows):
        cells = [_with_paper(at.get((judge, *kind)), None) for kind in kinds]
        n = f"{max(rate['n'] for (who, *_), rate in at.items() if who == judge):,}"
        lines.append([name_of(judge, set()), n, *cells])
    return table(["scheme", "n", *(f"{how} {value:g}" for how, value in kinds)], lines)


def diversity(summary: Row) -> list[str]:
    """Return the entropies of n-grams."""
    lines = []
    for row in summary["diversity"]:
        papers = DIVERSITY.get(row["scheme"])
        cells = []
        for order in (1, 2, 3):
            own = row[f"{order}-gram entropy"]
            text = f"{own['value']:.3f} [{own['low']:.3f}, {own['high']:.3f}]"
            cells.append(text + (f" / {papers[order - 1]:.3f}" if papers else ""))
        n = f"{row['1-gram entropy']['n']:,}"
        lines.append(["no mark" if row["scheme"] == NONE else f"`{row['scheme']}`", n, *cells])
    return table(["scheme", "n", "1-grams", "2-grams", "3-grams"], lines)


def ablation(rows: Sequence[Row], name: str, value: Callable[[Row], float]) -> list[str]:
    """Return one row for each value of the varied parameter."""
    ordered = sorted(rows, key=value)
    lines = [
        [
            f"{value(row):g}",
            f"{row['nominal'][_REPORTED]['n']:,}",
            *(rate_with_span(row["nominal"][key_of(level)]) for level in FPRS),
        ]
        for row in ordered
    ]
    return table([name, "n", *map(level_name, FPRS)], lines)


def stay_quality(summary: Row) -> list[str]:
    """Return the losses with other transition matrices."""
    quality = {row["cell"]: row for row in summary["quality"]}
    measures = [name for name in MEASURES[summary["task"]] if f"{name} lost" in quality[NONE]]
    lines = []
    for row in sorted(summary["ablation_stay"], key=lambda row: float(row["stay"])):
        own = quality[Cell(row["scheme"], row["delta"], row["stay"]).name]
        lines.append(
            [f"{row['stay']:g}", *(value_with_ends(own[f"{name} lost"]) for name in measures)]
        )
    return table(["a11", *(f"{name_of_measure(name)} lost" for name in measures)], lines)


def lengths(summary: Row) -> list[str]:
    """Return the length needed, and the rates in windows of each length."""
    rows, alarms = summary["lengths"], false_alarms(summary)
    values = sorted({row["value"] for row in rows})
    lines = []
    for judge, delta in dict.fromkeys((row["judge"], row["delta"]) for row in rows):
        at = {r["value"]: r["nominal"][_REPORTED] for r in rows if _is(r, judge, delta)}
        needed = length_needed(rows, judge, delta)
        text = f"more than {values[-1]:g}" if needed is None else f"**{needed:.0f}**"
        if needed == values[0]:
            text = f"at most **{needed:g}**"
        n = f"{max(rate['n'] for rate in at.values()):,}"
        cells = [_with_paper(at.get(value), None) for value in values]
        lines.append([name_of(judge, alarms), f"{delta:g}", n, text, *cells])
    header = ["scheme", "delta", "n", "for 95 %", *(f"{value:g}" for value in values)]
    return table(header, lines)


def false_positives(summary: Row) -> list[str]:
    """Return measured rates at nominal levels, with the worst key."""
    lines = []
    for row in summary["false_positives"]:
        rates = row["rates"]
        n, keys = rates[_REPORTED]["n"], rates[_REPORTED]["keys"]
        cells = []
        for level in _NULL_LEVELS:
            rate = rates[key_of(level)]
            text = f"{rate_with_span(rate)}; {percent(rate['best_key'])}"
            cells.append(f"**{text}**" if span(rate)[0] > level else text)
        lines.append([name_of(row["judge"], set()), row["what"], f"{n:,}", f"{keys}", *cells])
    header = ["scheme", "judged", "n", "keys", *(level_name(level) for level in _NULL_LEVELS)]
    return table(header, lines, left=2)


def secrecy(result: dict[str, Any]) -> list[str]:
    """Return the main numbers of `bench secrecy`."""
    default, lines = result["default"], []
    for row in result["curve"]:
        is_paper = row["scheme"] == Paper.name
        is_ours = (row["block"], row["nonces"]) == (default["block"], default["nonces"])
        if row["delta"] != 1.0 or not (is_paper or is_ours):
            continue
        name = "the paper's" if is_paper else f"ours, {row['nonces']} nonces {row['draw']}"
        found = [
            f"{percent(rate['rate'])} [{percent(rate['low'])}, {percent(rate['high'])}] "
            f"of {rate['n']:,}"
            for rate in (row["forged"], row["stripped"], row["random"])
        ]
        lines.append([name, f"{row['sequences']:,}", f"{row['keys']}", *found])
    return table(
        [
            "scheme",
            "seen",
            "keys",
            "forged, taken for genuine",
            "stripped, still found",
            "changed at random, still found",
        ],
        lines,
    )
