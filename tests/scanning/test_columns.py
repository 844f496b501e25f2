"""Sequences in columns of Parquet and Arrow: every row once, whatever its kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patternmark.errors import InputError
from tests.scanning import reference

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

import pyarrow as arrow
from pyarrow import parquet

from patternmark.scanning import sizes, sources
from patternmark.scanning.columns import column
from patternmark.scanning.loaded import Piece
from tests.scanning.test_sources import rows

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
    monkeypatch.setattr(sizes, "COLUMN_ROWS", batch)
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


DAMAGED = """
import random, sys
from pathlib import Path
from patternmark.errors import InputError
from patternmark.scanning import sources
from patternmark.scanning.judging import judge
from patternmark.scanning.keyset import KeySet
from tests.scanning.made import a_key

folder, screen = Path(sys.argv[1]), KeySet([a_key(1)])
refused = 0
for name in ("a.arrow", "a.parquet"):
    content = (folder / name).read_bytes()
    for seed in range(120):
        rng, broken = random.Random(seed), bytearray(content)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(8, len(broken))] = rng.randrange(256)
        (folder / "broken").write_bytes(broken)
        try:
            for piece in sources.pieces(str(folder / "broken")):
                loaded = piece.load()
                found = judge(loaded.counted(), screen)
                for part in loaded.counted():
                    [part.name(i) for i in range(len(part.records))]
                loaded.release()
        except InputError:
            refused += 1
print(refused)
"""


@pytest.mark.slow
def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    """They say where values lie, and the loops would look there: a process of its own may die."""
    names = [f"p{i}" for i in range(40)]
    table = arrow.table({"id": names, "sequence": ["ACDEFGHIKL" * (1 + i % 5) for i in range(40)]})
    parquet.write_table(table, tmp_path / "a.parquet")
    with arrow.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=15)
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0 < int(done.stdout) < 240


def test_batches_are_cut_and_joined_to_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their size in the file: the memory of a scan depends on it."""
    monkeypatch.setattr(sizes, "PIECE", 2000)
    short, long = ["ACDE"] * 500, ["ACDEFGHIKL" * 30] * 40
    coded = arrow.array(long).dictionary_encode()
    for number, values in enumerate((short, long, coded)):
        table = arrow.table({"sequence": values})
        parquet.write_table(table, tmp_path / "a.parquet", row_group_size=7)
        with arrow.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
            writer.write_table(table)
        for name in ("a.parquet", "a.arrow"):
            loaded = [piece.load() for piece in sources.pieces(str(tmp_path / name))]
            assert all(one.size <= 2000 for one in loaded), (number, name)
            assert len(loaded) < (10 if number == 0 else 41), (number, name)
            found = rows(Piece("", i, lambda one=one: one) for i, one in enumerate(loaded))  # type: ignore[misc]
            assert [size for _, _, size in found[0]] == [
                len(str(v)) for v in table["sequence"].to_pylist()
            ]


def test_a_value_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "LONGEST_RECORD", 100)
    batch = arrow.record_batch({"sequence": ["ACD", "W" * 101, "EF"], "id": ["a", "b", "c"]})
    loaded = column(batch)
    assert "left out" in loaded.problem
    assert rows([Piece("", 0, lambda: loaded)])[0] == [(0, "a", 3), (1, "b", 0), (2, "c", 2)]


def test_ids_that_are_no_text() -> None:
    ids = arrow.array([b"x\xff", b"y"], arrow.binary()).view(arrow.string())
    loaded = column(arrow.record_batch({"sequence": ["AC", "DE"], "id": ids}))
    assert [part.name(i) for part in loaded.counted() for i in range(2)] == ["x\ufffd", "y"]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    table = arrow.Table.from_arrays([arrow.array(["AC"])] * 2, names=["sequence", "sequence"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet"):
        rows(sources.pieces(str(tmp_path / "a.parquet")))
    with pytest.raises(InputError, match="not sequences"):
        column(arrow.record_batch({"sequence": [1, 2]}))
