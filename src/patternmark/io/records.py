"""Read sequences from FASTA, lines, text or JSON lines, plain or gzipped, or from standard input.

A bad record does not stop reading: it becomes a :class:`Problem` with its file and place. Only a
file without any record raises an error. A record of more than 128 MiB is such a problem: it is left
out, and the next ones are read. So no file, however much it unpacks to, fills the memory.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, cast, get_args

from patternmark.errors import InputError
from patternmark.io.bounded import (
    JSON_BYTES,
    LONGEST_RECORD,
    Gathered,
    in_mib,
    parse_json,
    read_lines_within,
)
from patternmark.io.designs import DesignHeader, parse_design_header
from patternmark.io.first_bytes import (
    BYTE_ORDER_MARK,
    GZIP_MAGIC,
    looks_like_fasta,
    refuse_what_is_no_text,
)
from patternmark.io.shown import printable

Format = Literal["auto", "fasta", "lines", "jsonl", "paragraphs", "text"]
FORMATS: tuple[str, ...] = get_args(Format)

_FASTA_SUFFIXES = {".fa", ".fasta", ".faa", ".fas", ".fsa"}
_JSON_SUFFIXES = {".json", ".jsonl", ".ndjson"}
_SEQUENCE_FIELDS = ("sequence", "tokens", "token_ids", "input_ids", "text")
_AS_TEXT = (
    "this looks like FASTA, and the key is for text: every line is read as a text; give the key "
    "that the sequences were marked with"
)
_SNIFFED_BYTES = 4096
_DAMAGES = (EOFError, gzip.BadGzipFile, zlib.error)  # of gzip data
_HEADER = 2**16  # characters of a FASTA header that are read: its id and facts stand at the front
_TEXT_AT_ONCE = 2**20  # characters
_BLANKS = dict.fromkeys(code for code in range(0x3001) if chr(code).isspace())  # to be removed
# The beginning of a line of JSON whose end is not read: an object with a name, or only numbers.
_BEGINS_JSON = re.compile(rb'\s*(\{\s*"\w+"\s*:.*|\[[\d\s,]*)', re.DOTALL)


@dataclass(frozen=True)
class Record:
    """One sequence: letters, text, or a list of token ids."""

    id: str
    sequence: str | list[int]
    place: str  # "record 3" or "line 3": its place in the file
    design: DesignHeader | None = None  # the facts in the header of a design tool


@dataclass(frozen=True)
class Problem:
    """An error at one place of a file; if the record could not be used, it is `skipped`."""

    file: str
    place: str
    message: str
    skipped: bool = True

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.message}"


def input_name(path: str) -> str:
    """Return the name of an input for messages."""
    return "standard input" if path == "-" else path


def read_records(
    path: str, format: Format = "auto", *, of_text: bool = False
) -> Iterator[Record | Problem]:
    """Yield the records and problems of a file (`-` is standard input) in order.

    `of_text` means that records are texts, not proteins: FASTA is not recognised, and each text is
    normalised, because copying can change its code points.
    """
    name = input_name(path)
    last_place = ""
    seen: set[str] = set()
    with ExitStack() as stack:
        try:
            # In a text, bytes that are not UTF-8 must be reported. In a protein, their replacement
            # character is reported because it is not a letter.
            stream, start = _open_text(path, stack, "surrogateescape" if of_text else "replace")
            refuse_what_is_no_text(start, name, of_text=of_text)
            if not start.removeprefix(BYTE_ORDER_MARK).strip():
                raise InputError(f"{name}: the file is empty")
            if of_text and looks_like_fasta(start):
                yield Problem(name, "line 1", _AS_TEXT, skipped=False)
            sniff = _sniff_text if of_text else _sniff
            kind = sniff(start, path, name) if format == "auto" else format
            for item in _PARSERS[kind](stream, name):
                found = _normalise(item, name) if of_text and isinstance(item, Record) else item
                yield found
                if isinstance(found, Record):
                    last_place = found.place
                    if found.id in seen:
                        message = f"the id {found.id!r} occurs more than once"
                        yield Problem(name, found.place, message, skipped=False)
                    seen.add(found.id)
        except _DAMAGES:
            place = f"after {last_place}" if last_place else "from the start"
            yield Problem(name, place, "the gzip data is damaged or ends early: the rest is lost")
        except OSError as error:
            raise InputError(f"{name}: cannot be read: {error.strerror}") from None


def _open_text(path: str, stack: ExitStack, errors: str) -> tuple[TextIO, bytes]:
    """Open a file, decompressed if it is gzipped; return it and its first bytes."""
    stream: BinaryIO = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))  # noqa: SIM115
    start = stream.read(len(GZIP_MAGIC))
    stream = _Rejoined(start, stream).buffered()
    if start == GZIP_MAGIC:
        stream = cast(BinaryIO, _Unpacked(stack.enter_context(gzip.GzipFile(fileobj=stream))))
    start = stream.read(_SNIFFED_BYTES)
    while start and not start.removeprefix(BYTE_ORDER_MARK).strip():
        more = stream.read(_SNIFFED_BYTES)  # blank so far
        if not more:
            break
        start = more
    text = io.TextIOWrapper(
        _Rejoined(start, stream).buffered(), encoding="utf-8-sig", errors=errors
    )
    return text, start


class _Unpacked:
    """A gzipped stream that returns all bytes before a damage, and raises the error only then."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._damage: Exception | None = None

    def read(self, size: int) -> bytes:
        """Read some bytes; fewer at the end or before a damage."""
        found = b""
        while len(found) < size and self._damage is None:
            try:
                more = self._stream.read1(size - len(found))  # `read` would lose its beginning
            except _DAMAGES as error:
                self._damage = error
                break
            if not more:
                break
            found += more
        if self._damage is not None and not found:
            raise self._damage
        return found


class _Rejoined(io.RawIOBase):
    """A stream that returns bytes that were already read, and then the rest."""

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


def _sniff(start: bytes, path: str, name: str) -> str:
    first = start.removeprefix(BYTE_ORDER_MARK).lstrip()[:1].decode("latin-1")
    if first in ">;":
        return "fasta"
    if first in "{[":
        return "jsonl"
    suffixes = Path(path.removesuffix(".gz")).suffixes
    if suffixes and suffixes[-1].lower() in _FASTA_SUFFIXES:
        raise InputError(
            f"{name}: not FASTA: it starts with {first!r} instead of '>' "
            "(if it has one sequence per line, give format='lines')"
        )
    return "lines"


def _sniff_text(start: bytes, path: str, name: str) -> str:
    """Return the format of a text file: JSON if its suffix says so or if every line is JSON."""
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    lines = start.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    *whole, last = lines if len(start) >= _SNIFFED_BYTES else [*lines, b""]
    is_json = all(_is_json_record(line) for line in whole if line.strip())
    if suffix in _JSON_SUFFIXES or (is_json and (not last or _BEGINS_JSON.fullmatch(last))):
        return "jsonl"
    return "lines"


def _is_json_record(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict | list)
    except ValueError:
        return False


def _normalise(record: Record, name: str) -> Record | Problem:
    """Undo changes by copying: other code points for a character, blanks at the ends."""
    if not isinstance(record.sequence, str):
        return record
    try:
        record.sequence.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"character {error.start + 1} is not valid UTF-8; save the text as UTF-8"
        return Problem(name, record.place, message)
    text = unicodedata.normalize("NFC", record.sequence).strip()
    return replace(record, sequence=text) if text else Problem(name, record.place, "it is empty")


def _parse_fasta(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    header: str | None = None
    letters = Gathered()
    number = 0
    backbone = ""  # the name in the last native record of a design tool, before its samples
    for line, is_cut in read_lines_within(stream):
        if line.startswith(">"):
            if header is not None:
                yield _fasta_record(name, header, letters, number, backbone)
            header, letters, number = line[1:_HEADER].strip(), Gathered(), number + 1
            design = parse_design_header(header, backbone)
            backbone = design.name if design else backbone
        elif header is not None:
            letters.add(line, is_cut=is_cut)
        elif line.strip() and not line.startswith(";"):  # ';' begins an old-style comment
            raise InputError(f"{name}: not FASTA: there is text before the first '>'")
    if header is None:
        raise InputError(f"{name}: no FASTA record found")
    yield _fasta_record(name, header, letters, number, backbone)


def _fasta_record(
    name: str, header: str, letters: Gathered, number: int, backbone: str
) -> Record | Problem:
    words = header.split(maxsplit=1)
    design = parse_design_header(header, backbone)
    id = printable(design.id if design else words[0] if words else f"record-{number}")
    place = f"record {number}"
    if letters.is_too_long:
        return _too_long(name, f"{place} ({id})")
    sequence = letters.text().translate(_BLANKS)  # blanks are ignored: blocks of ten are common
    if not sequence:
        return Problem(name, f"{place} ({id})", "the record has no sequence")
    return Record(id, sequence, place, design)


def _too_long(name: str, place: str, most: int = LONGEST_RECORD) -> Problem:
    return Problem(name, place, f"has more than {in_mib(most)} and is left out: split it")


def _parse_lines(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    for number, (line, is_cut) in enumerate(read_lines_within(stream), start=1):
        if is_cut:
            yield _too_long(name, f"line {number}")
        elif sequence := line.strip():
            yield Record(f"line-{number}", sequence, f"line {number}")


def _parse_paragraphs(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    """Read paragraphs between blank lines; line breaks within them become blanks."""
    lines = Gathered(" ")
    first = 0
    for number, (line, is_cut) in enumerate(read_lines_within(stream), start=1):
        if line.strip() or is_cut:
            first = first if lines else number
            lines.add(line.strip(), is_cut=is_cut)
        elif lines:
            yield _paragraph(name, first, lines)
            lines = Gathered(" ")
    if lines:
        yield _paragraph(name, first, lines)


def _paragraph(name: str, first: int, lines: Gathered) -> Record | Problem:
    if lines.is_too_long:
        return _too_long(name, f"line {first}")
    return Record(f"line-{first}", lines.text(), f"line {first}")


def _parse_text(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    """Read the whole file as one record."""
    id = "text" if name == input_name("-") else Path(name).name
    text = Gathered()
    # Little by little: a stream that is asked for much takes that much memory for a small file.
    while not text.is_too_long and (part := stream.read(_TEXT_AT_ONCE)):
        text.add(part)
    if text.is_too_long:
        yield _too_long(name, "the text")
    else:
        yield Record(printable(id), text.text(), "the text")


def _parse_jsonl(stream: TextIO, name: str) -> Iterator[Record | Problem]:
    for number, (line, is_cut) in enumerate(read_lines_within(stream, JSON_BYTES), start=1):
        if is_cut:
            yield _too_long(name, f"line {number}", JSON_BYTES)
            continue
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            content = parse_json(line)
        except ValueError:
            yield Problem(name, place, "not valid JSON")
            continue
        id = f"line-{number}"
        if isinstance(content, dict):
            id = printable(str(content.get("id", id)))
            values = (content[field] for field in _SEQUENCE_FIELDS if field in content)
            content = next((value for value in values if _is_sequence(value)), None)
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


_PARSERS = {
    "fasta": _parse_fasta,
    "lines": _parse_lines,
    "jsonl": _parse_jsonl,
    "paragraphs": _parse_paragraphs,
    "text": _parse_text,
}
