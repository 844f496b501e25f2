"""Read pieces of sources that must be read from the start: pipes, compressed files, FASTQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np

from patternmark.errors import InputError, PatternmarkError
from patternmark.scanning import sizes
from patternmark.scanning.buffers import BUFFERS, Buffer
from patternmark.scanning.loaded import (
    TOO_LONG,
    Loaded,
    Piece,
    describe_preamble,
    first_record,
    last_record,
    next_record,
)

GZIP, PARQUET, ARROW = b"\x1f\x8b", b"PAR1", b"ARROW1"
# The others mark a frame to be skipped: files of pzstd begin with one.
ZSTD = (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16)))


class ByteSource(Protocol):
    """A source of bytes."""

    def read(self, buffer: Buffer) -> bool:
        """Add some bytes to a buffer; return whether there may be more."""

    def position(self) -> int:
        """Return how many bytes of the file on disk were read."""


class Plain:
    """A source that is not compressed."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._position = stream, 0

    def read(self, buffer: Buffer) -> bool:
        """Add some bytes to a buffer; return whether there may be more."""
        found = buffer.read(self._stream, sizes.STREAM_READ)
        self._position += found
        return found == sizes.STREAM_READ

    def position(self) -> int:
        """Return how many bytes were read."""
        return self._position


class Decompressed:
    """A compressed file, decompressed one frame (gzip: member) after the other.

    The file readers of the libraries do not fit: when a file is cut off, the one of gzip loses
    what it has read, and the one of zstd does not report it.
    """

    def __init__(self, path: str, file: Any, start: bytes, skipped: int = 0) -> None:
        self._file, self._begin = file, _decompressor(path, start)
        self._frame: Any = None
        self._rest = b""
        self._skipped = skipped  # bytes to leave out at the beginning
        self._at_once = sizes.GZIP_READ if start.startswith(GZIP) else sizes.ZSTD_READ

    def position(self) -> int:
        """Return how many bytes of the file were read."""
        return int(self._file.tell())

    def read(self, buffer: Buffer) -> bool:
        """Add some bytes to a buffer; return whether there may be more."""
        wanted = buffer.size + sizes.STREAM_READ
        while buffer.size < wanted:
            rest = self._rest or self._file.read(self._at_once)
            self._rest = b""
            if not rest:
                if self._frame is not None:
                    raise EOFError("the file ends within a compressed frame")
                return False
            if self._frame is None:
                rest = rest.lstrip(b"\0")  # tapes and some tools pad files with zeros
                if not rest:
                    continue
                self._frame = self._begin()
            found = self._frame.decompress(rest)
            gone = min(self._skipped, len(found))
            self._skipped -= gone
            buffer.append(memoryview(found)[gone:])
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        return True


class Gzip:
    """A gzip file, faster than with `Decompressed`: bytes are decompressed into the buffer.

    When the fast reader finds damage, it does not say what it has returned. The file is then read
    again from the start with `Decompressed`.
    """

    def __init__(self, path: str, file: Any) -> None:
        self._path, self._file = path, file
        self._reader, self._given = _gzip_reader(path, file), 0
        self._careful: Decompressed | None = None

    def position(self) -> int:
        """Return how many bytes of the file were read."""
        return int(self._file.tell())

    def read(self, buffer: Buffer) -> bool:
        """Add some bytes to a buffer; return whether there may be more."""
        if self._careful is not None:
            return self._careful.read(buffer)
        before = buffer.size
        try:
            buffer.read(self._reader, sizes.STREAM_READ)
        except Exception:  # Decompressed raises it again
            self._file.seek(0)
            given = self._given + buffer.size - before
            self._careful = Decompressed(self._path, self._file, GZIP, given)
            return True
        self._given += buffer.size - before
        return buffer.size - before == sizes.STREAM_READ


def _gzip_reader(path: str, file: Any) -> Any:
    try:
        from isal import isal_zlib  # noqa: PLC0415  # the scan extra
    except ImportError as error:
        raise _missing_library(path, error) from None
    return isal_zlib._GzipReader(file, sizes.GZIP_READ)  # the reader of igzip.open


def _missing_library(path: str, error: ImportError) -> PatternmarkError:
    return PatternmarkError(
        f"{path}: reading it needs {error.name}: pip install 'patternmark[scan]'"
    )


def _decompressor(path: str, start: bytes) -> Callable[[], Any]:
    try:
        if start.startswith(GZIP):
            from isal import isal_zlib  # noqa: PLC0415  # the scan extra

            return partial(isal_zlib.decompressobj, wbits=31)
        import zstandard  # noqa: PLC0415

        return zstandard.ZstdDecompressor().decompressobj
    except ImportError as error:
        raise _missing_library(path, error) from None


def stream_pieces(path: str, source: ByteSource) -> Iterator[Piece]:
    """Yield the pieces of FASTA or FASTQ."""
    stream = _Stream(source)
    stream.read()
    if stream.buffer.starts_with(GZIP, *ZSTD, PARQUET, ARROW):
        raise InputError(
            f"{path}: is compressed or Parquet or Arrow: a stream must be FASTA or FASTQ: "
            "decompress or convert it first"
        )
    is_fastq = stream.buffer.starts_with(b"@")
    before = 0
    for number, loaded in enumerate(_fastq(stream) if is_fastq else _fasta(stream)):
        now = source.position()
        yield Piece(path, number, partial(_return_loaded, loaded), now - before)
        before = now


def _return_loaded(loaded: Loaded) -> Loaded:
    return loaded


class _Stream:
    """The bytes of a source that were read and are not part of a piece yet."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.buffer = BUFFERS.take()
        self.begin = 0  # where the buffer begins in the stream, or the number of the first row
        self.is_open, self.damage = True, ""
        self.searched = 0  # the search for a record after the piece has come to here

    def read(self) -> None:
        """Read more; an error ends the stream."""
        try:
            self.is_open = self._source.read(self.buffer)
        except Exception as error:  # each decompressor raises its own errors
            self.is_open, self.damage = False, f"cut off or damaged: {error}"

    def cut(self, end: int, at: int = 0, problem: str = "") -> Loaded:
        """Remove the bytes before `end`; return those from `at` to `end` as a piece."""
        before, rest = self.buffer, BUFFERS.take()
        self.searched = 0
        rest.append(before.view(end, before.size))
        begin, self.buffer = self.begin + at, rest
        self.begin += end
        return Loaded(before, at, end, begin, problem=problem)

    def forget(self, count: int) -> None:
        """Remove the first bytes."""
        self.searched = 0
        self.buffer.drop(count)
        self.begin += count


def _fasta(stream: _Stream) -> Iterator[Loaded]:
    problem, is_first, is_between = "", True, True
    while True:
        if is_between:  # before the first record, or within a record that is too long
            buffer = stream.buffer
            found = first_record(buffer) if stream.begin == 0 else next_record(buffer, 0)
            gone = found if found >= 0 else max(0, buffer.size - 1)
            if not stream.is_open and found < 0:
                gone = buffer.size
            if is_first:
                problem = problem or describe_preamble(buffer.content(0, gone))
            stream.forget(gone)
            is_between = found < 0
            is_first = is_first and is_between
        while not is_between and (end := _end_of_piece(stream)):
            if stream.damage and end == stream.buffer.size:
                # The last record may be incomplete.
                yield stream.cut(last_record(stream.buffer), problem=stream.damage)
                return
            yield stream.cut(end, problem=problem)
            problem = ""
        if not stream.is_open:
            break
        if not is_between and _is_too_long(stream):
            yield stream.cut(last_record(stream.buffer), problem=TOO_LONG)
            stream.forget(stream.buffer.size - 1)
            is_between = True
        stream.read()
    if stream.damage or problem:
        yield Loaded(begin=stream.begin, problem=stream.damage or problem)


def _end_of_piece(stream: _Stream) -> int:
    """Return where the first record after the piece begins, or 0 if that is not known yet."""
    boundary = (stream.begin // sizes.PIECE + 1) * sizes.PIECE - stream.begin
    size, found = stream.buffer.size, -1
    if boundary <= size:
        found = next_record(stream.buffer, max(boundary, stream.searched) - 1)
        stream.searched = size
    return found if found > 0 else 0 if stream.is_open else size


def _is_too_long(stream: _Stream) -> bool:
    size = stream.buffer.size  # compared first: it saves the search in most cases
    return size > sizes.LONGEST_RECORD < size - last_record(stream.buffer)


def _fastq(stream: _Stream) -> Iterator[Loaded]:
    """Yield pieces of FASTQ. After a bad record it stops: the next cannot be found safely."""
    row = 0
    while stream.is_open or stream.buffer.size:
        if stream.damage:
            stream.buffer.size = _whole_fastq(stream.buffer)
        end = 0
        if stream.buffer.size > sizes.PIECE or not stream.is_open:
            end = _whole_fastq(stream.buffer) if stream.is_open else stream.buffer.size
        if end:
            taken = stream.cut(end)
            loaded = _fastq_records(taken.content.tobytes(), row, stream.damage)
            taken.release()
            yield loaded
            if loaded.problem:
                return
            row += len(loaded.offsets) - 1 if loaded.offsets is not None else 0
        elif stream.buffer.size > sizes.LONGEST_RECORD:
            yield Loaded(begin=row, problem=TOO_LONG)
            return
        if stream.is_open:
            stream.read()
    if stream.damage:
        yield Loaded(begin=row, problem=stream.damage)


def _whole_fastq(buffer: Buffer) -> int:
    """Return where the last complete record of four lines ends."""
    ends = np.flatnonzero(buffer.view(0, buffer.size) == ord("\n"))
    whole = len(ends) // 4 * 4
    return int(ends[whole - 1]) + 1 if whole else 0


def _fastq_records(content: bytes, first: int, problem: str) -> Loaded:
    """Read records of four lines: name, sequence, +, quality."""
    lines = content.split(b"\n")
    while lines and not b"".join(lines[-4:] if len(lines) % 4 == 0 else lines[-1:]).strip():
        lines.pop()  # the empty text after the last newline, and blank lines at the end
    names, sequences = lines[0::4], [line.rstrip(b"\r") for line in lines[1::4]]
    rows = zip(names, sequences, lines[2::4], lines[3::4], strict=False)
    whole = 0
    for head, letters, middle, quality in rows:
        # If the quality is shorter than the sequence, the file was cut off.
        if head[:1] != b"@" or middle[:1] != b"+" or len(quality.rstrip(b"\r")) != len(letters):
            break
        whole += 1
    if 4 * whole < len(lines):
        problem = "a record is not FASTQ; it and all records after it were left out"
    offsets = np.zeros(whole + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences[:whole]], out=offsets[1:])

    def name(row: int) -> str:
        words = names[row][1:].split(None, 1)
        return words[0].decode("utf-8", "replace") if words else ""

    buffer = BUFFERS.take(int(offsets[-1]))
    buffer.append(b"".join(sequences[:whole]))
    labels = b"\n".join(names[:whole])
    return Loaded(buffer, 0, buffer.size, first, offsets, name, labels, problem)
