"""Records as detectors are given them: read from files, turned into symbols of a key's alphabet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import typer
from numpy.typing import NDArray

from patternmark.cli.output import warn
from patternmark.core.alphabet import SEPARATOR, Alphabet
from patternmark.errors import InputError, ParameterError, SequenceError
from patternmark.io.designs import Manifest, manifest_path, read_manifest
from patternmark.io.records import FORMATS, Format, Problem, Record, input_name, read_records
from patternmark.io.tokenizer import Tokenizer, find_tokenizer

InputFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"Input format: {', '.join(FORMATS)} (the last two are for text: a record is what "
        "stands between blank lines, or the whole file).",
    ),
]
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer",
        help="What turns text into the key's tokens; default: the package's or one beside the key.",
    ),
]

_OF_LETTERS, _OF_TEXT = ("fasta",), ("paragraphs", "text")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Item:
    """A readable record: its symbols, and which of them count (None: all that can)."""

    file: str
    record: Record
    symbols: NDArray[np.int64]
    scored: NDArray[np.bool_] | None
    rates: NDArray[np.float64] | None = None  # what a model expects of each symbol: [levels, n]

    @property
    def place(self) -> str:
        return f"{self.record.place} ({self.record.id})"


class Source:
    """How the records of a command are read: their format, and the alphabet of the key.

    With the alphabet of a tokenizer, text is read; the tokenizer is looked for when the first text
    comes, so that token ids need none.
    """

    def __init__(
        self,
        alphabet: Alphabet,
        format: str = "auto",
        tokenizer: Path | None = None,
        beside: Path | None = None,
    ) -> None:
        self.alphabet, self._beside = alphabet, beside
        self.of_text = not alphabet.letters
        if format not in FORMATS:
            raise ParameterError(f"--format is one of {', '.join(FORMATS)}, not {format!r}")
        if format in (_OF_LETTERS if self.of_text else _OF_TEXT):
            raise ParameterError(f"--format {format} does not go with a key for {alphabet.name}")
        if tokenizer is not None and not self.of_text:
            raise ParameterError(
                f"--tokenizer goes with the key of a tokenizer; this one is for {alphabet.name}"
            )
        self.format = cast(Format, format)
        self._file = tokenizer
        if tokenizer is not None:
            _ = self.tokenizer  # one that does not fit the key is refused before anything is read

    @cached_property
    def tokenizer(self) -> Tokenizer:
        found = find_tokenizer(self.alphabet, self._file, self._beside)
        _log.debug("text is read with %s", found.file)
        return found

    def symbols(self, sequence: str | list[int]) -> NDArray[np.int64]:
        """Return the symbols of a record, or say which of them does not fit."""
        if not (self.of_text and isinstance(sequence, str)):
            return self.alphabet.encode(sequence)
        ids = self.tokenizer.encode(sequence)
        if not ids.size:
            raise SequenceError("the tokenizer finds no token in it")
        return self.alphabet.encode(ids)

    def cuts(self, record: Record) -> NDArray[np.int64] | None:
        """Return where the tokens of a text begin in it, and its end; None for other records."""
        if not (self.of_text and isinstance(record.sequence, str)):
            return None
        return self.tokenizer.cuts(record.sequence)


def read_items(files: list[str], source: Source) -> Iterator[Item]:
    """Read records and what their manifests say of them; warn of those that cannot be used."""
    for file in files:
        name = input_name(file)
        for record, manifest in _records(file, source):
            try:
                symbols = source.symbols(record.sequence)
            except SequenceError as error:
                warn(Problem(name, f"{record.place} ({record.id})", f"{error}; not scored"))
                continue
            yield Item(name, record, symbols, _scored_by(manifest, record, symbols, name))


def _records(file: str, source: Source) -> Iterator[tuple[Record, Manifest | None]]:
    """Read the records of a file, each with its manifest; a file without any is warned of."""
    try:
        manifest = _manifest_of(file)
        for record in read_records(file, source.format, of_text=source.of_text):
            if isinstance(record, Problem):
                warn(record)
            else:
                yield record, manifest
    except InputError as error:
        warn(error)


def _manifest_of(file: str) -> Manifest | None:
    path = manifest_path(file)
    if file == "-" or not path.exists():
        return None
    manifest = read_manifest(path)
    _log.debug("%s: counting what %s says was designed", file, path)
    return manifest


def _scored_by(
    manifest: Manifest | None, record: Record, symbols: NDArray[np.int64], file: str
) -> NDArray[np.bool_] | None:
    """Turn a manifest's digits into a mask along the record, separators included."""
    if manifest is None or record.design is None:
        return None
    digits = manifest.scored_mask(record.design.name)
    residues = symbols != SEPARATOR
    if digits is None or len(digits) != np.count_nonzero(residues):
        message = "does not fit its manifest; all its residues are counted"
        warn(Problem(file, f"{record.place} ({record.id})", message, skipped=False))
        return None
    mask = np.zeros(len(symbols), dtype=bool)
    mask[residues] = [digit == "1" for digit in digits]
    return mask
