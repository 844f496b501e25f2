"""The keys that may have marked a sequence: those in a folder, or the sub-keys of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from patternmark.core.key import Key
from patternmark.core.keyfile import load_key
from patternmark.errors import InputError, KeyFileError, ParameterError
from patternmark.io.shown import shown


@dataclass(frozen=True)
class Candidate:
    """A key that may have marked the sequence, and where it comes from."""

    key: Key
    name: str
    file: str | None = None


def keys_of_folder(
    folder: Path, warn: Callable[[object], None], *, allow_open: bool = False
) -> list[Candidate]:
    """Load every key of a folder (*.key); `warn` is called for each that cannot be used."""
    if not folder.is_dir():
        raise InputError(f"{folder}: this folder does not exist")
    candidates: list[Candidate] = []
    file_of: dict[str, Path] = {}
    for file in sorted(folder.glob("*.key")):
        try:
            key = load_key(file, allow_open=allow_open, with_secret=True)
        except KeyFileError as error:
            warn(error)
            continue
        if key.key_id in file_of:
            warn(f"{file}: this key is the same as {file_of[key.key_id]}; it is counted once")
            continue
        file_of[key.key_id] = file
        candidates.append(Candidate(key, file.stem, str(file)))
    if not candidates:
        raise InputError(f"{folder}: contains no usable key file (*.key)")
    return candidates


def collect_key_errors(
    warn: Callable[[object], None], left_out: list[str]
) -> Callable[[object], None]:
    """Return a `warn` that also adds to `left_out` which key files cannot be used, and why."""

    def warn_and_collect(message: object) -> None:
        warn(message)
        if isinstance(message, KeyFileError):
            left_out.append(shown(message))

    return warn_and_collect


def sub_keys(master: Key, names: Iterable[str]) -> list[Candidate]:
    """Return the sub-keys of a key by their names."""
    candidates = [Candidate(master.derive(name), name) for name in names]
    if not candidates:
        raise ParameterError("no sub-key is named: give at least one name")
    return candidates
