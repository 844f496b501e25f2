"""Records as detectors are given them: read from files, turned into symbols of a key's alphabet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import SEPARATOR, Alphabet
from patternmark.errors import InputError, ParameterError, SequenceError
from patternmark.io import folding
from patternmark.io.designs import Manifest, manifest_path, read_manifest
from patternmark.io.records import FORMATS, Format, Problem, Record, input_name, read_records
from patternmark.io.tokenizer import Tokenizer, find_tokenizer
from patternmark.signature import joined

_OF_LETTERS, _OF_TEXT = ("fasta",), ("paragraphs", "text")
BATCH_SYMBOLS = 2**22

Warn = Callable[[object], None]  # says what does not stop the work

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Item:
    """A readable record: its symbols, and which of them count (None: all that can)."""

    file: str
    record: Record
    symbols: NDArray[np.int64]
    scored: NDArray[np.bool_] | None
    rates: NDArray[np.float64] | None = None  # what a model expects of each symbol: [levels, n]
    folded: Mapping[str, int] | None = None  # what of a text was folded; None: it is no text

    @property
    def place(self) -> str:
        return f"{self.record.place} ({self.record.id})"

    @property
    def facts(self) -> dict[str, Any]:
        """What JSON says of the record itself."""
        own = {} if self.folded is None else {"folded": dict(self.folded)}
        return {"file": self.file} | own

    @property
    def in_words(self) -> str:
        """What was folded, for people: nothing where nothing was."""
        return f"folded: {folding.describe(self.folded)}" if self.folded else ""

    def signed(self, signature: str) -> str:
        """Return the signature of a result with how this record was read."""
        return joined(signature, "" if self.folded is None else folding.SIGNATURE)


def signed_for_all(signature: str, items: Iterable[Item]) -> str:
    """Return the signature of a result on several records: text among them was folded."""
    of_text = (item for item in items if item.folded is not None)
    first = next(of_text, None)
    return signature if first is None else first.signed(signature)


class Symbols(NamedTuple):
    """The symbols of a record, and what of a text was folded."""

    ids: NDArray[np.int64]
    folded: Mapping[str, int] | None = None


class RecordSource:
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
            raise ParameterError(f"format={format!r} is not one of {', '.join(FORMATS)}")
        if format in (_OF_LETTERS if self.of_text else _OF_TEXT):
            raise ParameterError(f"format={format!r} cannot be used with a key for {alphabet.name}")
        if tokenizer is not None and not self.of_text:
            raise ParameterError(
                f"tokenizer=FILE needs a key made for a tokenizer; this key is for {alphabet.name}"
            )
        self.format = cast(Format, format)
        self._file = tokenizer
        if tokenizer is not None:
            _ = self.tokenizer  # one that does not fit the key is refused before anything is read

    @cached_property
    def tokenizer(self) -> Tokenizer:
        try:
            found = find_tokenizer(self.alphabet, self._file, self._beside)
        except ParameterError as error:
            raise ParameterError(f"{error} (give tokenizer=FILE)") from None
        _log.debug("text is read with %s", found.file)
        return found

    def symbols(self, sequence: str | ArrayLike) -> Symbols:
        """Return the symbols of a record, or say which of them does not fit."""
        if not (self.of_text and isinstance(sequence, str)):
            return Symbols(self.alphabet.encode(sequence))
        ids, folded = self.tokenizer.read(sequence)
        if not ids.size:
            raise SequenceError("the tokenizer finds no token in it")
        return Symbols(self.alphabet.encode(ids), folded.counts)

    def knows(self, record: Record) -> bool:
        """Whether a text is in a language that the tokenizer has words of; ids always are."""
        if not (self.of_text and isinstance(record.sequence, str)):
            return True
        return self.tokenizer.knows(folding.fold(record.sequence).text)

    def cuts(self, record: Record) -> NDArray[np.int64] | None:
        """Return where the tokens of a text begin in it, and its end; None for other records."""
        if not (self.of_text and isinstance(record.sequence, str)):
            return None
        return self.tokenizer.cuts_read(record.sequence)


def in_batches(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Group records: at most `most`, and at most `BATCH_SYMBOLS` symbols."""
    batch: list[Item] = []
    symbols = 0
    for item in items:
        batch.append(item)
        symbols += len(item.symbols)
        if len(batch) >= most or symbols >= BATCH_SYMBOLS:
            yield batch
            batch, symbols = [], 0
    if batch:
        yield batch


def read_items(files: Sequence[str], source: RecordSource, warn: Warn) -> Iterator[Item]:
    """Read records with what their manifests say; `warn` hears of those that cannot be used."""
    for file in files:
        name = input_name(file)
        foreign: list[str] = []
        texts = 0  # that a key for sequences cannot read
        for record, manifest in _records(file, source, warn):
            try:
                symbols, folded = source.symbols(record.sequence)
            except SequenceError as error:
                warn(Problem(name, f"{record.place} ({record.id})", f"{error}; not scored"))
                texts += not source.of_text and " " in record.sequence
                continue
            scored = _scored_by(manifest, record, symbols, name, warn)
            item = Item(name, record, symbols, scored, folded=folded)
            if not source.knows(record):
                foreign.append(item.place)
            yield item
        consequence = "It is judged anyway, but a mark is unlikely"
        warn_of_spelled_out(warn, name, foreign, source.alphabet.name, consequence)
        if texts:
            warn(
                f"{name}: this looks like text, and the key is for {source.alphabet.name}: give "
                "the key that the text was marked with"
            )


def warn_of_spelled_out(
    warn: Warn, file: str, places: Sequence[str], tokenizer: str, consequence: str
) -> None:
    """Name the texts in a language that a tokenizer was not made for, once for a file."""
    if places:
        others = f" and {len(places) - 1} more" if len(places) > 1 else ""
        message = (
            f"{tokenizer} spells most words out: the text seems to be in a language that this "
            f"tokenizer was not made for. {consequence}"
        )
        warn(Problem(file, places[0] + others, message, skipped=False))


def _records(
    file: str, source: RecordSource, warn: Warn
) -> Iterator[tuple[Record, Manifest | None]]:
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
    manifest: Manifest | None,
    record: Record,
    symbols: NDArray[np.int64],
    file: str,
    warn: Warn,
) -> NDArray[np.bool_] | None:
    """Turn a manifest's digits into a mask along the record, separators included."""
    if manifest is None or record.design is None:
        return None
    mask = mask_of_digits(manifest.scored_mask(record.design.name), symbols)
    if mask is None:
        message = "does not fit its manifest; all its residues are counted"
        warn(Problem(file, f"{record.place} ({record.id})", message, skipped=False))
    return mask


def mask_of_digits(digits: str | None, symbols: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Turn one digit for each residue into a mask along the record; None if they do not fit."""
    residues = symbols != SEPARATOR
    if digits is None or len(digits) != np.count_nonzero(residues):
        return None
    mask = np.zeros(len(symbols), dtype=bool)
    mask[residues] = [digit == "1" for digit in digits]
    return mask
