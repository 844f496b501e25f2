"""Turn bytes or Arrow columns into counted segments, and segments back into their letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.errors import PatternmarkError
from patternmark.scanning import sizes
from patternmark.scanning.keyset import AMINO_ACIDS

_NO_OFFSETS = np.zeros(0, dtype=np.int64)


@cache
def kernels(name: str = "record_loops") -> Any:
    """Return a module of compiled loops; if numba is missing, say what to install."""
    try:
        return import_module(f"patternmark.scanning.{name}")  # numba is an extra
    except ImportError:
        raise PatternmarkError("scan needs numba: pip install 'patternmark[scan]'") from None


@dataclass(frozen=True, eq=False)
class Counted:
    """Records of a buffer and the counts of their segments; `record_loops` names the columns."""

    raw: NDArray[np.uint8]
    records: NDArray[np.int64]  # [R, columns]
    segments: NDArray[np.int64]  # [S, columns]
    counts: NDArray[np.int16]  # [S, 20]
    first: int = 0  # the number of the first record
    ids: Callable[[int], str] | None = None  # ids by record number; None: from FASTA headers

    def place(self, record: int) -> int:
        """Return where a record begins: its byte in FASTA, or its row in a column."""
        if self.ids is not None:
            return self.first + record
        return int(self.records[record, kernels().START])

    def name(self, record: int) -> str:
        """Return the id of a record; in FASTA it is the first word of the header."""
        if self.ids is not None:
            return self.ids(self.first + record)
        loops = kernels()
        row = self.records[record]
        head = bytes(self.raw[row[loops.START] + 1 : row[loops.HEAD_END]])
        words = head.split(None, 1)
        return words[0].decode("utf-8", "replace") if words else ""

    def texts(self, segments: Iterable[int]) -> Iterator[str]:
        """Yield the residues of segments. Fastest if segments of one record follow each other."""
        loops = kernels()
        kinds, _ = tables()
        is_none = (kinds >= loops.SKIPPED) | (kinds == loops.SEPARATOR)
        no_residues = bytes(np.flatnonzero(is_none).tolist())
        last, residues = -1, b""
        for segment in segments:
            number, place, size = self.segments[segment, : loops.SCORED].tolist()
            if number != last:  # a long record has many segments, but is read once
                record = self.records[number]
                body = self.raw[record[loops.HEAD_END] : record[loops.END]]
                last, residues = number, body.tobytes().translate(None, no_residues)
            yield residues[place : place + size].decode("ascii")


def letters_of(part: Counted) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the letters of all segments one after the other, and where each begins.

    A letter is its place in the Latin alphabet, 1 to 26; any other byte is 0.
    """
    loops = kernels()
    begins = np.concatenate([[0], np.cumsum(part.segments[:, loops.SIZE])]).astype(np.int64)
    letters = np.empty(begins[-1] + loops.SLACK, dtype=np.uint8)
    most = int(part.records[:, loops.RESIDUES].max(initial=0))
    loops.write_letters(
        part.raw,
        part.records,
        part.segments,
        tables()[0],
        np.empty(most + loops.SLACK, dtype=np.uint8),
        begins,
        letters,
    )
    return letters[: begins[-1]], begins


@cache
def tables() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what each byte means in a sequence, and the amino acid of each place, or -1.

    A place is the place of a letter in the Latin alphabet.
    """
    loops = kernels()
    kinds = np.full(256, loops.BAD, dtype=np.uint8)
    for byte in range(128):
        try:
            symbol = int(PROTEIN.encode(chr(byte))[0])
        except PatternmarkError:
            continue
        if symbol == SEPARATOR:
            kinds[byte] = loops.SEPARATOR
        elif PROTEIN.letters[symbol] in AMINO_ACIDS:
            kinds[byte] = byte & 31
        else:
            kinds[byte] = loops.UNKNOWN
    for byte in b" \t\r\n\v\f":
        kinds[byte] = loops.SKIPPED
    places = np.full(32, -1, dtype=np.int64)
    for number, letter in enumerate(AMINO_ACIDS):
        places[ord(letter) & 31] = number
    return kinds, places


def padded(content: bytes) -> NDArray[np.uint8]:
    """Return bytes followed by the padding that the compiled loops need."""
    raw = np.full(len(content) + kernels().SLACK, ord("\n"), dtype=np.uint8)
    raw[: len(content)] = np.frombuffer(content, dtype=np.uint8)
    return raw


def read_fasta(raw: NDArray[np.uint8], size: int) -> Iterator[Counted]:
    """Yield the records of raw[:size], some at a time. A record must begin at raw[0]."""
    loops = kernels()
    at, room = 0, sizes.BATCH_RECORDS
    while at < size:
        records, segments, counts = _arrays(sizes.BATCH_RECORDS, room)
        number, given, after = loops.read_sequences(
            raw, at, size, _NO_OFFSETS, *tables(), records, segments, counts
        )
        if after == at:
            room *= 4  # one record has more segments than there is room for
            continue
        at = after
        yield Counted(raw, records[:number], segments[:given], counts[:given])


def read_column(
    raw: NDArray[np.uint8], offsets: NDArray[np.int64], ids: Callable[[int], str]
) -> Iterator[Counted]:
    """Yield the records of a buffer that holds only sequences, some at a time."""
    loops = kernels()
    first, room = 0, sizes.BATCH_RECORDS
    while first < len(offsets) - 1:
        some = offsets[first : first + sizes.BATCH_RECORDS + 1]
        records, segments, counts = _arrays(len(some) - 1, room)
        number, given, _ = loops.read_sequences(
            raw, 0, 0, some, *tables(), records, segments, counts
        )
        if number == 0:
            room *= 4
            continue
        yield Counted(raw, records[:number], segments[:given], counts[:given], first, ids)
        first += number


def _arrays(records: int, segments: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return empty arrays for records, segments and their counts."""
    loops = kernels()
    segments += loops.ROOM
    return (
        np.empty((records, loops.RECORD_COLUMNS), dtype=np.int64),
        np.empty((segments, loops.SEGMENT_COLUMNS), dtype=np.int64),
        np.empty((segments, len(AMINO_ACIDS)), dtype=np.int16),
    )
