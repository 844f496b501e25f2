"""The page of `patternmark bench scan`, made from its result alone."""

from __future__ import annotations

from typing import Any

_WHAT = {
    "bare": "one key: speed, of a bare pass that finds where records begin, byte by byte",
    "bare_lanes": "the same, of a bare pass with vector instructions",
    "biopython": "one key: speed, of Biopython's SimpleFastaParser doing nothing",
    "gzip": ".gz, one key, two workers: speed, of decompression alone (isal)",
    "many": "64 keys: time, of one key",
    "very_many": "5,000 keys: speed, of 5,000 scans for one key",
    "block_key": "one block key of 32 nonces: time, of one key of two parts",
    "block_keys": "64 block keys of one nonce: time, of one key of two parts",
    "workers": "two workers: speed, of one worker, plain file",
    "memory": "memory at its peak: ten times the sequences, of once",
}


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    rows = {row["name"]: row for row in result["rows"]}
    goals = [row for row in rows.values() if _goal(row)]
    missed = [row for row in goals if not is_met(row)]
    lines = [
        "# Speed of scans",
        "",
        f"Made by `patternmark bench scan{_options(result)} -o docs/results` with patternmark "
        f"{result['version']}, Python {result['python']}, numpy {result['numpy']}, numba "
        f"{result['numba']}, on {result['machine']}. All are ratios measured in one run; every "
        "time is in `scan.json`.",
        "",
        f"{len(goals) - len(missed)} of {len(goals)} goals are met.",
        "",
        "| what | ratio | smallest to largest | goal | |",
        "|---|---:|---:|---:|---|",
    ]
    lines += [_line(rows[name]) for name in _WHAT if name in rows]
    lines += ["", "## How it was measured", "", *_method(result)]
    return "\n".join(lines) + "\n"


def is_met(row: dict[str, Any]) -> bool:
    """Tell whether the median ratio reaches its goal."""
    if row["least"] is not None:
        return bool(row["ratio"] >= row["least"])
    return row["most"] is None or bool(row["ratio"] <= row["most"])


def _line(row: dict[str, Any]) -> str:
    verdict = ("met" if is_met(row) else "**missed**") if _goal(row) else ""
    return (
        f"| {_WHAT[row['name']]} | {_number(row['ratio'])} "
        f"| {_number(row['low'])} to {_number(row['high'])} | {_goal(row)} | {verdict} |"
    )


def _goal(row: dict[str, Any]) -> str:
    if row["least"] is not None:
        return f"at least {row['least']:g}"
    return f"at most {row['most']:g}" if row["most"] is not None else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _options(result: dict[str, Any]) -> str:
    return (
        f" --sequences {result['sizes']['sequences']} --repeats {result['repeats']}"
        f" --seed {result['seed']}"
    )


def _method(result: dict[str, Any]) -> list[str]:
    sizes, memory = result["sizes"], result["times"]["memory_kib"]
    number, mebi = sizes["sequences"], 2**20
    few = max(1, number // sizes["share"])
    low, high = (
        f"{min(memory[name]) / 1024:,.0f} to {max(memory[name]) / 1024:,.0f} MiB"
        for name in ("short", "long")
    )
    return [
        f"- Input: {number:,} sequences drawn letter by letter with the frequencies of proteins, "
        f"about {sizes['mean_length']} residues each, lines of {sizes['line']}, headers of about "
        f"60 bytes: {sizes['bytes'] / mebi:,.0f} MiB. None is marked, so that next to nothing is "
        "judged in full.",
        f"- What is compared is timed in turns, {result['repeats']} rounds after one that is not "
        "timed. A ratio is taken in every round; the table has their median, and a goal is met "
        "where the median reaches it.",
        "- One thread, unless workers are named. In memory, keys and their tables are made before.",
        "- One key and 64: from bytes in memory to what was found (read, counted, judged). The "
        "bare passes see the same bytes and write down where records begin; Biopython reads text "
        "in memory. The bare pass with vector instructions has no goal: it shows what is left.",
        f"- 5,000 keys and block keys: on the first {few:,} sequences, and scaled by the number "
        f"of sequences to compare with one key on all {number:,}. 5,000 scans for one key are "
        "5,000 times the time of one; they were not run.",
        f"- Files hold the sequences {sizes['copies']} times "
        f"({sizes['bytes'] * sizes['copies'] / mebi:,.0f} MiB, {sizes['pieces']} pieces of up to "
        f"{sizes['piece'] / mebi:,.0f} MiB; in .gz every copy is a member). They were read before, "
        "and so come from memory and not from a disk. A scan of a file includes its hashes and the "
        "notes to resume from.",
        f"- Memory: the peak of a process of its own with one worker, {low} for "
        f"{number * sizes['memory_copies'][0]:,} sequences and {high} for "
        f"{number * sizes['memory_copies'][1]:,}, Python and its libraries included.",
    ]
