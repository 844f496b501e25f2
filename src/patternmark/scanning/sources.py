"""Read files of sequences in pieces of whole records.

A piece consists of the records that begin within `sizes.PIECE` bytes of a file. The last of them
may end after these bytes. So pieces do not depend on the number of workers, and a run that was
killed continues with the unfinished pieces. For a compressed file, the bytes after decompression
count.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from patternmark.errors import InputError
from patternmark.scanning import sizes
from patternmark.scanning.buffers import BUFFERS
from patternmark.scanning.columns import column_pieces
from patternmark.scanning.loaded import (
    TOO_LONG,
    Loaded,
    Piece,
    describe_preamble,
    first_record,
    last_record,
    next_record,
)
from patternmark.scanning.streams import (
    ARROW,
    GZIP,
    PARQUET,
    ZSTD,
    ByteSource,
    Decompressed,
    Gzip,
    Plain,
    stream_pieces,
)

_PACKED = (PARQUET, ARROW, GZIP, *ZSTD)


def pieces(path: str, sequence: str = "sequence") -> Iterator[Piece]:
    """Yield the pieces of a file, or of standard input (`-`); its first bytes tell the format."""
    if path == "-":
        import sys  # noqa: PLC0415

        yield from stream_pieces(path, Plain(sys.stdin.buffer))
        return
    try:
        with open(path, "rb", buffering=0) as stream:
            if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):  # a pipe cannot be read twice
                yield from stream_pieces(path, Plain(stream))
                return
            start = stream.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if start.startswith((PARQUET, ARROW)):
        yield from column_pieces(path, sequence, is_parquet=start.startswith(PARQUET))
    elif start.startswith((GZIP, *ZSTD, b"@")):
        with ExitStack() as stack:
            file = stack.enter_context(open(path, "rb", buffering=0))
            yield from stream_pieces(path, _source(path, file, start))
    else:
        for number in range(num_pieces(path)):
            yield plain_piece(path, number)


def _source(path: str, file: Any, start: bytes) -> ByteSource:
    if start.startswith(GZIP):
        return Gzip(path, file)
    return Decompressed(path, file, start) if start.startswith(ZSTD) else Plain(file)


def is_plain(path: str) -> bool:
    """Tell whether a file is uncompressed FASTA, whose pieces can be read in any order."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as stream:
            return not stream.read(8).startswith((*_PACKED, b"@"))
    except OSError:
        return False


def num_pieces(path: str) -> int:
    """Return how many pieces a plain file has."""
    return -(-os.path.getsize(path) // sizes.PIECE)


def plain_piece(path: str, number: int) -> Piece:
    """Return one piece of a plain file."""
    begin = number * sizes.PIECE
    own = min(sizes.PIECE, os.path.getsize(path) - begin)
    return Piece(path, number, partial(_from_file, path, begin), own, is_loaded=False)


def _from_file(path: str, offset: int) -> Loaded:
    """Read the records that begin in a piece of a plain FASTA file."""
    first = max(0, offset - 1)  # one byte earlier: a header follows the end of a line
    own = offset + sizes.PIECE - first
    buffer = BUFFERS.take()
    problem, end = "", -1
    try:
        with open(path, "rb", buffering=0) as stream:
            stream.seek(first)
            buffer.read(stream, own)
            begin = first_record(buffer) if offset == 0 else next_record(buffer, 0)
            if offset == 0:
                problem = describe_preamble(buffer.content(0, begin if begin >= 0 else buffer.size))
            if begin < 0:
                BUFFERS.give(buffer)
                return Loaded(begin=first, problem=problem)
            last = max(begin, last_record(buffer))
            while end < 0:
                searched = buffer.size - 1
                if not buffer.read(stream, sizes.OVERHANG_READ):
                    end = buffer.size
                    break
                end = next_record(buffer, searched)
                if end < 0 and buffer.size - last > sizes.LONGEST_RECORD:
                    end, problem = last, TOO_LONG
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return Loaded(buffer, begin, end, first + begin, problem=problem)
