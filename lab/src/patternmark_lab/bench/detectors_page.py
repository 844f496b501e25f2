"""The page and the picture of `patternmark bench detectors`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patternmark_lab.bench.detector_designs import SCHEMES
from patternmark_lab.bench.detectors import CASES, DETECTORS, REPORTED, Case


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    at = _reported(result)
    count = len(result["backbones"])
    lines = [
        "# Detectors: the weakest marks that they find",
        "",
        f"Made by `patternmark bench detectors STRUCTURES --keys {result['num_keys']} -o "
        f"docs/results` with patternmark {result['version']}, numpy {result['numpy']}. Real "
        f"ProteinMPNN ({result['model']}), T = 0.1, {count} PoseBusters chains of 300 to 500 "
        f"residues, each with {result['num_keys']} fresh keys of its own. The tables have the true "
        "positive rate in percent at p <= 0.1 %, with its 95 % interval (Clopper-Pearson). Chains "
        "on which rates and weights were chosen are left out.",
        "",
        "![Marks found by each detector, and the goals](detectors.png)",
        "",
        "## The default detector",
        "",
        *_missed(at),
        "",
        "| attack | delta | " + " | ".join(f"{s}: goal | `auto`" for s in SCHEMES) + " |",
        "|---|---:|" + "---:|---|" * len(SCHEMES),
    ]
    for case in CASES:
        cells = []
        for scheme in SCHEMES:
            row = at[scheme, case.attack, case.delta, "auto"]
            goal = case.goals.get(scheme)
            reached = _percent(row) + ("" if goal is None else _miss(row, goal))
            cells.append(f"{'' if goal is None else f'{goal:g}'} | {reached}")
        lines.append(f"| {case.attack} | {case.delta:g} | " + " | ".join(cells) + " |")
    for scheme in SCHEMES:
        names = DETECTORS[scheme]
        if len(names) > 1:
            lines += ["", f"## Every detector: {scheme}", ""]
            lines += ["| attack | delta | " + " | ".join(names) + " |"]
            lines += ["|---|---:|" + "---|" * len(names)]
            for case in CASES:
                rows = [at[scheme, case.attack, case.delta, name] for name in names]
                found = " | ".join(f"{100 * r['tpr']:.1f}" for r in rows)
                lines.append(f"| {case.attack} | {case.delta:g} | {found} |")
    lines += [
        "",
        "## Quality",
        "",
        "| scheme | delta | negative log-likelihood |",
        "|---|---:|---|",
    ]
    for made in result["quality"]:
        lines.append(
            f"| {made['scheme']} | {made['delta']:g} | {made['nll']:.4f} ± {made['half']:.4f} |"
        )
    return "\n".join(lines) + "\n"


Place = tuple[str, str, float, str]  # scheme, attack, delta, detector


def _reported(result: dict[str, Any]) -> dict[Place, dict[str, Any]]:
    """Return the rates at the FPR of the page and of the goals."""
    return {
        (r["scheme"], r["attack"], r["delta"], r["detector"]): r
        for r in result["rates"]
        if r["fpr"] == REPORTED
    }


def _missed(at: dict[Place, dict[str, Any]]) -> list[str]:
    """List the goals that `auto` misses, and whether sampling error explains each miss."""
    goals = [(scheme, case) for case in CASES for scheme in case.goals]
    lines = []
    for scheme, case in goals:
        row = at[scheme, case.attack, case.delta, "auto"]
        if miss := _miss(row, case.goals[scheme]):
            goal, rate = case.goals[scheme], 100 * row["tpr"]
            lines.append(
                f"- {scheme}, {case.attack}, delta {case.delta:g}: {rate:.1f} of {goal:g}{miss}"
            )
    if not lines:
        return [f"All {len(goals)} goals are reached."]
    return [
        f"{len(goals) - len(lines)} of {len(goals)} goals are reached. `auto` misses these "
        "(*within error*: the goal is inside the interval):",
        "",
        *lines,
    ]


def _miss(row: dict[str, Any], goal: float) -> str:
    if 100 * row["tpr"] >= goal:
        return ""
    return ", missed within error" if 100 * row["high"] >= goal else ", **missed**"


def _percent(row: dict[str, Any]) -> str:
    rate, low, high = (100 * row[name] for name in ("tpr", "low", "high"))
    return f"**{rate:.1f}** ({low:.1f} to {high:.1f}, n = {row['trials']})"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw the rates of all detectors for each attack, and the goals; one panel for each scheme."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    at = _reported(result)
    figure = Figure(figsize=(9, 8.5), layout="constrained", dpi=150)
    heights = [
        len(DETECTORS[scheme]) + 2 for scheme in SCHEMES
    ]  # a panel with one series needs less
    grid = figure.subplots(len(SCHEMES), 1, sharex=True, sharey=True, height_ratios=heights)
    series = {name: number for number, name in enumerate(DETECTORS["paper"])}
    for axes, scheme in zip(grid, SCHEMES, strict=True):
        for name in DETECTORS[scheme]:
            number = series[name]
            shift = 0.12 * (number - (len(series) - 1) / 2)  # puts the series side by side
            rows = [at[scheme, case.attack, case.delta, name] for case in CASES]
            places = [i + shift for i in range(len(CASES))]
            _draw_rates(axes, places, rows, name, f"C{number}")
        _draw_goals(axes, scheme)
        axes.set_title(scheme, loc="left", fontsize=10)
        axes.set(ylim=(-3, 103), ylabel="percent found")
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, ncols=len(names), loc="outside upper center")
    grid[-1].set_xlabel(f"attack (marks found at p <= {REPORTED:.1%}, with 95 % intervals)")
    grid[-1].set_xticks(range(len(CASES)), [_label(case) for case in CASES], fontsize=8)
    figure.savefig(path)


def _draw_rates(
    axes: Any, at: list[float], rows: list[dict[str, Any]], name: str, colour: str
) -> None:
    low, high = ([100 * row[end] for row in rows] for end in ("low", "high"))
    axes.vlines(at, low, high, color=colour, linewidth=1.5)
    axes.plot(at, [100 * row["tpr"] for row in rows], "o", color=colour, label=name, markersize=4)


def _draw_goals(axes: Any, scheme: str) -> None:
    for number, case in enumerate(CASES):
        if scheme in case.goals:
            ends = (number - 0.42, number + 0.42)
            label = "goal of auto" if number == 0 else None
            axes.hlines(case.goals[scheme], *ends, color="black", linewidth=1, label=label)


def _label(case: Case) -> str:
    return f"{case.attack}\ndelta {case.delta:g}"
