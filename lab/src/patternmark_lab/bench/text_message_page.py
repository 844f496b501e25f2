"""The page of `patternmark bench text-message`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patternmark_lab.bench.text_edits_page import case_name
from patternmark_lab.bench.translation import AS_NEEDED


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    low, high = result["tokens"]
    lines = [
        "# Numbers in texts, and the key of a text",
        "",
        f"Made by `patternmark bench text-message PARAGRAPHS --texts {result['wanted']} "
        f"--skip {result['skipped']} --keys {result['keys']} -o docs/results` with patternmark "
        f"{result['version']}: {result['texts']} German paragraphs of Europarl, cut so that their "
        f"reference has {low} to {high} tokens, translated on a CPU by the model with the weights "
        f"{result['model']}. Every text carries a random number, and the key changes after every "
        "ten texts. The likeliest candidate is taken. *As needed* takes the likeliest candidate "
        "whose mark is clear, and marks only as strongly as needed, in up to "
        f"{result['passes']} passes. Numbers are percentages with exact 95 % intervals "
        "(Clopper-Pearson).",
        "",
        "## Reading the number",
        "",
        "*Found* is by `detect` at p <= 0.1 %, *p_any* by `detect --strict`. *Right*, *wrong* and "
        "*not printed* are about the number that `detect` prints; it prints one if the mark is "
        "found by p_value.",
    ]
    for quality in result["quality"]:
        lines += ["", *_table(result["rows"], quality)]
    lines += ["", "## Is the printed probability of an error right?", ""]
    lines += _calibration(result["calibration"])
    if result["owners"]:
        lines += ["", "## Which of many keys", "", *_owners(result)]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[dict[str, Any]], quality: dict[str, Any]) -> list[str]:
    same = ("nonces", "delta", "choice")
    own = [row for row in rows if all(row[name] == quality[name] for name in same)]
    bits = (quality["nonces"] - 1).bit_length()
    names = {"found": "found", "found_any": "p_any"}
    if bits:
        names |= {"right": "right", "wrong": "wrong", "not_printed": "not printed"}
    carried = f"{bits} bits" if bits else "no number"
    lines = [
        f"### {carried} ({_strength(quality)})",
        "",
        f"Keys of {_nonces(quality['nonces'])}; BLEU {quality['bleu']:.2f} (n = {quality['n']}).",
        "",
        f"| | {' | '.join(names.values())} |",
        f"|---|{'---|' * len(names)}",
    ]
    for row in own:
        cells = " | ".join(_percent(row[name]) for name in names)
        lines.append(f"| {case_name(row['case'])} | {cells} |")
    return lines


def _strength(row: dict[str, Any]) -> str:
    if row["choice"] == AS_NEEDED:
        return f"as needed, up to delta {row['delta']:g}"
    return f"delta {row['delta']:g}"


def _nonces(number: int) -> str:
    return "one nonce" if number == 1 else f"{number:,} nonces"


def _calibration(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "All texts with a printed number, together. *Mean* is the mean of the printed "
        "probabilities; it is right if it is inside the interval of the share of wrong numbers.",
        "",
        "| printed | numbers | mean, percent | wrong, percent | |",
        "|---|---:|---:|---|---|",
    ]
    for row in rows:
        wrong = row["wrong"]
        is_all = (row["from"], row["to"]) == (rows[0]["from"], rows[0]["to"])
        name = "all" if is_all else f"{100 * row['from']:g} to {100 * row['to']:g} %"
        verdict = "right" if wrong["low"] <= row["stated"] <= wrong["high"] else "**too large**"
        if row["stated"] < wrong["low"]:
            verdict = "**too small**"
        stated = f"{100 * row['stated']:.2g}"
        lines.append(f"| {name} | {wrong['n']} | {stated} | {_percent(wrong)} | {verdict} |")
    return lines


def _owners(result: dict[str, Any]) -> list[str]:
    keys = f"{result['keys']:,}"
    lines = [
        f"`identify` looks for one text at a time among {keys} fresh keys with one nonce. *First*: "
        "the right key comes first. *Named*: it comes first with a corrected p <= 0.1 %. "
        f"*Another*: another key is named. *Stranger*: a key is named among {keys} keys without "
        "the right one. *Time* of one text, relative to a detection with one key: median and "
        "largest.",
        "",
        "| | tokens | first | named | another | stranger | time |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["owners"]:
        names = ("first", "named", "wrong", "strangers")
        cells = " | ".join(_percent(row[name]) for name in names)
        length = "whole" if row["length"] is None else f"first {row['length']}"
        time = f"{row['detections']:.0f} ({row['detections_most']:.0f})"
        which = f"{_strength(row)}, {case_name(row['case'])}"
        lines.append(f"| {which} | {length} | {cells} | {time} |")
    return lines


def _percent(rate: dict[str, Any]) -> str:
    value, low, high = (100 * rate[name] for name in ("rate", "low", "high"))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"
