"""Where sequences come from: files in pieces of whole records, the same however they are read.

A piece is what begins in so many bytes of a file (`PIECE`): the record that ends beyond belongs to
it too. So pieces do not depend on how many workers read them, and a run that was killed goes on
with the pieces that it has not finished. Compressed files have the pieces of what is in them.
"""

from __future__ import annotations

import os
import stat
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
_COMPRESSED = 2**17  # bytes that are decompressed at once; few, as they may become many
_ROWS = 2**16  # of a column that are read at once
_GZIP, _ZSTD, _PARQUET, _ARROW = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"ARROW1"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOO_LONG = f"a record of more than {LONGEST_RECORD:,} bytes was left out"
_NO_RECORD = "what stands before the first '>' was left out"


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

    content: bytes | memoryview
    begin: int = 0  # of the content in its file, or the number of the first row
    offsets: NDArray[np.int64] | None = None
    ids: Callable[[int], str] | None = None
    problem: str = ""  # why something of the file is missing here
    beyond: bytes | memoryview = b""  # the rest of the content: put together it would be copied

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.content) + len(self.beyond)

    def counted(self) -> Iterator[Counted]:
        """Yield records and their segments."""
        raw = padded(self.content, self.beyond)
        if self.offsets is not None and self.ids is not None:
            return read_column(raw, self.offsets, self.ids)
        return read_fasta(raw, self.size)


def pieces(path: str, sequence: str = "sequence") -> Iterator[Piece]:
    """Yield the pieces of a file, or of standard input (`-`); its bytes tell its format."""
    if path == "-":
        import sys  # noqa: PLC0415

        yield from _streamed(path, sys.stdin.buffer)
        return
    if stat.S_ISFIFO(_mode(path)):  # of a pipe nothing can be read twice
        with open(path, "rb") as stream:
            yield from _streamed(path, stream)
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


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def is_plain(path: str) -> bool:
    """Tell whether a file is FASTA as it is, whose pieces can be read in any order."""
    if not os.path.isfile(path):
        return False
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


def _decompressed(path: str, start: bytes, stack: ExitStack) -> _Frames:
    try:
        if start.startswith(_GZIP):
            from isal import isal_zlib  # noqa: PLC0415  # the scan extra

            begin: Callable[[], Any] = partial(isal_zlib.decompressobj, wbits=31)
        else:
            import zstandard  # noqa: PLC0415

            begin = zstandard.ZstdDecompressor().decompressobj
    except ImportError as error:
        raise PatternmarkError(
            f"{path}: reading it needs {error.name}: pip install 'patternmark[scan]'"
        ) from None
    return _Frames(stack.enter_context(open(path, "rb")), begin)


class _Frames:
    """What is in a compressed file, one frame (a member of gzip) after the other.

    The readers that come with the decompressors lose what they have read when a file is cut off
    (gzip), or do not say that it is (zstd).
    """

    def __init__(self, file: BinaryIO, begin: Callable[[], Any]) -> None:
        self._file, self._begin = file, begin
        self._frame: Any = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return some bytes, about `size` or not; none at the end."""
        del size
        while True:
            rest = self._rest or self._file.read(_COMPRESSED)
            self._rest = b""
            if not rest:
                if self._frame is not None:
                    raise EOFError("the file ends before what is in it does")
                return b""
            if self._frame is None:
                rest = rest.lstrip(b"\0")  # tapes and some tools fill files up with zeros
                if not rest:
                    continue
                self._frame = self._begin()
            found: bytes = self._frame.decompress(rest)
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
            if found:
                return found


def _from_file(path: str, offset: int) -> Loaded:
    """Read the records that begin in a piece of a plain FASTA file."""
    problem = ""
    try:
        with open(path, "rb") as stream:
            first = max(0, offset - 1)  # whether a line ends there tells a header from its middle
            stream.seek(first)
            content = stream.read(offset + PIECE - first)
            begin = _first_record(content) if offset == 0 else _next_record(content, 0)
            if offset == 0:
                problem = _left_out(content[:begin] if begin >= 0 else content)
            if begin < 0:
                return Loaded(b"", first, problem=problem)
            # What is beyond the piece stands apart, so that the piece is copied only once.
            last = max(begin, content.rfind(b"\n>") + 1)
            beyond, end = bytearray(content[-1:]), -1
            while end < 0 and (more := stream.read(_READ)):
                searched = len(beyond) - 1
                beyond += more
                end = _next_record(beyond, searched)
                if end < 0 and len(content) - last + len(beyond) - 1 > LONGEST_RECORD:
                    return Loaded(content[begin:last], first + begin, problem=_TOO_LONG)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    rest = memoryview(beyond)[1 : end if end >= 0 else len(beyond)]
    return Loaded(memoryview(content)[begin:], first + begin, problem=problem, beyond=rest)


def _first_record(content: bytes | bytearray) -> int:
    """Return where the first record of a file begins, or -1."""
    for start in (b"", _BYTE_ORDER_MARK):
        if content.startswith(start + b">"):
            return len(start)
    return _next_record(content, 0)


def _left_out(before: bytes | bytearray) -> str:
    """Return what to say of the bytes before the first record: blanks and comments are none."""
    text = before.removeprefix(_BYTE_ORDER_MARK)
    is_text = any(line.strip() and not line.startswith(b";") for line in text.split(b"\n"))
    return _NO_RECORD if is_text else ""


def _next_record(content: bytes | bytearray, after: int) -> int:
    """Return where the first record begins whose line begins after a place, or -1."""
    found = content.find(b"\n>", after)
    return found if found < 0 else found + 1


def _without_last(content: bytes | bytearray, begin: int, problem: str) -> Loaded:
    """Leave out the last record, which is not whole."""
    last = content.rfind(b"\n>")
    return Loaded(bytes(content[: last + 1]) if last >= 0 else b"", begin, problem=problem)


def _streamed(path: str, stream: BinaryIO | _Frames) -> Iterator[Piece]:
    """Yield the pieces of what can only be read from the beginning on."""
    for number, loaded in enumerate(_stream_parts(path, stream)):
        yield Piece(path, number, partial(_as_it_is, loaded))


def _stream_parts(path: str, stream: BinaryIO | _Frames) -> Iterator[Loaded]:
    more, damage = _more(stream)
    if more.startswith((_GZIP, _ZSTD, _PARQUET, _ARROW)):
        raise InputError(f"{path}: a stream must be FASTA or FASTQ: decompress it first")
    buffer = bytearray(more)
    if buffer.startswith(b"@"):
        yield from _fastq_parts(buffer, stream, damage)
        return
    begin, problem = 0, ""
    is_open, is_first, is_between = bool(more) and not damage, True, True
    while True:
        if is_between:  # records: before the first one, or in one that is too long
            found = _first_record(buffer) if begin == 0 else _next_record(buffer, 0)
            gone = found if found >= 0 else max(0, len(buffer) - 1) if is_open else len(buffer)
            if is_first:
                problem = problem or _left_out(buffer[:gone])
            del buffer[:gone]
            begin += gone
            is_between = found < 0
            is_first = is_first and is_between
        while not is_between and (len(buffer) > PIECE or (not is_open and buffer)):
            cut = _fasta_end(buffer, begin, is_open)
            if cut == 0:
                break
            content = bytes(memoryview(buffer)[:cut])
            del buffer[:cut]
            if damage and not buffer:
                yield _without_last(content, begin, damage)
                return
            yield Loaded(content, begin, problem=problem)
            problem = ""
            begin += cut
        if not is_open:
            break
        if not is_between and len(buffer) - buffer.rfind(b"\n>") - 1 > LONGEST_RECORD:
            yield _without_last(buffer, begin, _TOO_LONG)
            begin += len(buffer) - 1
            del buffer[:-1]
            is_between = True
        more, damage = _more(stream)
        buffer += more
        is_open = bool(more) and not damage
    if damage or problem:
        yield Loaded(b"", begin, problem=damage or problem)


def _as_it_is(loaded: Loaded) -> Loaded:
    return loaded


def _more(stream: BinaryIO | _Frames) -> tuple[bytes, str]:
    """Return the next bytes, few only at the end, and why it is the end where it should not be."""
    parts, size = [], 0
    try:
        while size < _READ and (found := stream.read(_READ - size)):
            parts.append(found)
            size += len(found)
    except Exception as error:  # each decompressor has errors of its own
        return b"".join(parts), f"cut off or damaged: {error}"
    return b"".join(parts), ""


def _fasta_end(buffer: bytearray, begin: int, is_open: bool) -> int:
    """Return where the first record begins beyond a piece, 0 where that is not known yet."""
    boundary = (begin // PIECE + 1) * PIECE - begin
    found = _next_record(buffer, boundary - 1) if boundary <= len(buffer) else -1
    return found if found > 0 else 0 if is_open else len(buffer)


def _fastq_parts(buffer: bytearray, stream: BinaryIO | _Frames, damage: str) -> Iterator[Loaded]:
    """Yield records of four lines; where one is not, nothing tells where the next begins."""
    row, is_open = 0, not damage
    while is_open or buffer:
        if damage:
            del buffer[_fastq_end(buffer) :]
        cut = 0
        if len(buffer) > PIECE or not is_open:
            cut = _fastq_end(buffer) if is_open else len(buffer)
        if cut:
            loaded = _fastq(bytes(buffer[:cut]), row, damage)
            yield loaded
            if loaded.problem:
                return
            row += len(loaded.offsets) - 1 if loaded.offsets is not None else 0
            del buffer[:cut]
        elif len(buffer) > LONGEST_RECORD:
            yield Loaded(b"", row, problem=_TOO_LONG)
            return
        if is_open:
            more, damage = _more(stream)
            buffer += more
            is_open = bool(more) and not damage
    if damage:
        yield Loaded(b"", row, problem=damage)


def _fastq_end(buffer: bytearray) -> int:
    """Return where the last whole record of four lines ends."""
    ends = np.flatnonzero(np.frombuffer(buffer, dtype=np.uint8) == ord("\n"))
    whole = len(ends) // 4 * 4
    return int(ends[whole - 1]) + 1 if whole else 0


def _fastq(content: bytes, first: int, problem: str) -> Loaded:
    """Read records of four lines: name, sequence, +, quality."""
    lines = content.split(b"\n")
    while lines and not b"".join(lines[-4:] if len(lines) % 4 == 0 else lines[-1:]).strip():
        lines.pop()  # what stands behind the last newline, and blank lines at the end
    names, sequences = lines[0::4], [line.rstrip(b"\r") for line in lines[1::4]]
    rows = zip(names, sequences, lines[2::4], lines[3::4], strict=False)
    whole = 0
    for head, letters, middle, quality in rows:
        # A quality that is shorter is that of a file that was cut off.
        if head[:1] != b"@" or middle[:1] != b"+" or len(quality.rstrip(b"\r")) != len(letters):
            break
        whole += 1
    if 4 * whole < len(lines):
        problem = "a record that is not FASTQ; it and what follows were left out"
    sequences = sequences[:whole]
    offsets = np.zeros(whole + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])

    def name(row: int) -> str:
        words = names[row][1:].split(None, 1)
        return words[0].decode("utf-8", "replace") if words else ""

    return Loaded(b"".join(sequences), first, offsets, name, problem)


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
            small = (some for batch in batches for some in _sliced(batch, sequence))
            for number, batch in enumerate(small):
                loaded = column(batch, sequence, first)
                yield Piece(path, number, partial(_as_it_is, loaded))
                first += len(batch)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _sliced(batch: Any, sequence: str) -> Iterator[Any]:
    """Cut a batch into such as have the bytes of a piece, about: writers make them of any size."""
    size = batch.column(sequence).nbytes if sequence in batch.schema.names else 0
    rows = max(1, len(batch) * PIECE // max(size, PIECE))
    for first in range(0, len(batch), rows):
        yield batch.slice(first, rows)


def column(batch: Any, sequence: str = "sequence", first: int = 0) -> Loaded:
    """Return the sequences of an Arrow record batch; ids are its column `id`, or row numbers."""
    import pyarrow as arrow  # noqa: PLC0415

    if sequence not in batch.schema.names:
        raise InputError(
            f"there is no column {sequence!r} among {', '.join(batch.schema.names)}: name it with "
            "--sequence-column"
        )
    values = batch.column(sequence)
    is_binary = arrow.types.is_binary(values.type) or arrow.types.is_large_binary(values.type)
    # Bytes that are no text are no reason to lose a file: they are those of bad records.
    values = values.cast(arrow.large_binary() if is_binary else arrow.large_string())
    values = values.fill_null(b"" if is_binary else "") if values.null_count else values
    _, ends, data = values.buffers()
    offsets = np.zeros(1, dtype=np.int64)  # where there are no rows, there need be no buffer
    if len(values):
        offsets = np.frombuffer(ends, dtype=np.int64, count=values.offset + len(values) + 1)
        offsets = offsets[values.offset :]
    size = int(offsets[-1] - offsets[0])
    content = data.slice(int(offsets[0]), size).to_pybytes() if size else b""
    ids = batch.column("id") if "id" in batch.schema.names else None

    def name(row: int) -> str:
        found = None if ids is None else ids[row].as_py()
        return str(first + row if found is None else found)

    return Loaded(content, first, offsets - offsets[0], name)
