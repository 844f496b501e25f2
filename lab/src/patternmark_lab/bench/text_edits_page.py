"""The page of `patternmark bench text-edits`."""

from __future__ import annotations

from typing import Any

from patternmark_lab.bench.text_edits import GOALS, NONE, PLAIN, WINDOW

_GOAL_DELTA = 5.0


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# Marks in text after edits and in windows",
        "",
        f"Made by `patternmark bench text-edits PARAGRAPHS --texts {result['texts']} "
        f"--paper-texts {result['paper_texts']} --skip {result['skipped']} -o docs/results` with "
        f"patternmark {result['version']}: German paragraphs of Europarl whose reference has 50 to "
        "100 tokens, translated by the package's model on a CPU, always the likeliest candidate, "
        "with 20 keys in turn. The tables have the percentage found at p <= 0.1 %, with 95 % "
        "intervals (Clopper-Pearson). *p_any* is the share found by the bound that holds for any "
        "text (`detect --strict`). The number after an edit is the share of edited words, "
        "sentences or letters; a window is a run of tokens, cut from anywhere. The detector's "
        "mixture was chosen on other paragraphs.",
        "",
        *_goals(result),
    ]
    for quality in result["quality"]:
        lines += ["", *_table(result, quality)]
    lines += ["", "## auto and the paper's count on the paper's marks", "", *_against(result)]
    lines += [f"\nNot measured: {what}" for what in result["missing"]]
    return "\n".join(lines) + "\n"


def case_name(case: list[Any]) -> str:
    name, strength = case
    if name == NONE:
        return "intact"
    return f"{name} of {strength:g} tokens" if name == WINDOW else f"{name} {strength:g}"


def _percent(row: dict[str, Any], name: str) -> str:
    rate = row["rates"][name]
    low, high = (100 * bound for bound in rate["interval"])
    return f"{100 * rate['found'] / row['n']:.1f} ({low:.1f} to {high:.1f})"


def _goals(result: dict[str, Any]) -> list[str]:
    lines = ["| default, delta 5 | goal | found |", "|---|---:|---|"]
    for row in result["rows"]:
        goal = GOALS.get((row["case"][0], row["case"][1]))
        if row["scheme"] != "turns" or row["delta"] != _GOAL_DELTA or goal is None:
            continue
        rate = 100 * row["rates"]["auto"]["found"] / row["n"]
        missed = "" if rate >= goal else ", **missed**"
        lines.append(f"| {case_name(row['case'])} | {goal:g} | {_percent(row, 'auto')}{missed} |")
    return lines


def _table(result: dict[str, Any], quality: dict[str, Any]) -> list[str]:
    own = [
        row
        for row in result["rows"]
        if (row["scheme"], row["delta"]) == (quality["scheme"], quality["delta"])
    ]
    names = list(own[0]["rates"]) if own else []
    lines = [
        f"## {quality['scheme']}, delta {quality['delta']:g}",
        "",
        f"BLEU {quality['bleu']:.2f} (n = {quality['n']}).",
        "",
        f"| | n | {' | '.join(names)} |",
        f"|---|---:|{'---|' * len(names)}",
    ]
    for row in own:
        cells = " | ".join(_percent(row, name) for name in names)
        lines.append(f"| {case_name(row['case'])} | {row['n']} | {cells} |")
    return lines


def _against(result: dict[str, Any]) -> list[str]:
    """List the cells in which the paper's count finds more, and count those beyond chance."""
    rows = [row for row in result["rows"] if row["scheme"] == "paper"]
    behind = [
        (row, name)
        for row in rows
        for name in ("pattern", PLAIN)
        if row["rates"]["auto"]["found"] < row["rates"][name]["found"]
    ]
    surely = [
        row
        for row, name in behind
        if row["rates"]["auto"]["interval"][1] < row["rates"][name]["interval"][0]
    ]
    lines = [
        "*pattern* is our detector of that name, which reads a repeated token once. *plain count* "
        "counts all tokens as the paper does; its p-value is not valid for text "
        f"([measured](paper.md)). `auto` finds fewer marks in {len(behind)} of {2 * len(rows)} "
        f"comparisons. In {len(surely)} of them the difference is larger than sampling error (the "
        "intervals do not overlap)."
    ]
    lines += [
        f"- {case_name(row['case'])}, delta {row['delta']:g}: {_percent(row, 'auto')} compared "
        f"with {_percent(row, name)} ({name})"
        for row, name in behind
    ]
    return lines
