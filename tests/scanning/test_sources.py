"""Files in pieces: every record once, in order and at its place, or a word on what is missing."""

from __future__ import annotations

import gzip
import io
import os
import random
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patternmark.errors import InputError
from tests.scanning import reference

pytest.importorskip("numba")
pytest.importorskip("pyarrow")
pytest.importorskip("zstandard")
pytest.importorskip("isal")

import pyarrow as arrow
import zstandard
from pyarrow import parquet

from patternmark.scanning import record_loops as kernels
from patternmark.scanning import sizes, sources
from patternmark.scanning.loaded import Loaded, Piece
from patternmark.scanning.segments import padded

Row = tuple[int, str, int]  # where a record begins, its id, its residues
FASTA_BITS = [
    b">",
    b"\n",
    b"\r\n",
    b"\n>",
    b"A",
    b"CDE",
    b"WY" * 9,
    b" ",
    b"/",
    b"x y",
    b"\xff",
    b"@",
]
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(found: Iterable[Piece]) -> tuple[list[Row], list[str]]:
    """Return the records of all pieces, and the problems."""
    read, problems, numbers = [], [], []
    for piece in found:
        numbers.append(piece.number)
        loaded = piece.load()
        for part in loaded.counted():
            for i in range(len(part.records)):
                size = int(part.records[i, kernels.RESIDUES])
                read.append((loaded.begin + part.place(i), part.name(i), size))
        problems += [loaded.problem] if loaded.problem else []
        loaded.release()  # what comes next is read into the same memory
    assert numbers == list(range(len(numbers)))
    return read, problems


def expected(content: bytes) -> list[Row]:
    """Return the records of FASTA from the first line on that is a header."""
    begin = 0 if content.startswith(b">") else content.find(b"\n>") + 1 or len(content)
    read = reference.read_fasta(content[begin:])
    return [(begin + record.start, record.name, record.residues) for record in read.records]


def fasta(records: int, seed: int = 1, most: int = 90) -> bytes:
    rng = random.Random(seed)
    bodies = [rng.choices("ACDEFGHIKLMNPQRSTVWY", k=rng.randint(0, most)) for _ in range(records)]
    return b"".join(b">r%d\n%s\n" % (i, "".join(body).encode()) for i, body in enumerate(bodies))


def gzipped(content: bytes) -> bytes:
    """Compress in members of odd sizes, as bgzip and `cat a.gz b.gz` do."""
    cuts = [0, len(content) // 3, len(content) // 3, len(content) // 2, len(content)]
    return b"".join(gzip.compress(content[low:high]) for low, high in pairwise(cuts))


def zstd(content: bytes) -> bytes:
    """Compress in frames, one of them empty, one to be skipped, as pzstd does."""
    half = len(content) // 2
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    frames = [content[:half], b"", content[half:]]
    return skipped.join(zstandard.compress(frame) for frame in frames)


class Pipe(io.RawIOBase):
    """A stream that gives a few bytes at a time, as a pipe does."""

    def __init__(self, content: bytes) -> None:
        self.rest = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.rest.read(min(7, len(buffer)))
        buffer[: len(found)] = found
        return len(found)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the sizes of what is read at once."""

    def set_sizes(piece: int, read: int, longest: int = 2**28) -> None:
        monkeypatch.setattr(sizes, "PIECE", piece)
        monkeypatch.setattr(sizes, "STREAM_READ", read)
        monkeypatch.setattr(sizes, "OVERHANG_READ", read)
        monkeypatch.setattr(sizes, "LONGEST_RECORD", longest)
        monkeypatch.setattr(sizes, "GZIP_READ", 11)
        monkeypatch.setattr(sizes, "ZSTD_READ", 11)

    return set_sizes


def ways(content: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Write the same content in every way; return the pieces of each."""
    (folder / "a.fasta").write_bytes(content)
    (folder / "a.fasta.gz").write_bytes(gzipped(content))
    (folder / "a.fasta.zst").write_bytes(zstd(content))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Pipe(content)))
    found = {
        suffix: sources.pieces(str(folder / f"a.fasta{suffix}")) for suffix in ("", ".gz", ".zst")
    }
    return found | {"-": sources.pieces("-")}


@QUICK
@given(
    st.lists(st.sampled_from(FASTA_BITS), max_size=60).map(b"".join),
    st.integers(1, 80),
    st.integers(8, 40),
)
def test_every_record_once(
    tmp_path: Path,
    small: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    piece: int,
    read: int,
) -> None:
    small(piece, read)
    content = b">" + content
    for way, found in ways(content, tmp_path, monkeypatch).items():
        assert rows(found) == (expected(content), []), way


@pytest.mark.parametrize("piece", [1, 64, 1000, 5000, 10**6])
def test_files_of_many_records(
    piece: int, tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(piece, 128)
    content = fasta(300)
    for way, found in ways(content, tmp_path, monkeypatch).items():
        assert rows(found) == (expected(content), []), way


def test_pieces_are_the_same_in_a_file_and_in_a_stream(
    tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(500, 128)
    content = fasta(100)
    loaded = {
        way: [(piece.begin, piece.content.tobytes()) for p in found if (piece := p.load()).size]
        for way, found in ways(content, tmp_path, monkeypatch).items()
    }
    assert loaded[""] == loaded[".gz"] == loaded[".zst"] == loaded["-"]


@pytest.mark.parametrize("size", [1, 5, 6])
@pytest.mark.parametrize("piece", [1, 4, 10**6])
def test_what_stands_before_the_first_record(
    size: int,
    piece: int,
    tmp_path: Path,
    small: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small(max(piece, 4), 8)
    for before, is_told in ((b"\n \n", False), (b";old\n", False), (b"ACD>E\n" * size, True)):
        content = before + fasta(5)
        for way, found in ways(content, tmp_path, monkeypatch).items():
            read, problems = rows(found)
            assert read == expected(content), way
            assert bool(problems) == is_told, (way, problems)


def test_byte_order_mark(
    tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(64, 8)
    content = fasta(5)
    for way, found in ways(b"\xef\xbb\xbf" + content, tmp_path, monkeypatch).items():
        moved = [(3 + begin, *row) for begin, *row in expected(content)]
        assert rows(found) == (moved, []), way


def test_no_record_at_all(
    tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(64, 16)
    for way, found in ways(b"ACDEF\n" * 30, tmp_path, monkeypatch).items():
        read, problems = rows(found)
        assert not read, way
        assert "before the first '>'" in problems[0], way
    for way, found in ways(b"", tmp_path, monkeypatch).items():
        assert rows(found) == ([], []), way


@pytest.mark.parametrize("compress", [gzipped, zstd, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("piece", [100, 2000, 10**6])
def test_a_cut_off_file(
    compress: Callable[[bytes], bytes], piece: int, tmp_path: Path, small: Callable[..., None]
) -> None:
    """All that the decompressor gives is read, but the last record, which may not be whole."""
    small(piece, 64)
    content = fasta(200)
    every, packed = expected(content), compress(content)
    path = tmp_path / "cut"
    most = 0
    for kept in (0.3, 0.6, 0.9, 1.0):
        path.write_bytes(packed[: int(kept * len(packed)) - 1])
        read, problems = rows(sources.pieces(str(path)))
        assert read == every[: len(read)]
        assert len(problems) == 1
        assert "cut off" in problems[0]
        most = max(most, len(read))
    if compress in (gzip.compress, gzipped):  # of it only the check of the end is missing
        assert most == len(every) - 1
    if compress is zstd:  # its first half is whole
        assert most >= len(every) // 2 - 2


@pytest.mark.slow
@pytest.mark.parametrize("size", [2**14, 2**20])
def test_a_cut_gzip_gives_what_is_before_the_cut(size: int, tmp_path: Path) -> None:
    """With sizes as they are: nothing that was decompressed is lost with the error."""
    content = fasta(20000)
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(content)[: size // 8])
    read, problems = rows(sources.pieces(str(path)))
    assert read == expected(content)[: len(read)]
    assert read[-1][0] > size // 8  # it expands, if little
    assert len(problems) == 1


def test_damage_within(tmp_path: Path, small: Callable[..., None]) -> None:
    small(1000, 64)
    content = fasta(200)
    for compress in (gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress):
        packed = bytearray(compress(content))
        for at in (5, len(packed) // 2, len(packed) - 2):
            broken = packed.copy()
            broken[at : at + 2] = bytes(byte ^ 255 for byte in broken[at : at + 2])
            (tmp_path / "broken").write_bytes(broken)
            _, problems = rows(sources.pieces(str(tmp_path / "broken")))
            # A header's time is not checked by anything; all else is.
            assert len(problems) == 1 or (compress is gzip.compress and at == 5)


def test_zstd_that_begins_with_a_frame_to_skip(tmp_path: Path, small: Callable[..., None]) -> None:
    """As pzstd writes it."""
    small(1000, 64)
    content = fasta(20)
    skipped = b"\x53\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    (tmp_path / "a.zst").write_bytes(skipped + zstandard.compress(content))
    assert rows(sources.pieces(str(tmp_path / "a.zst"))) == (expected(content), [])


def test_zeros_behind_gzip_are_no_damage(tmp_path: Path, small: Callable[..., None]) -> None:
    small(1000, 64)
    content = fasta(20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content) + b"\0" * 50)
    assert rows(sources.pieces(str(tmp_path / "a.gz"))) == (expected(content), [])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.fasta", tmp_path):
        with pytest.raises(InputError, match=path.name):
            list(sources.pieces(str(path)))
    path = tmp_path / "gone.fasta"
    path.write_bytes(fasta(3))
    found = list(sources.pieces(str(path)))
    path.unlink()
    with pytest.raises(InputError, match=r"gone\.fasta"):
        found[0].load()
    for start in (b"PAR1", b"ARROW1\0\0"):
        path.write_bytes(start + b"no more")
        with pytest.raises(InputError, match=r"gone\.fasta"):
            list(sources.pieces(str(path)))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read all files")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.fasta"
    path.write_bytes(fasta(3))
    path.chmod(0)
    with pytest.raises(InputError, match=r"secret\.fasta"):
        list(sources.pieces(str(path)))


def test_compressed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (gzip.compress(b">a\nAC\n"), zstandard.compress(b">a\nAC\n")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        with pytest.raises(InputError, match="decompress"):
            list(sources.pieces("-"))


@pytest.mark.parametrize("piece", [50, 400, 1000, 3000])
@pytest.mark.parametrize("place", [0, 1, 10, 19])
def test_a_record_that_is_too_long(
    piece: int,
    place: int,
    tmp_path: Path,
    small: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is left out and told; what is before and behind it is read."""
    small(piece, 32, 1000)
    bodies = [b"ACDEFGHIKL" * (i % 7) for i in range(20)]
    bodies[place] = b"W" * 5000
    content = b"".join(b">r%d\n%s\n" % (i, body) for i, body in enumerate(bodies))
    for way, found in ways(content, tmp_path, monkeypatch).items():
        read, problems = rows(found)
        assert read == [row for row in expected(content) if row[1] != f"r{place}"], way
        assert len(problems) == 1, way
        assert "left out" in problems[0], way


def test_a_record_that_is_not_too_long(
    tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records before it in its piece do not count."""
    small(900, 32, 1000)
    content = fasta(12, most=60) + b">long\n" + b"A" * 900 + b"\n" + fasta(5)
    for way, found in ways(content, tmp_path, monkeypatch).items():
        assert rows(found) == (expected(content), []), way


FASTQ_LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b c", "", "@"]), st.text("ACDWY", max_size=9), st.booleans()),
    min_size=1,
    max_size=12,
)


@QUICK
@given(FASTQ_LINES, st.integers(1, 80), st.integers(8, 40), st.sampled_from(["\n", "\r\n"]))
def test_fastq(
    tmp_path: Path,
    small: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    reads: list[tuple[str, str, bool]],
    piece: int,
    read: int,
    end: str,
) -> None:
    small(piece, read)
    lines: list[str] = []
    for name, letters, is_odd in reads:  # qualities may begin with @ and +
        lines += ["@" + name, letters, "+", ("@+" * 5 if is_odd else "+@" * 5)[: len(letters)]]
    wanted = [((name.split() or [""])[0], len(letters)) for name, letters, _ in reads]
    for content in (end.join(lines), end.join(lines) + end, end.join(lines) + end * 3):
        for way, found in ways(content.encode(), tmp_path, monkeypatch).items():
            read_rows, problems = rows(found)
            assert read_rows == [(i, *row) for i, row in enumerate(wanted)], way
            assert not problems, way


@pytest.mark.parametrize("piece", [10, 10**6])
def test_fastq_that_is_wrong(piece: int, tmp_path: Path, small: Callable[..., None]) -> None:
    small(piece, 16)
    good = b"@a\nACD\n+\nIII\n"
    path = tmp_path / "a.fastq"
    for bad in (
        b"@b\nAC\n+\n",
        b"@b\nAC",
        b"@b\nAC\nAC\n+\nIIII\n",
        b"@b\nAC\n+\nII\nno\nAC\n+\nII\n",
    ):
        path.write_bytes(good * 3 + bad)
        read, problems = rows(sources.pieces(str(path)))
        assert [row[2] for row in read][:3] == [3, 3, 3]
        assert len(read) == 3 + bad.startswith(b"@b\nAC\n+\nII\n")
        assert len(problems) == 1
        assert "FASTQ" in problems[0]


@pytest.mark.parametrize("piece", [10, 10**6])
def test_fastq_that_is_cut_off(piece: int, tmp_path: Path, small: Callable[..., None]) -> None:
    small(piece, 16)
    content = b"".join(b"@r%d\nACD\n+\nIII\n" % i for i in range(50))
    path = tmp_path / "a.fastq.gz"
    packed = gzip.compress(content, compresslevel=0)  # a byte of it is a byte of the content
    for kept in (60, 61, 62, 63, 75, 90, 100, len(packed) - 1):
        path.write_bytes(packed[:kept])
        read, problems = rows(sources.pieces(str(path)))
        assert [row[0] for row in read] == list(range(len(read)))
        assert all(row[1:] == (f"r{row[0]}", 3) for row in read)
        assert len(problems) == 1
    assert len(read) == 50


@QUICK
@given(st.binary(max_size=200), st.integers(1, 80), st.integers(8, 40))
def test_any_bytes_are_read_or_refused(
    tmp_path: Path,
    small: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    piece: int,
    read: int,
) -> None:
    small(piece, read)
    for start in (b"", b"@", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"ARROW1"):
        for found in ways(start + content, tmp_path, monkeypatch).values():
            try:
                rows(found)
            except InputError:
                assert start or content[:1] in (b"\x1f", b"\x28", b"P", b"A")


def test_pieces_say_how_much_of_a_file_they_take(
    tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that progress knows the end, compressed or not."""
    small(700, 64)
    content = fasta(100)
    table = arrow.table({"sequence": ["ACDE" * 20] * 99})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    with arrow.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=20)
    reads = b"".join(b"@r%d\nACD\n+\nIII\n" % i for i in range(99))
    (tmp_path / "a.fq").write_bytes(reads)
    (tmp_path / "a.fq.gz").write_bytes(gzip.compress(reads))
    ways(content, tmp_path, monkeypatch)
    names = ["a.fasta", "a.fasta.gz", "a.fasta.zst", "a.parquet", "a.arrow", "a.fq", "a.fq.gz"]
    for name in names:
        taken = [piece.bytes for piece in sources.pieces(str(tmp_path / name))]
        assert len(taken) > 1, name
        assert all(size >= 0 for size in taken), name
        assert sum(taken) == (tmp_path / name).stat().st_size, name


def test_padding_of_nothing() -> None:
    assert (Loaded().size, len(Loaded().content), list(Loaded().counted())) == (0, 0, [])
    assert np.all(padded(b"") == ord("\n"))
