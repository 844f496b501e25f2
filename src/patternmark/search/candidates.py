"""The keys that may have marked a sequence: of a folder, or the sub-keys of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from patternmark.core.key import Key
from patternmark.core.keyfile import load_key
from patternmark.errors import InputError, KeyFileError, ParameterError


@dataclass(frozen=True)
class Candidate:
    """A key that may have marked the sequence, and where it comes from."""

    key: Key
    name: str
    file: str | None = None


def keys_of_folder(
    folder: Path, warn: Callable[[object], None], *, allow_open: bool = False
) -> list[Candidate]:
    """Load every key of a folder (*.key); `warn` hears of those that cannot be used."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    candidates: list[Candidate] = []
    file_of: dict[str, Path] = {}
    for file in sorted(folder.glob("*.key")):
        try:
            key = load_key(file, allow_open=allow_open, with_secret=True)
        except KeyFileError as error:
            warn(error)
            continue
        if key.key_id in file_of:
            warn(f"{file}: the same key as {file_of[key.key_id]}; counted once")
            continue
        file_of[key.key_id] = file
        candidates.append(Candidate(key, file.stem, str(file)))
    if not candidates:
        raise InputError(f"{folder}: contains no key file (*.key) that can be used")
    return candidates


def noting_key_files(
    warn: Callable[[object], None], left_out: list[str]
) -> Callable[[object], None]:
    """Return a `warn` that also notes in `left_out` which key files cannot be used, and why."""

    def hear(message: object) -> None:
        warn(message)
        if isinstance(message, KeyFileError):
            left_out.append(str(message))

    return hear


def sub_keys(master: Key, names: Iterable[str]) -> list[Candidate]:
    """Return the sub-keys of a key that have these names."""
    candidates = [Candidate(master.derive(name), name) for name in names]
    if not candidates:
        raise ParameterError("give at least one name of a sub-key")
    return candidates
