"""The page and the picture of `patternmark bench validity`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patternmark.statistics import STATISTICS
from patternmark_lab.bench.validity import (
    DESIGNED,
    LEVELS,
    NATURAL,
    OTHER_DELTA,
    OTHERS,
    TOLERATED,
)
from patternmark_lab.bench.validity_written_page import records_section, written_section

_MIN_CHANCE = 1e-3  # if a worst key is less likely than this, luck does not explain it
_MIN_EXPECTED = 10  # false positives; if fewer are expected, a rate twice too high may be `ok`
SOURCES = {
    NATURAL: "natural sequences",
    DESIGNED: "unmarked ProteinMPNN designs",
    **{source: f"designs {source}, delta {OTHER_DELTA:g}" for source in OTHERS},
}

HOW_TO_READ = """\
A p-value is valid if it is 1 % or less for at most 1 % of unmarked sequences, and so on for other
levels. *Ratio* is the measured rate divided by the nominal rate: 1 is exact, less is cautious, and
more means too many false positives. It has two 95 % intervals. The first is exact
(Clopper-Pearson), as if all pairs of a sequence and a key were independent. The second is over
keys, whose rates are independent except for the sequences that they share. Both are for these
sequences only; other sources may differ.

The verdict is `ok` if the ratio is at most {tolerated}, or if the wider of the two intervals
reaches down to {tolerated}. Otherwise the verdict is the ratio. *Worst key* is the ratio of the key
with the most false positives at this level, with its exact interval. *Chance* bounds the
probability that the worst of {num_keys} keys is as bad if every key has the nominal rate and its
sequences are independent (many natural chains are alike, so it is too small rather than too large).
"""


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    rows = result["rates"]
    lines = [
        "# Are the p-values valid for proteins?",
        "",
        f"Made by `{_command(result)}` with patternmark {result['version']}, Python "
        f"{result['python']}, numpy {result['numpy']}: {result['num_keys']} fresh keys of each "
        f"scheme. {_sources(result)}",
        "",
        HOW_TO_READ.format(tolerated=TOLERATED, num_keys=result["num_keys"]),
        "![False positives over the nominal rate](validity.png)",
        "",
        *written_section(result["written"]),
        "",
        *records_section(result["records"]),
        "",
        *verdicts(rows, list(result["sources"]), _named),
    ]
    return "\n".join(lines) + "\n"


def verdicts(
    rows: list[dict[str, Any]], sources: list[str], named: Callable[[str], str]
) -> list[str]:
    """Return the summary of rates, and the table of every scheme and source."""
    lines = [
        "## Summary",
        "",
        *failures(rows),
        "",
        *unlucky_keys(rows),
        "",
        *too_few(rows),
        "The verdict, at " + ", ".join(level_name(level) for level in LEVELS) + ":",
        "",
        *summary(rows, sources),
    ]
    for scheme in schemes_of(rows):
        for source in sources:
            some = [r for r in rows if (r["scheme"], r["source"]) == (scheme, source)]
            lines += ["", f"## {scheme}: {named(source)}", "", *table(some)]
    return lines


def _command(result: dict[str, Any]) -> str:
    structures = f"--structures FOLDER --samples {result['samples']} " if result["samples"] else ""
    most, fewest = result["per_key"]["paper"], list(result["per_key"].values())[-1]
    return (
        f"patternmark bench validity NULL.fa {structures}--keys {result['num_keys']} "
        f"--sequences {most} --sequences-default {fewest} -o docs/results"
    )


def _sources(result: dict[str, Any]) -> str:
    listed = []
    for source, about in result["sources"].items():
        lengths = "{shortest} to {longest} residues, half of them up to {median}".format(**about)
        listed.append(f"{about['sequences']:,} {_named(source)} ({lengths})")
    per_key = ", ".join(f"{count:,} ({scheme})" for scheme, count in result["per_key"].items())
    text = f"The sequences are {', '.join(listed)}. Each key judges a random part of the natural "
    text += f"sequences, namely {per_key}"
    if result["samples"]:
        text += (
            f", and all designs: {result['samples']} of each kind on each of "
            f"{result['backbones']} chains, {result['model']}, T = {result['temperature']}"
        )
    return text + ". No sequence is left out because of repeats."


def _named(source: str) -> str:
    return SOURCES.get(source, source)


def failures(rows: list[dict[str, Any]]) -> list[str]:
    """List the rates that are too high."""
    failed = [row for row in rows if not row["ok"]]
    if not failed:
        return [f"All {len(rows)} rates below are `ok`."]
    lines = [f"**{len(failed)} of {len(rows)} rates are too high:**", ""]
    for row in failed:
        lines.append(
            f"- {row['scheme']}, `{row['detector']}`, {_named(row['source'])}, at "
            f"{level_name(row['nominal'])}: {row['ratio']:.2f} times the nominal rate"
        )
    return lines


def unlucky_keys(rows: list[dict[str, Any]]) -> list[str]:
    """List the rows in which a single key is worse than chance explains."""
    outside = [row for row in rows if row["worst_key"]["chance"] < _MIN_CHANCE]
    if not outside:
        return ["No single key is worse than luck explains (chance below 0.1 %)."]
    names = dict.fromkeys(f"{r['scheme']}, `{r['detector']}`, {r['source']}" for r in outside)
    return [
        f"In {len(outside)} of {len(rows)} rows the worst key is worse than luck explains (chance "
        f"below 0.1 %): {'; '.join(names)}. A p-value is valid over keys drawn at random; check a "
        "single key with `patternmark calibrate`."
    ]


def too_few(rows: list[dict[str, Any]]) -> list[str]:
    """List the rates whose `ok` means little, because few false positives are expected."""
    thin = [row for row in rows if row["pairs"] * row["nominal"] < _MIN_EXPECTED]
    names = dict.fromkeys(f"{r['scheme']}, {r['source']}, {level_name(r['nominal'])}" for r in thin)
    if not names:
        return []
    return [
        f"In these cases fewer than {_MIN_EXPECTED} false positives are expected, so that `ok` "
        "means little: " + "; ".join(names) + ".",
        "",
    ]


def summary(rows: list[dict[str, Any]], sources: list[str]) -> list[str]:
    """Return the table of verdicts."""
    lines = ["| scheme | detector | " + " | ".join(_named(s) for s in sources) + " |"]
    lines.append("|---|---|" + "---|" * len(sources))
    for scheme, detector in dict.fromkeys((row["scheme"], row["detector"]) for row in rows):
        cells = []
        for source in sources:
            where = (scheme, detector, source)
            cells.append(", ".join(_verdict(r) for r in rows if _place(r) == where))
        lines.append(f"| {scheme} | `{detector}` | " + " | ".join(cells) + " |")
    return lines


def schemes_of(rows: list[dict[str, Any]]) -> list[str]:
    """Return the schemes that were measured."""
    return list(dict.fromkeys(row["scheme"] for row in rows))


def _place(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["scheme"], row["detector"], row["source"]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of rates of one scheme and source."""
    lines = [
        "| detector | nominal | pairs | hits | ratio | if independent | over keys | worst key "
        "| chance | verdict |",
        "|---|---:|---:|---:|---:|---|---|---|---:|---|",
    ]
    for row in rows:
        worst, level = row["worst_key"], row["nominal"]
        ends = [_ends(part["low"] / level, part["high"] / level) for part in (row, row["by_key"])]
        its_ends = _ends(worst["low"] / level, worst["high"] / level)
        lines.append(
            f"| `{row['detector']}` | {level_name(level)} | {row['pairs']:,} | {row['hits']:,} "
            f"| {row['ratio']:.3f} | {ends[0]} | {ends[1]} "
            f"| {worst['fpr'] / level:.2f} {its_ends} | {_chance(worst['chance'])} "
            f"| {_verdict(row)} |"
        )
    return lines


def _verdict(row: dict[str, Any]) -> str:
    return "ok" if row["ok"] else f"**{row['ratio']:.2f}**"


def level_name(level: float) -> str:
    """Return a level as a percentage."""
    return f"{100 * level:g} %"


def _ends(low: float, high: float) -> str:
    return f"[{max(low, 0.0):.3g}, {high:.3g}]"


def _chance(chance: float) -> str:
    text = f"{chance:.2g}" if chance >= 1e-4 else f"{chance:.0e}"
    return f"**{text}**" if chance < _MIN_CHANCE else text


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw measured over nominal rates, with a panel for each scheme and source."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    sources = list(dict.fromkeys(row["source"] for row in result["rates"]))
    schemes = schemes_of(result["rates"])
    figure = Figure(figsize=(5 * len(sources), 9), layout="constrained", dpi=150)
    grid = figure.subplots(len(schemes), len(sources), squeeze=False, sharex=True, sharey=True)
    for line, scheme in zip(grid, schemes, strict=True):
        for axes, source in zip(line, sources, strict=True):
            for number, detector in enumerate(STATISTICS):
                where = (scheme, detector, source)
                rows = [row for row in result["rates"] if _place(row) == where]
                if rows:
                    shift = 1.12 ** (number - len(STATISTICS) / 2)  # puts detectors side by side
                    _draw(axes, rows, detector, shift, f"C{number}")
            axes.axhline(1.0, color="black", linewidth=0.8)
            axes.axhline(TOLERATED, color="black", linewidth=0.8, linestyle=":")
            axes.set_title(f"{scheme}: {_named(source)}", fontsize=10)
    highest = max(row["ratio"] for row in result["rates"])
    grid[0][0].set(xscale="log", ylim=(0, max(2.0, 1.1 * highest)))  # intervals may be cut
    grid[0][0].invert_xaxis()
    grid[0][0].legend(fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("nominal false positive rate")
    for axes in grid[:, 0]:
        axes.set_ylabel("measured / nominal (95 %)")
    figure.savefig(path)


def _draw(axes: Any, rows: list[dict[str, Any]], name: str, shift: float, colour: str) -> None:
    """Draw one detector, with the interval that reaches further on each side."""
    levels = [row["nominal"] for row in rows]
    at = [level * shift for level in levels]
    axes.plot(at, [row["ratio"] for row in rows], "o-", color=colour, label=name, markersize=4)
    low = [min(row["low"], row["by_key"]["low"]) / row["nominal"] for row in rows]
    high = [max(row["high"], row["by_key"]["high"]) / row["nominal"] for row in rows]
    axes.vlines(at, low, high, color=colour, linewidth=1.2)
