"""`identify`: find the key that marked a sequence. `locate`: find where the mark lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, overload

from patternmark.api.given import (
    Given,
    GivenKey,
    Progress,
    Reader,
    ReadOptions,
    is_one,
    key_and_folder,
    no_progress,
)
from patternmark.api.given import Sequence as OneSequence
from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.errors import ParameterError, SequenceError
from patternmark.evidence import DEFAULT_FPR
from patternmark.fast.compiled import repeated
from patternmark.io.dna import looks_like_dna
from patternmark.io.items import Item, RecordSource, Warn, in_batches
from patternmark.io.records import Problem
from patternmark.results import LN10, Result, Results, Status, cells_of, p_value_of
from patternmark.search.candidates import Candidate, keys_of_folder
from patternmark.search.identify import Identification, Identifier
from patternmark.search.locate import Located, Locator, num_residues

BATCH_RECORDS = 32  # searched together
BATCH_TO_LOCATE = 64  # read together: their number decides whether compiled loops are used
GivenKeys = str | PathLike[str] | Mapping[str, Key] | Iterable[Key | PathLike[str]]


def candidates_of(keys: GivenKeys, warn: Warn) -> tuple[list[Candidate], Path | None]:
    """Return the keys that were given, and the folder of their files if there is one."""
    if isinstance(keys, str | PathLike):
        folder = Path(keys)
        return keys_of_folder(folder, warn), folder
    if isinstance(keys, Mapping):
        return [Candidate(key, name) for name, key in keys.items()], None
    candidates, folders = [], set()
    for given in keys:
        key, beside = key_and_folder(given)
        if beside is None:
            candidates.append(Candidate(key, key.key_id))
        else:
            candidates.append(Candidate(key, Path(given).stem, str(given)))  # type: ignore[arg-type]
            folders.add(beside)
    return candidates, folders.pop() if len(folders) == 1 else None


def identify_items(
    search: Identifier, items: Iterable[Item], progress: Progress = no_progress
) -> Iterator[tuple[Item, Identification]]:
    """Yield records with their best keys, one batch after another."""
    remaining = list(items)
    search.progress = lambda done, keys: progress("searching thoroughly", done, keys)
    for at in range(0, len(remaining), BATCH_RECORDS):
        some = remaining[at : at + BATCH_RECORDS]
        found = search.identify(
            [item.symbols for item in some],
            [item.record.id for item in some],
            [item.scored for item in some],
        )
        for item, one in zip(some, found, strict=True):
            yield item, replace(one, signature=item.signed(one.signature))
        progress("identifying sequences", at + len(some), len(remaining))


@overload
def identify(  # type: ignore[overload-overlap]  # a str is many letters, and yet one sequence
    records: OneSequence,
    keys: GivenKeys,
    *,
    fpr: float = DEFAULT_FPR,
    **options: Unpack[ReadOptions],
) -> Identification: ...
@overload
def identify(
    records: Given, keys: GivenKeys, *, fpr: float = DEFAULT_FPR, **options: Unpack[ReadOptions]
) -> Results[Identification]: ...
def identify(
    records: Given, keys: GivenKeys, *, fpr: float = DEFAULT_FPR, **options: Unpack[ReadOptions]
) -> Identification | Results[Identification]:
    """Find out which of many keys marked each sequence.

    `keys` is a folder of key files, a mapping from names to keys, or keys and key files. P-values
    are corrected for the number of keys. `records` and the options are those of `detect`.

    >>> import patternmark as pm
    >>> key = pm.Key.generate(pm.Profile())
    >>> keys = {name: key.derive(name) for name in ("team-1", "team-2")}
    >>> pm.identify("MKTAYIAKQR", keys).prediction
    False
    """
    warn = options.get("warn")
    candidates, folder = candidates_of(keys, warn or Reader.default_warn)
    search = Identifier(candidates, fpr=fpr)
    keys_given = (candidate.key for candidate in candidates)
    reader = Reader(search.alphabet, folder, options, keys_given)
    if search.caution:
        reader.warn(f"{search.caution}. Confirm a key with detect(..., rank=True)")
    pairs = identify_items(search, reader.items(records), reader.progress)
    found = Results(one for _, one in pairs)
    return found[0] if is_one(records) else found


@dataclass(frozen=True, repr=False, eq=False)
class Location(Result):
    """The marked segments of one record. For a text, `characters` has their places in it."""

    id: str
    length: int
    kind: str  # "dna", or the name of the alphabet
    located: Located
    characters: tuple[tuple[int, int], ...] | None
    fpr: float
    key_id: str
    signature: str

    @property
    def segments(self) -> tuple[Any, ...]:
        """The marked segments, strongest first."""
        return self.located.segments

    @property
    def prediction(self) -> bool:
        """Whether there is a marked segment."""
        return bool(self.located.segments)

    @property
    def status(self) -> Status:
        """The result for the record in one word."""
        if self.prediction:
            return Status.MARKED
        return Status.NO_MARK if self.located.num_tokens_scored else Status.NOTHING_TO_SCORE

    @property
    def p_value(self) -> float:
        """The p-value of the first search, corrected for the frames of DNA."""
        return p_value_of(self.located.log_p)

    @property
    def log10_p(self) -> float:
        return self.located.log_p / LN10 + 0.0  # never minus zero

    @property
    def p_any(self) -> None:
        """None: segments have no such p-value; judge the whole sequence with `detect`."""

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as plain values for JSON."""
        segments = [segment.to_dict() for segment in self.segments]
        for segment, characters in zip(segments, self.characters or (), strict=False):
            segment["characters"] = list(characters)
        return {
            "id": self.id,
            "length": self.length,
            "num_tokens_scored": self.located.num_tokens_scored,
            "kind": self.kind,
            "frames": 6 if self.kind == DNA else 1,
            "prediction": self.prediction,
            "status": self.status,
            "p_value": self.p_value,
            "log10_p": self.log10_p,
            "segments": segments,
            "fpr": self.fpr,
            "key_id": self.key_id,
            "signature": self.signature,
        }

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        places = ", ".join(f"{one.start + 1}-{one.end}" for one in self.segments)
        return cells_of(self, self.id, segments=places, key=self.key_id)


DNA = "dna"


class Locating:
    """Finds the marked segments of records by one key."""

    def __init__(
        self, key: Key, fpr: float, source: RecordSource, warn: Warn, dna: bool | None
    ) -> None:
        if dna and key.profile.alphabet != PROTEIN:
            raise ParameterError("dna=True needs a key for proteins")
        self.search, self._source, self._warn, self._dna = Locator(key, fpr=fpr), source, warn, dna

    def locations(
        self, items: Iterable[Item], progress: Progress = no_progress
    ) -> Iterator[tuple[Item, Location]]:
        """Yield records with their segments; those that cannot be searched cause warnings."""
        done = 0
        for batch in in_batches(items, BATCH_TO_LOCATE):
            with repeated(len(batch)):
                found = [(item, self._location(item)) for item in batch]
            done += len(batch)
            progress("locating", done, None)
            yield from ((item, location) for item, location in found if location is not None)

    def _location(self, item: Item) -> Location | None:
        search, is_dna = self.search, self._is_dna(item)
        try:
            if is_dna:
                located = search.in_dna(str(item.record.sequence))
            else:
                located = search.in_protein(item.symbols, item.scored)
        except SequenceError as error:
            self._warn(Problem(item.file, item.place, f"{error}; it is not searched"))
            return None
        if located.num_tokens_scored == 0:
            message = "nothing to score: no symbol carries a key"
            self._warn(Problem(item.file, item.place, message))
        return Location(
            id=item.record.id,
            length=num_residues(item.symbols),
            kind=DNA if is_dna else search.key.profile.alphabet.name,
            located=located,
            characters=self._characters(item, located),
            fpr=search.fpr,
            key_id=search.key.key_id,
            signature=item.signed(located.signature),
        )

    def _is_dna(self, item: Item) -> bool:
        sequence = item.record.sequence
        if self.search.key.profile.alphabet != PROTEIN or not isinstance(sequence, str):
            return False
        return looks_like_dna(sequence) if self._dna is None else self._dna

    def _characters(self, item: Item, located: Located) -> tuple[tuple[int, int], ...] | None:
        """Return the segments of a text in characters instead of tokens, from 0, half-open."""
        cuts = self._source.cuts(item.record) if located.segments else None
        if cuts is None:
            return None
        return tuple((int(cuts[one.start]), int(cuts[one.end])) for one in located.segments)


@overload
def locate(  # type: ignore[overload-overlap]  # a str is many letters, and yet one sequence
    records: OneSequence,
    key: GivenKey,
    *,
    fpr: float = DEFAULT_FPR,
    dna: bool | None = None,
    **options: Unpack[ReadOptions],
) -> Location: ...
@overload
def locate(
    records: Given,
    key: GivenKey,
    *,
    fpr: float = DEFAULT_FPR,
    dna: bool | None = None,
    **options: Unpack[ReadOptions],
) -> Results[Location]: ...
def locate(
    records: Given,
    key: GivenKey,
    *,
    fpr: float = DEFAULT_FPR,
    dna: bool | None = None,
    **options: Unpack[ReadOptions],
) -> Location | Results[Location]:
    """Find the marked segments of sequences; DNA and RNA are read in six frames.

    `dna` says whether the letters are DNA or RNA; None: guess. `records`, `key` and the options
    are those of `detect`.

    >>> import patternmark as pm
    >>> key = pm.Key.generate(pm.Profile())
    >>> pm.locate("MKTAYIAKQR", key).segments
    ()
    """
    loaded, folder = key_and_folder(key)
    reader = Reader(loaded.profile.alphabet, folder, options, [loaded])
    locating = Locating(loaded, fpr, reader.source, reader.warn, dna)
    pairs = locating.locations(reader.items(records), reader.progress)
    found = Results(one for _, one in pairs)
    return found[0] if is_one(records) else found
