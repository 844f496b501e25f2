"""Arrow record batches in, hits out: for pipelines that read and share work in their own way.

    scan_batches(batches, screen)          an iterator of batches, as Spark's mapInArrow wants it

A batch needs a column of sequences; its columns `id`, `file` and `offset` are taken over where it
has them. Hits carry p-values of their own: who sees all batches corrects them for the number of
tests, which the metadata of each batch of hits says (`result.corrected` does it for files).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from patternmark.scanning.columns import column
from patternmark.scanning.judging import judge
from patternmark.scanning.keyset import KeySet
from patternmark.scanning.result import COLUMNS

# What cannot be known of one batch is left to whoever has all.
_LATER = ("log10_p_corrected", "p_corrected")
HIT_COLUMNS = tuple(pair for pair in COLUMNS if pair[0] not in _LATER)


def hit_schema() -> Any:
    """Return the Arrow schema of hits."""
    import pyarrow as arrow  # noqa: PLC0415  # the scan extra

    return arrow.schema([(name, kind) for name, kind in HIT_COLUMNS])


def scan_batches(
    batches: Iterable[Any], screen: KeySet, sequence: str = "sequence"
) -> Iterator[Any]:
    """Yield the hits of each record batch, perhaps none; metadata says how many tests were made."""
    import pyarrow as arrow  # noqa: PLC0415

    first = 0
    for batch in batches:
        loaded = column(batch, sequence, first)
        found = judge(loaded.counted(), screen)
        loaded.release()
        names = batch.schema.names
        rows = []
        for hit in found.hits:
            row = hit["offset"]  # of the batch
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
    """Return how many tests a scan of batches makes, for who loses the metadata of hits."""
    segments = 0
    for batch in batches:
        loaded = column(batch, sequence)
        segments += sum(len(part.segments) for part in loaded.counted())
        loaded.release()
    return segments * len(screen.keys)
