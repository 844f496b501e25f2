"""The result of a scan: corrected p-values, the Parquet file of hits, and a manifest.

Each pair of a segment and a key is one test, whether or not it passed the first stage. `fpr` bounds
the chance of any false hit in the whole scan (Bonferroni, valid under any dependence). `fdr` bounds
the expected share of false hits (Benjamini and Hochberg). For it, pairs that did not pass the first
stage count as p = 1, which can only remove hits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from patternmark._version import __version__
from patternmark.evidence import DEFAULT_FPR, benjamini_hochberg, bonferroni, is_below
from patternmark.io.files import put_in_place
from patternmark.results import LN10
from patternmark.scanning import sizes
from patternmark.scanning.file_scan import Result, display_name
from patternmark.scanning.judging import Counts
from patternmark.scanning.keyset import SURVIVORS
from patternmark.signature import joined

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
_ROWS_PER_WRITE = 2**16  # rows of Parquet that are written at once


class Written(NamedTuple):
    """How many hits there are, and in how many records."""

    hits: int
    records: int


def corrected(
    result: Result, *, fpr: float | None = None, fdr: float | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the hits, in the order of files, records and keys."""
    correct: Callable[[float], Any] = partial(bonferroni, chances=result.num_tests)
    if fdr is not None:
        found = [row["log10_p"] * LN10 for row in result.hits()]
        correct = benjamini_hochberg(found, result.num_tests)
    (level,) = _correction(fpr, fdr).values()
    for row in result.hits():
        log_p = float(correct(row["log10_p"] * LN10))
        if is_below(log_p, level):
            value = log_p / LN10
            yield row | {"log10_p_corrected": value, "p_corrected": 10.0**value}


def _correction(fpr: float | None, fdr: float | None) -> dict[str, float]:
    """Return the name of the rate that is bounded, and the bound."""
    if fdr is not None:
        return {"fdr": fdr}
    return {"fpr": DEFAULT_FPR if fpr is None else fpr}


def signatures(result: Result, *, fpr: float | None = None, fdr: float | None = None) -> list[str]:
    """Return the signatures of the hits, one for each kind of key.

    They contain the number of tests, for which p-values are corrected.
    """
    ((bounded, level),) = _correction(fpr, fdr).items()
    corrected_for = f"{bounded}:{float(level)!r}|tests:{result.num_tests}"
    return [joined(one, corrected_for) for one in result.screen.signatures]


def write_hits(rows: Iterable[dict[str, Any]], file: Path, signatures: Sequence[str]) -> Written:
    """Write hits as Parquet, all or nothing; the same hits give the same bytes.

    The signatures are in the metadata of the file: `patternmark.signatures`, as JSON.
    """
    import pyarrow as arrow  # noqa: PLC0415  # the scan extra
    from pyarrow import parquet  # noqa: PLC0415

    about = {"patternmark.signatures": json.dumps(list(signatures))}
    schema = arrow.schema([(name, kind) for name, kind in COLUMNS], metadata=about)
    hits = records = 0

    def write(path: Path) -> None:
        nonlocal hits, records
        left, before = iter(rows), None
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            while some := list(islice(left, _ROWS_PER_WRITE)):
                table = [{name: row[name] for name, _ in COLUMNS} for row in some]
                writer.write_table(arrow.Table.from_pylist(table, schema=schema))
                for row in some:
                    record = row["file"], row["offset"]
                    records += record != before  # hits of one record follow each other
                    before = record
                hits += len(some)

    put_in_place(file, write)
    return Written(hits, records)


def manifest(
    result: Result, written: Written, *, fpr: float | None = None, fdr: float | None = None
) -> dict[str, Any]:
    """Return what was scanned and the histogram of p-values, without any time or date."""
    total, screen = Counts(), result.screen
    for of_file in result.files:
        total.add(of_file.found)
    return {
        "patternmark": __version__,
        "correction": _correction(fpr, fdr),
        "tests": result.num_tests,
        "records": total.records,
        "residues": total.residues,
        "segments": total.segments,
        "keys": [key.key_id for key in screen.keys],
        "screen": {
            "statistic": "agreements in the best phase and nonce; repeats counted",
            "p": 10.0**-screen.passing,
            "digits": SURVIVORS,
            "passed": total.passed,
        },
        "histogram": {
            "of": "p-values of the first stage, all pairs",
            "at_most": [f"1e-{level + 1}" for level in range(len(total.tally))],
            "pairs": total.tally.tolist(),
        },
        "hits": written.hits,
        "records_with_hits": written.records,
        "hash": f"xxh3-128 of the hex xxh3-128 of pieces, of what begins in {sizes.PIECE} bytes",
        "inputs": [
            {
                "file": display_name(file),
                "records": found.records,
                "residues": found.residues,
                "hash": digest,
                "skipped": found.num_skipped,
            }
            for file, found, digest in result.files
        ],
        "num_skipped": total.num_skipped,
        "skipped": [
            {"file": display_name(file)} | problem
            for file, found, _ in result.files
            for problem in found.skipped
        ],
        "signatures": signatures(result, fpr=fpr, fdr=fdr),
    }
