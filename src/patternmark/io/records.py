"""Sequences from FASTA, lines or JSON lines, plain or gzipped, from a file or standard input.

One bad record never costs the others: it comes out as a :class:`Problem` with its file and place,
and reading goes on. Only a file that holds nothing to read raises an error.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, cast, get_args

from patternmark.errors import InputError
from patternmark.io.designs import DesignHeader, parse_design_header

Format = Literal["auto", "fasta", "lines", "jsonl"]
FORMATS: tuple[str, ...] = get_args(Format)

_FASTA_SUFFIXES = {".fa", ".fasta", ".faa", ".fas", ".fsa"}
_SEQUENCE_FIELDS = ("sequence", "tokens", "token_ids", "input_ids")
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SNIFFED_BYTES = 4096


@dataclass(frozen=True)
class Record:
    """One sequence: letters, or a list of token ids."""

    id: str
    sequence: str | list[int]
    place: str  # "record 3" or "line 3": where to find it in the file
    design: DesignHeader | None = None  # what the header of a design tool says


@dataclass(frozen=True)
class Problem:
    """Something wrong at one place of a file; a record that could not be used is `skipped`."""

    file: str
    place: str
    message: str
    skipped: bool = True

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.message}"


def input_name(path: str) -> str:
    """Return what messages call an input."""
    return "standard input" if path == "-" else path


def read_records(path: str, format: Format = "auto") -> Iterator[Record | Problem]:
    """Yield records and problems of a file (`-` is standard input) in their order."""
    name = input_name(path)
    last_place = ""
    seen: set[str] = set()
    with ExitStack() as stack:
        try:
            stream, start = _open_text(path, stack)
            _refuse_what_is_no_text(start, name)
            kind = _sniff(start, path, name) if format == "auto" else format
            for item in _PARSERS[kind](stream, name):
                yield item
                if isinstance(item, Record):
                    last_place = item.place
                    if item.id in seen:
                        message = f"the id {item.id!r} stands more than once"
                        yield Problem(name, item.place, message, skipped=False)
                    seen.add(item.id)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            place = f"after {last_place}" if last_place else "from the start"
            yield Problem(name, place, "the gzip data is damaged or ends early; the rest is lost")
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {error.strerror}") from None


def _open_text(path: str, stack: ExitStack) -> tuple[TextIO, bytes]:
    """Open a file for reading with its first bytes, unzipped where it is gzipped."""
    stream: BinaryIO = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))  # noqa: SIM115
    start = stream.read(len(_GZIP_MAGIC))
    stream = _Rejoined(start, stream).buffered()
    if start == _GZIP_MAGIC:
        stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream)))
    start = stream.read(_SNIFFED_BYTES)
    while start and not start.removeprefix(_BYTE_ORDER_MARK).strip():
        more = stream.read(_SNIFFED_BYTES)  # blank so far
        if not more:
            break
        start = more
    text = io.TextIOWrapper(
        _Rejoined(start, stream).buffered(), encoding="utf-8-sig", errors="replace"
    )
    return text, start


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were read already: they come out first."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start, self._rest = start, rest

    def buffered(self) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(self, _SNIFFED_BYTES))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start or self._rest.read(len(buffer))
        data, self._start = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _refuse_what_is_no_text(start: bytes, name: str) -> None:
    if b"\0" in start:
        raise InputError(f"{name}: this is a binary file; give FASTA, lines or JSON lines")
    if not start.removeprefix(_BYTE_ORDER_MARK).strip():
        raise InputError(f"{name}: the file is empty")


def _sniff(start: bytes, path: str, name: str) -> str:
    first = start.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1].decode("latin-1")
    if first in ">;":
        return "fasta"
    if first in "{[":
        return "jsonl"
    suffixes = Path(path.removesuffix(".gz")).suffixes
    if suffixes and suffixes[-1].lower() in _FASTA_SUFFIXES:
        raise InputError(
            f"{name}: not FASTA: it starts with {first!r} instead of '>' "
            "(for one sequence per line pass --format lines)"
        )
    return "lines"


def _parse_fasta(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    header: str | None = None
    chunks: list[str] = []
    number = 0
    backbone = ""  # the last native sequence of a design tool: its samples follow
    for line in stream:
        if line.startswith(">"):
            if header is not None:
                yield _fasta_record(name, header, chunks, number, backbone)
            header, chunks, number = line[1:].strip(), [], number + 1
            design = parse_design_header(header, backbone)
            backbone = design.name if design else backbone
        elif header is not None:
            chunks.append(line)
        elif line.strip() and not line.startswith(";"):  # ';' begins an old style comment
            raise InputError(f"{name}: not FASTA: there is text before the first '>'")
    if header is None:
        raise InputError(f"{name}: no FASTA record found")
    yield _fasta_record(name, header, chunks, number, backbone)


def _fasta_record(
    name: str, header: str, chunks: list[str], number: int, backbone: str
) -> Record | Problem:
    words = header.split()
    design = parse_design_header(header, backbone)
    id = _printable(design.id if design else words[0] if words else f"record-{number}")
    place = f"record {number}"
    sequence = "".join("".join(chunks).split())  # blocks of ten are common: spaces mean nothing
    if not sequence:
        return Problem(name, f"{place} ({id})", "the record has no sequence")
    return Record(id, sequence, place, design)


def _parse_lines(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    for number, line in enumerate(stream, start=1):
        if sequence := line.strip():
            yield Record(f"line-{number}", sequence, f"line {number}")


def _parse_jsonl(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            yield Problem(name, place, "not valid JSON")
            continue
        id = f"line-{number}"
        if isinstance(content, dict):
            id = _printable(str(content.get("id", id)))
            content = next((content[f] for f in _SEQUENCE_FIELDS if f in content), None)
        if _is_sequence(content):
            yield Record(id, content, place)
        else:
            fields = ", ".join(_SEQUENCE_FIELDS)
            yield Problem(
                name, place, f"no sequence: give a list of token ids or an object with {fields}"
            )


def _printable(id: str) -> str:
    """Make an id safe for a terminal."""
    return "".join(c if c.isprintable() else "?" for c in id)


def _is_sequence(content: object) -> bool:
    if isinstance(content, list):
        return bool(content) and all(type(token) is int for token in content)
    return isinstance(content, str) and bool(content)


_PARSERS = {"fasta": _parse_fasta, "lines": _parse_lines, "jsonl": _parse_jsonl}
