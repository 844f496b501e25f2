"""The page of `patternmark bench scan-gpu`, made from its result alone."""

from __future__ import annotations

from typing import Any

_WHAT = {
    "two_parts": "paper's scheme",
    "blocks_1_nonce": "blocks, 1 nonce",
    "blocks_32_nonces": "blocks, 32 nonces",
}


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    rows = result["rows"]
    first = rows[0]
    lines = [
        "# Scans on a GPU",
        "",
        f"Made by `patternmark bench scan-gpu{_options(result)} -o docs/results` with patternmark "
        f"{result['version']}, Python {result['python']}, numpy {result['numpy']}, numba "
        f"{result['numba']}, torch {result['torch']}, on {result['gpu']} ({result['machine']}). "
        "Every time is in `scan-gpu.json`.",
        "",
        f"A scan of {first['sequences']:,} sequences in memory for {first['keys']:,} keys of the "
        f"paper's scheme takes **{_number(first['seconds'])} seconds**. This is "
        f"{_number(first['ratio']['ratio'])} times as fast as one thread of the CPU. At this rate "
        "10^11 pairs of a key and a residue take "
        f"{_number(1e11 / first['key_residues_per_second'])} seconds.",
        "",
        "## Speed",
        "",
        "| keys | number | sequences | seconds | smallest to largest | 10^9 pairs/s "
        "| 10^12 key-residues/s | 10^11 pairs: seconds | reading |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(_speed(row) for row in rows),
        "",
        "A pair is a key and a sequence, or a stretch of 2,048 residues of a long sequence. "
        "Key-residues are all residues times all keys. *Reading* is the share of the time that the "
        "CPU takes to turn bytes into counts.",
        "",
        *_missing(rows),
        "## Compared with one thread of the CPU",
        "",
        "| keys | number | sequences | 10^11 pairs: seconds | time of a pair: CPU / GPU "
        "| smallest to largest |",
        "|---|---:|---:|---:|---:|---:|",
        *(_comparison(row) for row in rows),
        "",
        "## The same results",
        "",
        "| keys | number | sequences | pairs with p <= 0.1 | pairs with p <= 0.001 |",
        "|---|---:|---:|---:|---:|",
        *(_checked(row) for row in rows),
        "",
        "The first stage on the GPU and the compiled loops give the same numbers of pairs at all "
        f"{len(first['checked']['tally'])} levels of the tally, and exactly the same pairs with "
        "p <= 0.001. If they differ, the run ends without a result.",
        "",
        "## How it was measured",
        "",
        *_method(result),
    ]
    return "\n".join(lines) + "\n"


def _missing(rows: list[dict[str, Any]]) -> list[str]:
    """Name the schemes that were not measured."""
    measured = {row["name"] for row in rows}
    left = [what for name, what in _WHAT.items() if name not in measured]
    return [f"Not measured on this GPU: {'; '.join(left)}.", ""] if left else []


def _speed(row: dict[str, Any]) -> str:
    times = row["times"]["device"]
    return (
        f"| {_WHAT[row['name']]} | {row['keys']:,} | {row['sequences']:,} "
        f"| {_number(row['seconds'])} | {_number(min(times))} to {_number(max(times))} "
        f"| {_number(row['pairs_per_second'] / 1e9)} "
        f"| {_number(row['key_residues_per_second'] / 1e12)} "
        f"| {_number(row['many_pairs_seconds'])} | {row['reading']['ratio']:.0%} |"
    )


def _comparison(row: dict[str, Any]) -> str:
    cpu, ratio = row["cpu"], row["ratio"]
    return (
        f"| {_WHAT[row['name']]} | {cpu['keys']:,} | {cpu['sequences']:,} "
        f"| {_number(row['cpu_many_pairs_seconds'])} | {_number(ratio['ratio'])} "
        f"| {_number(ratio['low'])} to {_number(ratio['high'])} |"
    )


def _checked(row: dict[str, Any]) -> str:
    checked = row["checked"]
    return (
        f"| {_WHAT[row['name']]} | {checked['keys']:,} | {checked['sequences']:,} "
        f"| {checked['tally'][0]:,} | {checked['pairs']:,} |"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _options(result: dict[str, Any]) -> str:
    sizes = result["sizes"]
    blocks = f" --block-keys {sizes['block_keys']}" if "block_keys" in sizes else ""
    return (
        f" --keys {sizes['keys']} --sequences {sizes['sequences']}{blocks}"
        f" --device {result['device']}"
        f" --repeats {result['repeats']} --seed {result['seed']}"
    )


def _method(result: dict[str, Any]) -> list[str]:
    sizes = result["sizes"]
    peaks = [row["peak_mib"] for row in result["rows"] if row["peak_mib"] is not None]
    making = ", ".join(
        f"{row['making_keys_seconds']:.1f} s for {row['keys']:,} ({_WHAT[row['name']]})"
        for row in result["rows"]
    )
    lines = [
        f"- Input: {sizes['copies'] * sizes['made']:,} sequences as FASTA in memory "
        f"({sizes['bytes'] / 2**20:,.0f} MiB), {sizes['made']:,} of them different: drawn letter "
        f"by letter with the frequencies of proteins, about {sizes['mean_length']} residues each. "
        "None is marked, so that almost nothing reaches the second stage. If a table has fewer "
        "sequences, they are the first of these.",
        "- Times are of the whole scan: it reads and counts records, screens all pairs, and judges "
        "those that pass with `auto`. They end when the GPU is done.",
        f"- GPU, CPU and reading alone are timed in turn, {result['repeats']} rounds after some "
        "that are not timed. There is one ratio per round; the tables have medians.",
        "- The CPU works on fewer pairs, with the compiled loops in one thread, so the times of a "
        "pair are compared. It has fewer block keys and many sequences, so that making a key's "
        "table, once for all sequences, takes little of the time.",
        f"- Keys, and all that the first scan derives from them, are made before ({making}).",
    ]
    if peaks:
        lines.append(f"- Peak memory of the GPU: {max(peaks) / 1024:.1f} GiB.")
    return lines
