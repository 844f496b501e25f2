"""Where sequences come from: files in pieces of whole records, the same however they are read.

A piece is what begins in so many bytes of a file (`PIECE`): the record that ends beyond belongs to
it too. So pieces do not depend on how many workers read them, and a run that was killed goes on
with the pieces that it has not finished. Compressed files have the pieces of what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import InputError, PatternmarkError
from patternmark.scan.reading import Counted, padded, read_column, read_fasta

PIECE = 2**25  # bytes
LONGEST_RECORD = 2**28  # bytes; a longer one is skipped
_READ = 2**20
_ROWS = 2**16  # of a column that are read at once
_GZIP, _ZSTD, _PARQUET, _ARROW = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"ARROW1"


@dataclass(frozen=True)
class Piece:
    """Some records of a file: call `load` to read them."""

    file: str
    number: int
    load: Callable[[], Loaded]
    bytes: int = 0  # of the file that it takes, where that is known before


@dataclass(frozen=True, eq=False)
class Loaded:
    """The bytes of a piece: FASTA, or sequences one after the other."""

    content: bytes
    begin: int = 0  # of the content in its file, or the number of the first row
    offsets: NDArray[np.int64] | None = None
    ids: Callable[[int], str] | None = None
    problem: str = ""  # why the file ends here, before its end

    def counted(self) -> Iterator[Counted]:
        """Yield records and their segments."""
        raw = padded(self.content)
        if self.offsets is not None and self.ids is not None:
            return read_column(raw, self.offsets, self.ids)
        return read_fasta(raw, len(self.content))


def pieces(path: str, sequence: str = "sequence") -> Iterator[Piece]:
    """Yield the pieces of a file, or of standard input (`-`); its bytes tell its format."""
    if path == "-":
        import sys  # noqa: PLC0415

        yield from _streamed(path, sys.stdin.buffer)
        return
    try:
        with open(path, "rb") as stream:
            start = stream.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if start.startswith((_PARQUET, _ARROW)):
        yield from _columns(path, sequence, is_parquet=start.startswith(_PARQUET))
    elif start.startswith((_GZIP, _ZSTD)):
        with ExitStack() as stack:
            yield from _streamed(path, _decompressed(path, start, stack))
    elif start.startswith(b"@"):
        with open(path, "rb") as stream:
            yield from _streamed(path, stream)
    else:
        for number in range(num_pieces(path)):
            yield plain_piece(path, number)


def is_plain(path: str) -> bool:
    """Tell whether a file is FASTA as it is, whose pieces can be read in any order."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(8)
    except OSError:
        return False
    return not start.startswith((_PARQUET, _ARROW, _GZIP, _ZSTD, b"@"))


def num_pieces(path: str) -> int:
    """Return how many pieces a plain file has."""
    return -(-os.path.getsize(path) // PIECE)


def plain_piece(path: str, number: int) -> Piece:
    """Return one piece of a plain file."""
    own = min(PIECE, os.path.getsize(path) - number * PIECE)
    return Piece(path, number, partial(_from_file, path, number * PIECE), own)


def _decompressed(path: str, start: bytes, stack: ExitStack) -> BinaryIO:
    try:
        if start.startswith(_GZIP):
            from isal import igzip  # noqa: PLC0415  # the scan extra

            opened: BinaryIO = igzip.open(path, "rb")  # type: ignore[no-untyped-call]
            return stack.enter_context(opened)
        import zstandard  # noqa: PLC0415

        file = stack.enter_context(open(path, "rb"))  # noqa: SIM115
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return stack.enter_context(reader)
    except ImportError as error:
        raise PatternmarkError(
            f"{path}: reading it needs {error.name}: pip install 'patternmark[scan]'"
        ) from None


def _from_file(path: str, offset: int) -> Loaded:
    """Read the records that begin in a piece of a plain FASTA file."""
    try:
        with open(path, "rb") as stream:
            first = max(0, offset - 1)  # whether a line ends there tells a header from its middle
            stream.seek(first)
            content = stream.read(offset + PIECE - first)
            begin = 0 if offset == 0 and content[:1] == b">" else _next_record(content, 0)
            if begin < 0:
                return Loaded(b"")
            end = -1
            while end < 0 and (more := stream.read(_READ)):
                searched = len(content) - 1
                content += more
                end = _next_record(content, searched)
                if end < 0 and len(content) > LONGEST_RECORD:
                    return _without_last(content[begin:], first + begin, _TOO_LONG)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return Loaded(content[begin : end if end >= 0 else len(content)], first + begin)


_TOO_LONG = f"a record of more than {LONGEST_RECORD:,} bytes was left out"


def _next_record(content: bytes | bytearray, after: int) -> int:
    """Return where the first record begins whose line begins after a place, or -1."""
    found = content.find(b"\n>", after)
    return found if found < 0 else found + 1


def _without_last(content: bytes | bytearray, begin: int, problem: str) -> Loaded:
    """Leave out the last record, which is not whole."""
    last = content.rfind(b"\n>")
    return Loaded(bytes(content[: last + 1]) if last >= 0 else b"", begin, problem=problem)


def _streamed(path: str, stream: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces of what can only be read from the beginning on."""
    buffer, begin, number, problem = bytearray(), 0, 0, ""
    is_open, is_fastq = True, False
    while is_open:
        more, problem = _more(stream)
        is_open = bool(more)
        if begin == 0 and not buffer:
            is_fastq = more[:1] == b"@"
            if more[:1] not in (b"@", b">", b""):
                skipped = _next_record(more, 0)
                begin, more = max(skipped, 0), more[max(skipped, 0) :]
        buffer += more
        while len(buffer) > PIECE or (not is_open and buffer):
            cut = _fastq_end(buffer, is_open) if is_fastq else _fasta_end(buffer, begin, is_open)
            if cut == 0:
                break
            content = bytes(buffer[:cut])
            del buffer[:cut]
            ends = problem if not buffer else ""
            loaded = _fastq(content, number, ends) if is_fastq else _fasta(content, begin, ends)
            yield Piece(path, number, partial(_as_it_is, loaded))
            number += 1
            begin += cut
        if is_open and len(buffer) > LONGEST_RECORD:
            yield Piece(path, number, partial(_as_it_is, Loaded(b"", begin, problem=_TOO_LONG)))
            return
    if problem and not number:
        yield Piece(path, 0, partial(_as_it_is, Loaded(b"", problem=problem)))


def _as_it_is(loaded: Loaded) -> Loaded:
    return loaded


def _more(stream: BinaryIO) -> tuple[bytes, str]:
    """Return the next bytes, none at the end, and why there are none where it is not the end."""
    try:
        return stream.read(_READ), ""
    except Exception as error:  # each decompressor has errors of its own
        return b"", f"cut off or damaged: {error}"


def _fasta_end(buffer: bytearray, begin: int, is_open: bool) -> int:
    """Return where the first record begins beyond a piece, 0 where that is not known yet."""
    boundary = (begin // PIECE + 1) * PIECE - begin
    found = _next_record(buffer, boundary - 1) if boundary <= len(buffer) else -1
    return found if found > 0 else 0 if is_open else len(buffer)


def _fasta(content: bytes, begin: int, problem: str) -> Loaded:
    return _without_last(content, begin, problem) if problem else Loaded(content, begin)


def _fastq_end(buffer: bytearray, is_open: bool) -> int:
    """Return where the last whole record of four lines ends."""
    ends = np.flatnonzero(np.frombuffer(buffer, dtype=np.uint8) == ord("\n"))
    whole = len(ends) // 4 * 4
    if not is_open and len(ends) % 4 == 3 and buffer[-1:] != b"\n":
        return len(buffer)  # no newline behind the last line
    return int(ends[whole - 1]) + 1 if whole else 0 if is_open else len(buffer)


def _fastq(content: bytes, number: int, problem: str) -> Loaded:
    """Read records of four lines: name, sequence, +, quality."""
    lines = content.splitlines()
    names, sequences = lines[0::4], lines[1::4]
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sequences], dtype=np.int64)])
    wrong = [line for line in names if not line.startswith(b"@")]
    if wrong or any(not line.startswith(b"+") for line in lines[2::4]):
        problem = problem or "a record of FASTQ that has not four lines"

    def name(row: int) -> str:
        words = names[row][1:].split(None, 1)
        return words[0].decode("utf-8", "replace") if words else ""

    return Loaded(b"".join(sequences), number * PIECE, offsets.astype(np.int64), name, problem)


def _columns(path: str, sequence: str, *, is_parquet: bool) -> Iterator[Piece]:
    """Yield the record batches of Parquet or Arrow."""
    try:
        import pyarrow as arrow  # noqa: PLC0415  # the scan extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise PatternmarkError(
            f"{path}: reading it needs pyarrow: pip install 'patternmark[scan]'"
        ) from None
    first = 0
    try:
        with ExitStack() as stack:
            if is_parquet:
                file = stack.enter_context(parquet.ParquetFile(path))
                batches = file.iter_batches(batch_size=_ROWS)
            else:
                reader = stack.enter_context(arrow.ipc.open_file(path))
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            for number, batch in enumerate(batches):
                loaded = column(batch, sequence, first)
                yield Piece(path, number, partial(_as_it_is, loaded))
                first += len(batch)
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def column(batch: Any, sequence: str = "sequence", first: int = 0) -> Loaded:
    """Return the sequences of an Arrow record batch; ids are its column `id`, or row numbers."""
    import pyarrow as arrow  # noqa: PLC0415

    if sequence not in batch.schema.names:
        raise InputError(
            f"there is no column {sequence!r} among {', '.join(batch.schema.names)}: name it with "
            "--sequence-column"
        )
    values = batch.column(sequence).cast(arrow.large_string())
    values = values.fill_null("") if values.null_count else values
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    content = b"" if data is None else data.to_pybytes()[offsets[0] : offsets[-1]]
    ids = batch.column("id") if "id" in batch.schema.names else None

    def name(row: int) -> str:
        return str(first + row) if ids is None else str(ids[row].as_py())

    return Loaded(content, first, offsets - offsets[0], name)
