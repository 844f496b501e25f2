"""The arguments that the functions of the package share: sequences, keys, warnings and progress.

A `str` is one sequence: letters, or a text if the key is for text. A `Path` is a file. A flat list
of whole numbers is one sequence of token ids. A mapping maps ids to sequences; any other iterable
holds sequences or files. Results that have a sequence (`Recorded`) are read like records of a file.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.key import Key
from patternmark.core.keyfile import load_key
from patternmark.errors import ParameterError, PatternmarkWarning, SequenceError
from patternmark.io.designs import ChainMask
from patternmark.io.items import Item, RecordSource, Warn, mask_of_digits, read_items
from patternmark.io.manifest_use import VERIFY, ManifestUse
from patternmark.io.records import Record
from patternmark.io.shown import shown


class Recorded(ABC):
    """A result that other functions read as a sequence, with its id."""

    # Which residues of each chain were designed, if it is a design.
    chain_masks: tuple[ChainMask, ...] = ()

    @abstractmethod
    def as_record(self) -> Record:
        """Return the record that a file would hold."""


Sequence = str | list[int] | NDArray[np.integer[Any]] | Recorded
Given = Sequence | PathLike[str] | Mapping[str, Sequence] | Iterable[Any]


class KeyOfFile(NamedTuple):
    """A key that was loaded, with the path of its file."""

    key: Key
    file: Path


GivenKey = Key | KeyOfFile | PathLike[str] | str

# Called with the name of a step, how much of it is done, and the total if that is known.
Progress = Callable[[str, int, int | None], None]


class ReadOptions(TypedDict, total=False):
    """How records are read, and the functions to call with warnings and progress."""

    format: str
    tokenizer: Path | str | None
    manifest: str
    warn: Warn
    progress: Progress


def no_progress(what: str, done: int, total: int | None) -> None:
    """Ignore the progress."""


def warn_in_python(message: object) -> None:
    """Warn as Python does: `warnings.filterwarnings` can make it an error, or silence it."""
    warnings.warn(shown(message), PatternmarkWarning, stacklevel=2)


def key_of(key: GivenKey) -> Key:
    """Return a key with its secret."""
    return key_and_folder(key)[0]


def key_file_of(key: GivenKey | None) -> Path | None:
    """Return the file of a key, if it was given as one: the nonce counter lies beside it."""
    if isinstance(key, KeyOfFile):
        return key.file
    return None if key is None or isinstance(key, Key) else Path(key)


def key_and_folder(key: GivenKey) -> tuple[Key, Path | None]:
    """Return a key with its secret, and the folder of its file if it was given as a file."""
    if isinstance(key, Key):
        return key, None
    if isinstance(key, KeyOfFile):
        return key.key, key.file.parent
    file = Path(key)
    return load_key(file, with_secret=True), file.parent


def is_one(given: Given) -> TypeGuard[Sequence]:
    """Return whether one sequence was given, and not a file or many sequences."""
    if isinstance(given, str | Recorded):
        return True
    if hasattr(given, "ndim"):
        return bool(given.ndim == 1)
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Integral)


class Reader:
    """Reads what is given, for one alphabet; `keys` can vouch for manifests."""

    default_warn = staticmethod(warn_in_python)

    def __init__(
        self,
        alphabet: Alphabet,
        folder: Path | None,
        options: ReadOptions,
        keys: Iterable[Key] = (),
    ) -> None:
        tokenizer = options.get("tokenizer")
        file = None if tokenizer is None else Path(tokenizer)
        manifests = ManifestUse(options.get("manifest", VERIFY), keys)
        self.source = RecordSource(alphabet, options.get("format", "auto"), file, folder, manifests)
        self.warn = options.get("warn", self.default_warn)
        self.progress = options.get("progress", no_progress)

    def items(self, given: Given) -> Iterator[Item]:
        """Yield the records that were given."""
        return items_of(given, self.source, self.warn)


def items_of(given: Given, source: RecordSource, warn: Warn) -> Iterator[Item]:
    """Yield the records that were given.

    A bad record of a file is left out with a warning; a bad sequence that was passed directly
    raises an error.
    """
    for id, one in each_of(given):
        if isinstance(one, PathLike):
            yield from read_items([str(one)], source, warn)
        else:
            yield _item(one, id, source)


def each_of(given: Given) -> Iterator[tuple[str, Any]]:
    """Yield the sequences and files that were given, each with an id: its number, or its name."""
    if is_one(given) or isinstance(given, PathLike):
        yield "1", given
    elif isinstance(given, Mapping):
        yield from ((str(id), sequence) for id, sequence in given.items())
    else:
        for number, one in enumerate(cast(Iterable[Any], given), start=1):
            yield str(number), one


def record_of(sequence: Sequence, id: str) -> Record:
    """Return the record of a sequence that was passed directly."""
    if isinstance(sequence, Recorded):
        return sequence.as_record()
    if isinstance(sequence, str):
        return Record(id, sequence, f"sequence {id}")
    return Record(id, np.asarray(sequence).tolist(), f"sequence {id}")


def _item(sequence: Sequence, id: str, source: RecordSource) -> Item:
    """Read one sequence that was passed directly."""
    record = record_of(sequence, id)
    if isinstance(sequence, str):
        _check_no_file_name(sequence, source)
    try:
        symbols, folded = source.symbols(record.sequence)
    except SequenceError as error:
        raise SequenceError(f"sequence {record.id!r}: {error}") from None
    scored = None
    if isinstance(sequence, Recorded) and sequence.chain_masks:
        scored = mask_of_digits("".join(chain.scored for chain in sequence.chain_masks), symbols)
    return Item("", record, symbols, scored, folded=folded)


def _check_no_file_name(text: str, source: RecordSource) -> None:
    """Raise ParameterError for the name of a file, which would be judged as a sequence."""
    looks_like_path = "." in text and not any(c.isspace() for c in text) and len(text) < 1000
    if not (looks_like_path and Path(text).is_file()):
        return
    raise ParameterError(f"{text!r} is the name of a file: to read it give Path({text!r})")
