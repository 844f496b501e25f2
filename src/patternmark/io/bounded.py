"""Read what others made within limits, so that no file can fill the memory.

The limits are those of `scan`. A small compressed file can hold a thousand times its size, some
files never end (`/dev/zero`), and parsed JSON takes far more memory than its text. What is too
large is refused, or left out as one record, before it is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

LONGEST_RECORD = 2**27  # characters of a record, or bytes of a text; 128 MiB in ASCII
JSON_BYTES = 2**25  # of JSON: parsed, "[],[],..." takes 24 times as much memory
VOCABULARY_BYTES = 2**26  # of a tokenizer's file: the largest in use have 34 MB
_LINES_IN_MEMORY = 2**12  # short lines take 60 bytes each besides their letters
_DROPPED_AT_ONCE = 2**20  # characters of a line that is too long


class TooLargeError(ValueError):
    """A file has more bytes than its kind ever needs."""


def in_mib(size: int) -> str:
    """Return a limit for messages.

    >>> in_mib(LONGEST_RECORD)
    '128 MiB'
    """
    return f"{size >> 20} MiB"


def read_bytes(file: Path, most: int = JSON_BYTES) -> bytes:
    """Read a file of at most `most` bytes; a larger one raises `TooLargeError`."""
    with file.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise TooLargeError(f"it has more than {in_mib(most)}")
    return content


def read_text(file: Path, most: int = JSON_BYTES) -> str:
    """Read a UTF-8 file of at most `most` bytes; whatever else it is raises a `ValueError`."""
    text = read_bytes(file, most).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(file: Path, most: int = JSON_BYTES) -> Any:
    """Read a JSON file of at most `most` bytes; whatever is wrong raises a `ValueError`."""
    return parse_json(read_bytes(file, most))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; whatever is wrong with it raises a `ValueError` that says what."""
    try:
        # Left to itself, json takes bytes that are not UTF-8, such as halves of surrogate pairs.
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        reason = "it is nested too deeply"
    except MemoryError:
        reason = "it needs more memory than there is"
    except ValueError:  # of int()
        reason = "a number in it has thousands of digits"
    raise ValueError(reason)


class Line(NamedTuple):
    """A line of a text; if it was too long, only its beginning."""

    text: str
    is_cut: bool


def read_lines_within(stream: TextIO, most: int = LONGEST_RECORD) -> Iterator[Line]:
    """Yield lines with their ends; of a line of more than `most` characters the rest is dropped."""
    while line := stream.readline(most + 1):
        is_cut = len(line) > most
        if is_cut:
            end, line = line[-1], line[:most]
            while end and not end.endswith("\n"):
                end = stream.readline(_DROPPED_AT_ONCE)
        yield Line(line, is_cut)


class Gathered:
    """The lines of a record, joined. A record that is too long is not kept."""

    def __init__(self, joint: str = "") -> None:
        self._joint, self._lines = joint, list[str]()
        self._joined, self._size = list[str](), 0
        self.is_too_long = False

    def add(self, line: str, *, is_cut: bool = False) -> None:
        """Add a line."""
        self._size += len(line) + len(self._joint)
        if is_cut or self._size > LONGEST_RECORD:
            self.is_too_long = True
            self._lines, self._joined = [], []
        if self.is_too_long:
            return
        self._lines.append(line)
        if len(self._lines) == _LINES_IN_MEMORY:
            self._joined.append(self._joint.join(self._lines))
            self._lines = []

    def __bool__(self) -> bool:
        return bool(self._size)

    def text(self) -> str:
        """Return the lines as one text; of a record that is too long, nothing."""
        found, self._lines, self._joined = [*self._joined, *self._lines], [], []
        return self._joint.join(found)
