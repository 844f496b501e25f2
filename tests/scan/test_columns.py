"""Sequences in columns of Parquet and Arrow: every row once, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patternmark.errors import InputError
from tests.scan import reference

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

import pyarrow as arrow
from pyarrow import parquet

from patternmark.scan import sizes, sources
from patternmark.scan.columns import column
from patternmark.scan.loaded import Piece
from tests.scan.test_sources import rows

SEQUENCES = ["ACD", None, "", "WY/AC", "A" * 3000, "acd", "A>C", "É"]


def column_rows(sequences: list[str | None], names: list[str]) -> list[tuple[int, str, int]]:
    read = reference.read_column([(sequence or "").encode() for sequence in sequences])
    sizes = [record.residues for record in read.records]
    return [(i, *row) for i, row in enumerate(zip(names, sizes, strict=True))]


KINDS = [
    arrow.string(),
    arrow.large_string(),
    arrow.string_view(),
    arrow.dictionary(arrow.int32(), arrow.string()),
]


@pytest.mark.parametrize("kind", [arrow.string(), arrow.large_string()])
@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_columns(
    kind: Any, has_ids: bool, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "ROWS", batch)
    names = [f"p{i}" for i in range(len(SEQUENCES))]
    columns = {
        "sequence": arrow.array(SEQUENCES, kind),
        "other": arrow.array(range(len(SEQUENCES))),
    }
    if has_ids:
        columns["id"] = arrow.array(names, kind)
    else:
        names = [str(i) for i in range(len(SEQUENCES))]
    table = arrow.table(columns)
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=5)
    with arrow.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=batch)
    for name in ("a.parquet", "a.arrow"):
        found = rows(sources.pieces(str(tmp_path / name)))
        assert found == (column_rows(SEQUENCES, names), []), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sequences", [SEQUENCES, ["AC", "DEF", "", "WY"], [None] * 4, [""] * 3])
def test_slices_of_batches(kind: Any, sequences: list[str | None]) -> None:
    values = arrow.array(sequences, arrow.string()).cast(kind)
    whole = arrow.record_batch({"sequence": values, "id": [f"p{i}" for i in range(len(values))]})
    for first in range(len(values) + 1):
        for size in range(len(values) + 1 - first):
            loaded = column(whole.slice(first, size), first=first)
            piece = Piece("", 0, lambda loaded=loaded: loaded)  # type: ignore[misc]
            names = [f"p{i}" for i in range(first, first + size)]
            wanted = column_rows(sequences[first : first + size], names)
            assert rows([piece]) == ([(first + i, *row) for i, *row in wanted], [])


@pytest.mark.parametrize("kind", [arrow.binary(), arrow.large_binary(), arrow.binary_view()])
def test_bytes_that_are_no_text_are_those_of_their_row(kind: Any) -> None:
    loaded = column(arrow.record_batch({"sequence": arrow.array([b"ACD", b"\xff", None], kind)}))
    assert loaded.offsets is not None
    assert loaded.offsets.tolist() == [0, 3, 4, 4]
    assert loaded.content.tobytes() == b"ACD\xff"


def test_columns_without_rows(tmp_path: Path) -> None:
    for kind in (arrow.string(), arrow.large_string(), arrow.null()):
        table = arrow.table({"sequence": arrow.array([], kind)})
        parquet.write_table(table, tmp_path / "a.parquet")
        assert rows(sources.pieces(str(tmp_path / "a.parquet"))) == ([], [])
        batch = arrow.record_batch({"sequence": arrow.array([], kind)})
        assert len(column(batch).offsets) == 1  # type: ignore[arg-type]


def test_a_row_without_an_id_has_its_number() -> None:
    batch = arrow.record_batch({"sequence": ["AC", "DE"], "id": ["x", None]})
    loaded = column(batch, first=10)
    assert [part.name(i) for part in loaded.counted() for i in range(2)] == ["x", "11"]


def test_a_missing_column_names_those_there_are(tmp_path: Path) -> None:
    table = arrow.table({"id": ["a"], "protein": ["ACD"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet.*'sequence'.*id, protein"):
        list(sources.pieces(str(tmp_path / "a.parquet")))
    read, _ = rows(sources.pieces(str(tmp_path / "a.parquet"), "protein"))
    assert read == [(0, "a", 3)]


def test_a_column_that_holds_no_sequences() -> None:
    batch = arrow.record_batch({"sequence": arrow.array([[1], [2]])})
    with pytest.raises(InputError, match=r"'sequence' holds list<.*>, not sequences"):
        column(batch)
