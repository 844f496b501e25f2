"""Scan Arrow record batches, for pipelines that read files and distribute work themselves.

    scan_batches(batches, screen)          an iterator of batches, as Spark's mapInArrow wants it

A batch needs a column of sequences. Its columns `id`, `file` and `offset` are copied to the hits if
they exist. The p-values of hits are not corrected for the number of tests, because one call does
not see all batches. The metadata of each batch of hits gives its number of tests: add these numbers
up and correct at the end (for files, `result.corrected` does so).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from patternmark.scanning.columns import column
from patternmark.scanning.judging import judge
from patternmark.scanning.keyset import KeySet
from patternmark.scanning.result import COLUMNS

_NEED_ALL_BATCHES = ("log10_p_corrected", "p_corrected")
HIT_COLUMNS = tuple(pair for pair in COLUMNS if pair[0] not in _NEED_ALL_BATCHES)


def hit_schema() -> Any:
    """Return the Arrow schema of hits."""
    import pyarrow as arrow  # noqa: PLC0415  # the scan extra

    return arrow.schema([(name, kind) for name, kind in HIT_COLUMNS])


def scan_batches(
    batches: Iterable[Any], screen: KeySet, sequence: str = "sequence"
) -> Iterator[Any]:
    """Yield one batch of hits, perhaps empty, for each batch; metadata has the number of tests."""
    import pyarrow as arrow  # noqa: PLC0415

    first = 0
    for batch in batches:
        loaded = column(batch, sequence, first)
        found = judge(loaded.counted(), screen)
        loaded.release()
        names = batch.schema.names
        rows = []
        for hit in found.hits:
            row = hit["offset"]  # in the batch
            own = {name: batch.column(name)[row].as_py() for name in ("file", "offset")
                   if name in names}  # fmt: skip
            rows.append({"file": "", **hit, "offset": first + row, **own})
        facts = {
            b"tests": str(found.segments * len(screen.keys)).encode(),
            b"records": str(found.records).encode(),
            b"skipped": str(found.num_skipped).encode(),
            b"signatures": json.dumps(screen.signatures).encode(),
        }
        schema = hit_schema().with_metadata(facts)
        table = [{name: row[name] for name, _ in HIT_COLUMNS} for row in rows]
        yield arrow.RecordBatch.from_pylist(table, schema=schema)
        first += len(batch)


def count_tests(batches: Iterable[Any], screen: KeySet, sequence: str = "sequence") -> int:
    """Return how many tests a scan of batches makes, for pipelines that drop metadata."""
    segments = 0
    for batch in batches:
        loaded = column(batch, sequence)
        segments += sum(len(part.segments) for part in loaded.counted())
        loaded.release()
    return segments * len(screen.keys)
