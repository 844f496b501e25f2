"""A piece of a file, and the piece once it is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.scanning.buffers import BUFFERS, Buffer
from patternmark.scanning.segments import Counted, read_column, read_fasta
from patternmark.scanning.sizes import LONGEST_RECORD

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TOO_LONG = f"a record of more than {LONGEST_RECORD:,} bytes was left out"
_PREAMBLE = "the text before the first '>' was left out"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A piece in memory: its bytes are FASTA, or only sequences one after the other."""

    buffer: Buffer | None = None
    at: int = 0  # where the bytes begin in the buffer
    end: int = 0
    begin: int = 0  # where the bytes begin in the file, or the number of the first row
    offsets: NDArray[np.int64] | None = None
    ids: Callable[[int], str] | None = None
    labels: bytes = b""  # ids for the hash of the piece; those of FASTA are in its bytes
    problem: str = ""  # why a part of the file is missing here

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self.end - self.at

    @property
    def content(self) -> NDArray[np.uint8]:
        """The bytes, without a copy."""
        if self.buffer is None:
            return np.zeros(0, dtype=np.uint8)
        return self.buffer.view(self.at, self.end)

    def counted(self) -> Iterator[Counted]:
        """Yield records and their segments."""
        if self.buffer is None:
            return iter(())
        raw = self.buffer.padded(self.at, self.end)
        if self.offsets is not None and self.ids is not None:
            return read_column(raw, self.offsets, self.ids)
        return read_fasta(raw, self.size)

    def release(self) -> None:
        """Give the memory back. The bytes must not be used any more."""
        if self.buffer is not None:
            BUFFERS.give(self.buffer)


@dataclass(frozen=True)
class Piece:
    """Some records of a file: call `load` to read them."""

    file: str
    number: int
    load: Callable[[], Loaded]
    bytes: int = 0  # how much of the file on disk it takes
    is_loaded: bool = True  # whether it was read already, as in streams, which are read in order


def first_record(buffer: Buffer) -> int:
    """Return where the first record of a file begins, or -1."""
    for start in (b"", BYTE_ORDER_MARK):
        if buffer.starts_with(start + b">"):
            return len(start)
    return next_record(buffer, 0)


def next_record(buffer: Buffer, after: int) -> int:
    """Return where the first record begins whose header begins after a place, or -1."""
    found = buffer.find(b"\n>", after)
    return found if found < 0 else found + 1


def last_record(buffer: Buffer) -> int:
    """Return where the last record begins, or 0 if none begins after the first line."""
    return buffer.find_last(b"\n>") + 1


def describe_preamble(before: bytes) -> str:
    """Return a message about text before the first record; blanks and comments are ignored."""
    text = before.removeprefix(BYTE_ORDER_MARK)
    is_text = any(line.strip() and not line.startswith(b";") for line in text.split(b"\n"))
    return _PREAMBLE if is_text else ""
