"""Text line by line, in and out: the output has a line for every line of the input."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from patternmark.errors import InputError, ParameterError
from patternmark.io.bounded import LONGEST_RECORD, TooLargeError, in_mib, read_bytes
from patternmark.io.first_bytes import (
    BYTE_ORDER_MARK,
    GZIP_MAGIC,
    looks_like_fasta,
    refuse_what_is_no_text,
)
from patternmark.io.items import Warn
from patternmark.io.records import Problem, input_name

_FIRST_BYTES = 4096


def refuse_own_input(input: Path, output: Path) -> None:
    """Refuse to write over what is read."""
    if input.exists() and output.exists() and output.samefile(input):
        raise ParameterError(f"{output}: is the input file: choose another output=FILE")


def read_lines(file: Path, consequence: str, warn: Warn) -> list[str]:
    """Read lines; those that are not UTF-8 are reported and left empty, so that lines stay aligned.

    `consequence` says what becomes of such a line.
    """
    name = input_name(str(file))
    try:
        is_stdin = str(file) == "-"
        content = (
            sys.stdin.buffer.read(LONGEST_RECORD + 1)
            if is_stdin
            else read_bytes(file, LONGEST_RECORD)
        )
        if len(content) > LONGEST_RECORD:
            raise TooLargeError
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except TooLargeError:
        limit = in_mib(LONGEST_RECORD)
        raise InputError(f"{name}: has more than {limit}: split it, and give the parts") from None
    start = content[:_FIRST_BYTES]
    if start.startswith(GZIP_MAGIC):
        raise InputError(f"{name}: this is gzipped; unpack it first, for example with gunzip")
    refuse_what_is_no_text(start, name, of_text=True)
    if looks_like_fasta(start):
        message = "this looks like FASTA; its lines are read as text"
        warn(Problem(name, "line 1", message, skipped=False))
    lines = []
    rows = io.BytesIO(content.removeprefix(BYTE_ORDER_MARK))  # not a list: it may be of blank lines
    for number, row in enumerate(rows, start=1):
        try:
            # What else breaks lines (a form feed, say) must not do so in the output.
            lines.append(" ".join(row.decode("utf-8").split()))
        except UnicodeDecodeError:
            lines.append("")
            message = f"not UTF-8: {consequence}; save the text as UTF-8"
            warn(Problem(name, f"line {number}", message))
    if not any(lines):
        raise InputError(f"{name}: contains no text")
    return lines


def kept_lines(output: Path, *, overwrite: bool, resume: bool) -> list[str]:
    """Return the lines of the output that stay; refuse to overwrite it unasked."""
    if overwrite and resume:
        raise ParameterError("give overwrite=True or resume=True, not both")
    if str(output) == "-" or not output.exists() or overwrite:
        return []
    if not resume:
        raise InputError(
            f"{output}: already exists: use overwrite=True to replace it, or resume=True to "
            "continue it"
        )
    try:
        content = read_bytes(output, 2 * LONGEST_RECORD)  # it may be longer than its input
        whole = content[: content.rfind(b"\n") + 1]  # a stop may have cut the last line
        if len(whole) < len(content):
            output.write_bytes(whole)
    except OSError as error:
        raise InputError(f"{output}: cannot be continued: {error.strerror}") from None
    except TooLargeError as error:
        raise InputError(f"{output}: cannot be continued: {error}") from None
    return whole.decode("utf-8", errors="ignore").split("\n")[:-1]


@contextmanager
def writing(output: Path, *, append: bool) -> Iterator[BinaryIO]:
    """Open the output for bytes: they are UTF-8 whatever a terminal or a system is set to."""
    try:
        if str(output) == "-":
            yield sys.stdout.buffer
        else:
            with output.open("ab" if append else "wb") as stream:
                yield stream
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None
