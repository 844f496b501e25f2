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
from typing import BinaryIO, Literal, TextIO, cast, get_args

from patternmark.errors import InputError

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


@dataclass(frozen=True)
class Problem:
    """Something wrong at one place of a file; a record that could not be used is `skipped`."""

    file: str
    place: str
    message: str
    skipped: bool = True

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.message}"


def read_records(path: str, format: Format = "auto") -> Iterator[Record | Problem]:
    """Yield records and problems of a file (`-` is standard input) in their order."""
    name = "standard input" if path == "-" else path
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
    raw = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))  # noqa: SIM115
    stream = cast(io.BufferedReader, raw)
    if stream.peek(2)[:2] == _GZIP_MAGIC:
        stream = cast(io.BufferedReader, stack.enter_context(gzip.GzipFile(fileobj=stream)))
    start = stream.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]
    text = io.TextIOWrapper(cast(BinaryIO, stream), encoding="utf-8-sig", errors="replace")
    stack.callback(text.detach)  # closing is the stack's business: standard input stays open
    return text, start


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
    for line in stream:
        if line.startswith(">"):
            if header is not None:
                yield _fasta_record(name, header, chunks, number)
            header, chunks, number = line[1:].strip(), [], number + 1
        elif header is not None:
            chunks.append(line)
        elif line.strip() and not line.startswith(";"):  # ';' begins an old style comment
            raise InputError(f"{name}: not FASTA: there is text before the first '>'")
    if header is None:
        raise InputError(f"{name}: no FASTA record found")
    yield _fasta_record(name, header, chunks, number)


def _fasta_record(name: str, header: str, chunks: list[str], number: int) -> Record | Problem:
    words = header.split()
    id = words[0] if words else f"record-{number}"
    place = f"record {number}"
    sequence = "".join("".join(chunks).split())  # blocks of ten are common: spaces mean nothing
    if not sequence:
        return Problem(name, f"{place} ({id})", "the record has no sequence")
    return Record(id, sequence, place)


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
            id = str(content.get("id", id))
            content = next((content[f] for f in _SEQUENCE_FIELDS if f in content), None)
        if _is_sequence(content):
            yield Record(id, content, place)
        else:
            fields = ", ".join(_SEQUENCE_FIELDS)
            yield Problem(
                name, place, f"no sequence: give a list of token ids or an object with {fields}"
            )


def _is_sequence(content: object) -> bool:
    if isinstance(content, list):
        return bool(content) and all(type(token) is int for token in content)
    return isinstance(content, str) and bool(content)


_PARSERS = {"fasta": _parse_fasta, "lines": _parse_lines, "jsonl": _parse_jsonl}
