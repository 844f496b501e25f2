"""The page and the picture of `patternmark bench translation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patternmark.bench.translation import DETECTORS, GOALS, MOST_LOST, PAPER, REPORTED, WANTED

_LEVEL = f"{REPORTED:g}"


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    low, high = result["tokens"]
    unmarked = result["settings"][0]
    lines = [
        "# Translation: what a mark costs, and how often it is found",
        "",
        f"Made by `patternmark bench translation PARAGRAPHS --texts {result['texts']} -o "
        f"docs/results` with patternmark {result['version']} on {result['device']}: "
        f"{result['texts']} German paragraphs of Europarl, cut so that the reference has {low} to "
        f"{high} tokens; {result['decoding']['iterations']} iterations, "
        f"{result['decoding']['length_beam']} lengths; {result['keys']} fresh keys of each scheme "
        "that take turns. Detectors read the text. Rates are percent at p <= 0.1 %, with 95 % "
        f"intervals (Clopper-Pearson); BLEU `{result['bleu_signature']}` with 95 % intervals "
        "(resampled texts).",
        "",
        f"Without a mark: BLEU {_bleu(unmarked)}.",
        "",
        "![Marks found against BLEU](translation.png)",
        "",
        "*found*: of the lengths tried, the likeliest translation is taken in which the detector "
        f"finds the mark at p <= {result['sure']:g} (the default). *likeliest*: the likeliest.",
        "",
        *_goals(result),
    ]
    for scheme, detectors in DETECTORS.items():
        rows = [s for s in result["settings"] if s["setting"].startswith(f"{scheme},")]
        if not rows:
            continue
        lines += ["", f"## {scheme}", ""]
        names = [*detectors, "auto on tokens"]
        lines.append("| delta | taken | BLEU | " + " | ".join(names) + " | same tokens |")
        lines.append("|---:|---|---|" + "---|" * (len(names) + 1))
        for row in rows:
            _, delta, choice = row["setting"].split(", ")
            cells = " | ".join(_percent(row["found"][name][_LEVEL]) for name in names)
            same = f"{100 * row['same_tokens']:.0f} %"
            lines.append(f"| {delta.split()[1]} | {choice} | {_bleu(row)} | {cells} | {same} |")
    lines += [
        "",
        "*Same tokens*: texts that are split into the tokens they were made of when they are read "
        "again; *auto on tokens* is what would be found if no text had lost any.",
        "",
        "## Without a mark",
        "",
        "| scheme | detector | called marked at 1 % | at 0.1 % |",
        "|---|---|---|---|",
    ]
    for name, found in unmarked["found"].items():
        scheme, detector = name.split("/")
        cells = " | ".join(_percent(found[level]) for level in ("0.01", _LEVEL))
        lines.append(f"| {scheme} | {detector} | {cells} |")
    return "\n".join(lines) + "\n"


def _goals(result: dict[str, Any]) -> list[str]:
    """Say what was to be reached, and whether it was."""
    lines = [
        "| goal | wanted | hardened | paper's scheme | the paper's own |",
        "|---|---|---|---|---|",
    ]
    for delta, goal in GOALS.items():
        cells = []
        for scheme in ("hardened", "paper"):
            row = _setting(result, f"{scheme}, delta {delta:g}, found")
            if row is None:
                cells.append("")
                continue
            rate = row["found"]["auto"][_LEVEL]
            cells.append(_percent(rate) + _verdict(100 * rate["rate"] >= goal))
        lines.append(
            f"| found at delta {delta:g} | {goal:g} % | {' | '.join(cells)} | {PAPER[delta]:g} % |"
        )
    cells = []
    for scheme in ("hardened", "paper"):
        lost = [t["bleu_lost"] for t in result["trade_off"] if t["setting"] == f"{scheme}, found"]
        if not lost or lost[0] is None:
            cells.append("not reached")
        else:
            cells.append(f"**{lost[0]:.2f}**{_verdict(lost[0] <= MOST_LOST)}")
    lines.append(
        f"| BLEU lost where {WANTED:.0%} are found | at most {MOST_LOST:g} | {' | '.join(cells)} "
        "| 8.6 at 98 % |"
    )
    return lines


def _setting(result: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((s for s in result["settings"] if s["setting"] == name), None)


def _verdict(reached: bool) -> str:
    return "" if reached else ", **missed**"


def _bleu(row: dict[str, Any]) -> str:
    return f"{row['bleu']:.2f} ± {row['bleu_half']:.2f}"


def _percent(rate: dict[str, float]) -> str:
    return f"**{100 * rate['rate']:.1f}** ({100 * rate['low']:.1f} to {100 * rate['high']:.1f})"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw what is found against the BLEU that is left."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    figure = Figure(figsize=(7, 4.5), layout="constrained", dpi=150)
    axes = figure.subplots()
    series: dict[str, list[dict[str, Any]]] = {}
    for row in result["settings"][1:]:
        scheme, _, choice = row["setting"].split(", ")
        series.setdefault(f"{scheme}, {choice}", []).append(row)
    for name, rows in series.items():
        found = [100 * row["found"]["auto"][_LEVEL]["rate"] for row in rows]
        axes.plot([row["bleu"] for row in rows], found, "o-", markersize=4, label=name)
        for row, height in zip(rows, found, strict=True):
            delta = row["setting"].split(", ")[1].split()[1]
            axes.annotate(
                delta, (row["bleu"], height), fontsize=7, xytext=(3, -9), textcoords="offset points"
            )
    axes.axvline(result["settings"][0]["bleu"], color="black", linewidth=1, linestyle=":")
    axes.annotate(" no mark", (result["settings"][0]["bleu"], 2), fontsize=8)
    axes.invert_xaxis()
    axes.set(xlabel="BLEU (numbers: delta)", ylabel="percent found at p <= 0.1 %", ylim=(-2, 103))
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path)
