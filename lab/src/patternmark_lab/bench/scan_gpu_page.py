"""The page of `patternmark bench scan-gpu`, made from its result alone."""

from __future__ import annotations

from typing import Any

_WHAT = {
    "two_parts": "two parts",
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
        f"{first['keys']:,} keys of two parts and {first['sequences']:,} sequences, from bytes in "
        f"memory to what was found: **{_number(first['seconds'])} seconds**, "
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
        "A pair is a key and a sequence (of a long one a stretch of 2,048 residues); key-residues "
        "are all residues times all keys. Reading (bytes to counts, on the CPU) is told as its "
        "share of the time.",
        "",
        *_missing(rows),
        "## Beside one thread of the CPU",
        "",
        "| keys | number | sequences | 10^11 pairs: seconds | time of a pair: CPU, of GPU "
        "| smallest to largest |",
        "|---|---:|---:|---:|---:|---:|",
        *(_beside(row) for row in rows),
        "",
        "## The same results",
        "",
        "| keys | number | sequences | pairs with p <= 0.1 | pairs with p <= 0.001 |",
        "|---|---:|---:|---:|---:|",
        *(_checked(row) for row in rows),
        "",
        "The first stage on the GPU and by the compiled loops: the same numbers of pairs at all "
        f"{len(first['checked']['tally'])} levels of the tally, and the same pairs with p <= "
        "0.001, each of them. The run ends without a result where that is not so.",
        "",
        "## How it was measured",
        "",
        *_method(result),
    ]
    return "\n".join(lines) + "\n"


def _missing(rows: list[dict[str, Any]]) -> list[str]:
    """Say which kinds of keys were not measured."""
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


def _beside(row: dict[str, Any]) -> str:
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
        "None is marked, so that next to nothing is judged in full. Where fewer sequences are "
        "named, they are the first of these.",
        "- A time is that of the whole scan: records are read and counted, all pairs are screened, "
        "what passes is judged in full. It ends when the GPU is done.",
        f"- GPU, CPU and reading alone are timed in turns, {result['repeats']} rounds after some "
        "that are not timed. Ratios are taken in every round; the tables have medians.",
        "- The CPU works on fewer pairs, with the compiled loops in one thread; its time of a pair "
        "is what is compared. It has fewer block keys and many sequences, so that laying out a "
        "key's table, once for all of them, takes little of the time.",
        f"- Keys are made before ({making}), and so is what the first scan derives from them.",
    ]
    if peaks:
        lines.append(f"- Memory of the GPU at its peak: {max(peaks) / 1024:.1f} GiB.")
    return lines
