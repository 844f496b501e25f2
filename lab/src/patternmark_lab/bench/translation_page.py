"""The page and the picture of `patternmark bench translation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patternmark.core.schemes import Paper, Turns
from patternmark_lab.bench.translation import (
    DETECTORS,
    MAX_LOST,
    ON_TOKENS,
    PASSES,
    REPORTED,
    WANTED,
    WANTED_MARKED,
    WANTED_UNMARKED,
)

_LEVEL = f"{REPORTED:g}"


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    unmarked, *marked = result["settings"]
    # An older result may have a note that its reader must know.
    note = [f"**{result['note']}**", ""] if "note" in result else []
    introduction = _introduction(result)
    lines = [*introduction[:2], *note, *introduction[2:], *_goals(result)]
    for scheme in DETECTORS:
        rows = [row for row in marked if row["scheme"] == scheme]
        lines += _scheme(scheme, rows) if rows else []
    lines += [
        "",
        "*Same tokens* is the share of texts that are tokenized again into the tokens that they "
        f"were made of; of texts without a mark {100 * unmarked['same_tokens']:.0f} %. "
        f"*{ON_TOKENS}* is the share found if all texts kept their tokens.",
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


def _introduction(result: dict[str, Any]) -> list[str]:
    low, high = result["tokens"]
    deltas = ",".join(f"{d:g}" for d in sorted({row["delta"] for row in result["settings"][1:]}))
    return [
        "# Translation: the cost of a mark, and how often it is found",
        "",
        f"Made by `patternmark bench translation PARAGRAPHS --texts {result['texts']} --skip "
        f"{result['skipped']} --keys "
        f"{result['keys']} --deltas {deltas} --seed {result['seed']}{_named(result)} "
        "-o docs/results` with "
        f"patternmark {result['version']} on {result['device']}: {result['texts']} German "
        f"paragraphs of Europarl, cut after a sentence so that the reference has {low} to {high} "
        f"tokens. The first {result['skipped']} are left out, because defaults were chosen on "
        f"them. No number includes the {result['english_already']} paragraphs whose source is "
        "English already, because the model copies them: "
        f"{result['settings'][0]['n']} remain. Decoding has {result['decoding']['iterations']} "
        f"iterations and {result['decoding']['length_beam']} lengths. {result['keys']} fresh keys "
        "of each scheme are used in turn. Detectors read the text. Rates are percentages at "
        "p <= 0.1 %, with 95 % intervals (Clopper-Pearson). BLEU is "
        f"`{result['bleu_signature']}` with 95 % intervals over resampled texts. All settings "
        "translate the same texts, so that differences are more certain than the intervals of two "
        "scores suggest.",
        "",
        f"Without a mark: BLEU {_bleu(result['settings'][0])}{_on_sentences(result)}.",
        "",
        f"![Marks found against BLEU]({result['benchmark']}.png)",
        "",
        "*found* takes, among the lengths tried, the likeliest translation whose mark is clear at "
        f"p <= {result['sure']:g} and whose text reads back. *as needed* (the default of "
        f"`translate`) does the same, but starts with a weaker mark and raises it to delta in up "
        f"to {PASSES} passes until the mark is clear. *likeliest* takes the likeliest translation. "
        "BLEU lost is compared with no mark on the same texts.",
        "",
    ]


def _named(result: dict[str, Any]) -> str:
    """Return the options of a result of another model than the shipped one."""
    name = result["benchmark"]
    return "" if name == "translation" else f" --model FOLDER --name {name}"


def _on_sentences(result: dict[str, Any]) -> str:
    if result["sentences"] is None:
        return ""
    row = result["sentences"]
    return f"; on the {row['n']:,} sentences of {row['file']} {_bleu(row)}"


def _scheme(scheme: str, rows: list[dict[str, Any]]) -> list[str]:
    names = [*DETECTORS[scheme], ON_TOKENS]
    lines = [
        "",
        f"## {scheme}",
        "",
        "| delta | taken | BLEU | " + " | ".join(names) + " | same tokens |",
        "|---:|---|---|" + "---|" * (len(names) + 1),
    ]
    for row in rows:
        cells = " | ".join(_percent(row["found"][name][_LEVEL]) for name in names)
        same = f"{100 * row['same_tokens']:.0f} %"
        lines.append(f"| {row['delta']:g} | {row['choice']} | {_bleu(row)} | {cells} | {same} |")
    return lines


def _goals(result: dict[str, Any]) -> list[str]:
    """Return the table of goals and whether they are reached."""
    unmarked = result["settings"][0]["bleu"]
    where = f"where {WANTED:.0%} are found (interpolated)"
    lines = [
        "| | goal | default scheme | paper's scheme | reported in the paper |",
        "|---|---|---|---|---|",
        f"| BLEU without a mark | {WANTED_UNMARKED:g} | **{unmarked:.2f}**"
        f"{_verdict(unmarked >= WANTED_UNMARKED)} | | |",
    ]
    for choice in dict.fromkeys(row["choice"] for row in result["trade_off"]):
        lost = [_lost_at(result, scheme, choice) for scheme in (Turns.name, Paper.name)]
        left = [None if x is None else unmarked - x for x in lost]
        cells = [_reached(x, x is not None and x >= WANTED_MARKED) for x in left]
        lines.append(f"| BLEU, {choice}, {where} | {WANTED_MARKED:g} | {' | '.join(cells)} | |")
        cells = [_reached(x, x is not None and x <= MAX_LOST) for x in lost]
        papers = "8.6 at 98 %" if choice == "likeliest" else ""
        lines.append(f"| BLEU lost there | at most {MAX_LOST:g} | {' | '.join(cells)} | {papers} |")
    return [*lines, "", "The number reported in the paper is for its own model and data."]


def _lost_at(result: dict[str, Any], scheme: str, choice: str) -> float | None:
    for row in result["trade_off"]:
        if (row["scheme"], row["choice"]) == (scheme, choice):
            lost: float | None = row["bleu_lost"]
            return lost
    return None


def _reached(value: float | None, reached: bool) -> str:
    return "not reached" if value is None else f"**{value:.2f}**{_verdict(reached)}"


def _verdict(reached: bool) -> str:
    return "" if reached else ", **missed**"


def _bleu(row: dict[str, Any]) -> str:
    return f"{row['bleu']:.2f} ± {row['bleu_half']:.2f}"


def _percent(rate: dict[str, float]) -> str:
    return f"**{100 * rate['rate']:.1f}** ({100 * rate['low']:.1f} to {100 * rate['high']:.1f})"


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw the share found against BLEU."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # not needed to measure

    figure = Figure(figsize=(7, 4.5), layout="constrained", dpi=150)
    axes = figure.subplots()
    series: dict[str, list[dict[str, Any]]] = {}
    for row in result["settings"][1:]:
        series.setdefault(f"{row['scheme']}, {row['choice']}", []).append(row)
    for name, rows in series.items():
        found = [100 * row["found"]["auto"][_LEVEL]["rate"] for row in rows]
        axes.plot([row["bleu"] for row in rows], found, "o-", markersize=4, label=name)
        for row, height in zip(rows, found, strict=True):
            axes.annotate(
                f"{row['delta']:g}",
                (row["bleu"], height),
                fontsize=7,
                xytext=(3, -9),
                textcoords="offset points",
            )
    axes.axvline(result["settings"][0]["bleu"], color="black", linewidth=1, linestyle=":")
    axes.annotate(" no mark", (result["settings"][0]["bleu"], 2), fontsize=8)
    axes.invert_xaxis()
    axes.set(xlabel="BLEU (numbers: delta)", ylabel="percent found at p <= 0.1 %", ylim=(-2, 103))
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path)
