"""The page of `patternmark bench scan`, made from its result alone."""

from __future__ import annotations

from typing import Any

_WHAT = {
    "bare": "speed with one key / of a plain pass that finds record starts byte by byte",
    "bare_lanes": "speed with one key / of a plain pass with vector instructions",
    "biopython": "speed with one key / of Biopython's SimpleFastaParser alone",
    "gzip": "speed with one key, two workers, .gz / of decompression alone (isal)",
    "many": "time with 64 keys / with one key",
    "very_many": "speed with 5,000 keys / of 5,000 scans for one key",
    "block_key": "time with one block key of 32 nonces / with one key of the paper's scheme",
    "block_keys": "time with 64 block keys of one nonce / with one key of the paper's scheme",
    "workers": "speed with two workers / with one worker, plain file",
    "memory": "peak memory with ten times the sequences / with the sequences once",
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
        f"{result['numba']}, on {result['machine']}. All numbers are ratios within one run; every "
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
    some = max(1, number // sizes["share"])
    low, high = (
        f"{min(memory[name]) / 1024:,.0f} to {max(memory[name]) / 1024:,.0f} MiB"
        for name in ("short", "long")
    )
    return [
        f"- Input: {number:,} sequences drawn letter by letter with the frequencies of proteins, "
        f"about {sizes['mean_length']} residues each, lines of {sizes['line']}, headers of about "
        f"60 bytes: {sizes['bytes'] / mebi:,.0f} MiB. None is marked, so that almost nothing "
        "reaches the second stage.",
        f"- The two parts of a ratio are timed in turn, {result['repeats']} rounds after one that "
        "is not timed. There is one ratio per round; the table has their median, and a goal is met "
        "if the median reaches it.",
        "- One thread, unless workers are named. In memory, keys and their tables are made before.",
        "- 1 and 64 keys: the whole scan of bytes in memory (read, count, judge). The plain passes "
        "see the same bytes and write down where records start; Biopython reads text in memory. "
        "The plain pass with vector instructions has no goal: it shows how much faster a scan "
        "could be.",
        f"- 5,000 keys and block keys: on the first {some:,} sequences, scaled by the number of "
        f"sequences to compare with one key on all {number:,}. The time of 5,000 scans for one key "
        "is 5,000 times the time of one scan; they were not run.",
        f"- Files hold the sequences {sizes['copies']} times "
        f"({sizes['bytes'] * sizes['copies'] / mebi:,.0f} MiB, {sizes['pieces']} pieces of up to "
        f"{sizes['piece'] / mebi:,.0f} MiB; in .gz every copy is a member). They were read before, "
        "and so come from memory and not from a disk. A scan of a file includes its hashes and the "
        "notes to resume from.",
        f"- Memory: the peak of a separate process with one worker, {low} for "
        f"{number * sizes['memory_copies'][0]:,} sequences and {high} for "
        f"{number * sizes['memory_copies'][1]:,}, Python and its libraries included.",
    ]
