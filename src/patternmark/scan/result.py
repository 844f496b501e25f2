"""The result of a scan: p-values corrected for all that was tested, Parquet, and a manifest.

Tests are pairs of a segment and a key: all of them, those too that did not pass the first stage.
`fpr` bounds the chance of any false hit in the whole scan (Bonferroni: whatever depends on what).
`fdr` bounds the expected share of false hits (Benjamini and Hochberg; pairs that did not pass count
as p = 1, which can only take hits away).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from pathlib import Path
from typing import Any

from patternmark._version import __version__
from patternmark.io.files import put_in_place
from patternmark.scan.files import shown
from patternmark.scan.judging import Found
from patternmark.scan.screen import SURVIVORS, Screen

Files = Sequence[tuple[str, Found, str]]

COLUMNS = (
    ("id", "string"),
    ("file", "string"),
    ("offset", "int64"),
    ("length", "int64"),
    ("scored", "int64"),
    ("key_id", "string"),
    ("detector", "string"),
    ("statistic", "double"),
    ("log10_p", "double"),
    ("log10_p_corrected", "double"),
    ("p_corrected", "double"),
    ("segment_start", "int64"),
    ("segment_end", "int64"),
)


def corrected(
    files: Files, screen: Screen, *, fpr: float | None, fdr: float | None
) -> list[dict[str, Any]]:
    """Return the hits, in the order of files, records and keys."""
    tests = num_tests(files, screen)
    rows = [{"file": shown(file)} | hit for file, found, _ in files for hit in found.hits]
    ranked = sorted(range(len(rows)), key=lambda i: rows[i]["log10_p"])
    smallest = 0.0
    by_rank: dict[int, float] = {}
    for rank in range(len(ranked), 0, -1):
        row = ranked[rank - 1]
        shared = log10(rank) if fdr is not None else 0.0
        value = min(0.0, rows[row]["log10_p"] + log10(max(tests, 1)) - shared)
        smallest = min(smallest, value)  # Benjamini and Hochberg: no better rank is worse
        by_rank[row] = smallest if fdr is not None else value
    level = log10(fdr if fdr is not None else fpr or 1.0)
    return [
        row | {"log10_p_corrected": by_rank[i], "p_corrected": 10.0 ** by_rank[i]}
        for i, row in enumerate(rows)
        if by_rank[i] <= level
    ]


def num_tests(files: Files, screen: Screen) -> int:
    """Return how many pairs of a segment and a key were tested."""
    return sum(found.segments for _, found, _ in files) * len(screen.keys)


def write_hits(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Write Parquet, whole or not at all; the same hits give the same bytes."""
    import pyarrow as arrow  # noqa: PLC0415  # the scan extra
    from pyarrow import parquet  # noqa: PLC0415

    schema = arrow.schema([(name, kind) for name, kind in COLUMNS])
    table = arrow.Table.from_pylist(
        [{name: row[name] for name, _ in COLUMNS} for row in rows], schema=schema
    )
    put_in_place(file, lambda path: parquet.write_table(table, path, compression="zstd"))


def manifest(
    files: Files, screen: Screen, num_hits: int, *, fpr: float | None, fdr: float | None
) -> dict[str, Any]:
    """Return what was scanned and what all p-values looked like; nothing in it tells when."""
    total = Found()
    for _, found, _ in files:
        total.add(found)
    tests = num_tests(files, screen)
    return {
        "patternmark": __version__,
        "correction": {"fdr": fdr} if fdr is not None else {"fpr": fpr},
        "tests": tests,
        "records": total.records,
        "residues": total.residues,
        "segments": total.segments,
        "keys": [key.key_id for key in screen.keys],
        "screen": {
            "statistic": "agreements in the best phase, nonce and start; repeats counted",
            "p": 10.0**-screen.passing,
            "digits": SURVIVORS,
            "passed": total.passed,
        },
        "histogram": {
            "of": "p-values of the first stage, all pairs",
            "at_most": [f"1e-{level + 1}" for level in range(len(total.tally))],
            "pairs": total.tally.tolist(),
        },
        "hits": num_hits,
        "inputs": [
            {
                "file": shown(file),
                "records": found.records,
                "residues": found.residues,
                "hash": f"xxh3-128 of the hashes of its pieces: {digest}",
                "skipped": len(found.skipped),
            }
            for file, found, digest in files
        ],
        "skipped": [
            {"file": shown(file)} | problem for file, found, _ in files for problem in found.skipped
        ],
        "signatures": screen.signatures,
    }
