"""Records that are attacked: proteins or texts, from files or of a caller, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.errors import InputError, SequenceError
from patternmark.io.items import Warn
from patternmark.io.lines import read_lines
from patternmark.io.records import Problem, Record, input_name, read_records


class Unit(NamedTuple):
    """A record to attack; one that stands on a line of its own has that line's number."""

    id: str
    sequence: Any  # ids of PROTEIN, a text, or what the worker wants
    line: int | None = None


class Outcome(NamedTuple):
    """What became of a record, before and after; `facts` are for it alone."""

    before: NDArray[np.int64] | str
    after: NDArray[np.int64] | str
    facts: dict[str, Any] | None = None


def letters_of(sequence: NDArray[np.int64] | str) -> str:
    """Return a text, or the letters of a protein with `/` between chains."""
    if isinstance(sequence, str):
        return sequence
    return "".join("/" if i == SEPARATOR else PROTEIN.letters[i] for i in sequence)


def looks_like_fasta(file: Path) -> bool:
    """Judge by the first character that is not blank."""
    if file.suffix == ".gz":
        return True
    try:
        with file.open("rb") as stream:
            return stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b">", b";")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None


def text_units(file: Path, warn: Warn) -> Iterator[Unit]:
    """Read a text from each line; empty ones stay."""
    for number, line in enumerate(read_lines(file, "it is left empty", warn), start=1):
        yield Unit(f"line-{number}", line, number)


def protein_units(file: Path, warn: Warn) -> Iterator[Unit]:
    """Read proteins from FASTA or lines; `warn` hears of records that are none."""
    name = input_name(str(file))
    for record in read_records(str(file)):
        if isinstance(record, Problem):
            warn(record)
            continue
        try:
            symbols = PROTEIN.encode(record.sequence)
        except SequenceError as error:
            warn(Problem(name, f"{record.place} ({record.id})", f"{error}; left out"))
            continue
        yield Unit(record.id, symbols, line_of(record, name))


def line_of(record: Record, file: str) -> int | None:
    """Return the line of a file that a record stands on; None for FASTA and without a file."""
    kind, _, number = record.place.partition(" ")
    if kind != "line" or not file:
        return None
    if record.id != f"line-{number}" or not isinstance(record.sequence, str):
        raise InputError(f"{file}: JSON is not attacked: give FASTA, or a sequence on each line")
    return int(number)


def read_host(file: Path, warn: Warn) -> NDArray[np.int64]:
    """Read natural sequences to splice into, one after the other."""
    found = [unit.sequence[unit.sequence != SEPARATOR] for unit in protein_units(file, warn)]
    if not found:
        raise InputError(f"{file}: contains no protein to splice into")
    return np.concatenate(found)
