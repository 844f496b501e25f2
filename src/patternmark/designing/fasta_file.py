"""Where the designs of a run go, with its manifest: to memory, or to a FASTA file.

In a file, finished work is never lost or done twice.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.designing.plan import DesignPlan
from patternmark.designing.run import Design
from patternmark.errors import InputError, PatternmarkError
from patternmark.io.designs import (
    ChainMask,
    DesignedStructure,
    Manifest,
    manifest_path,
    read_manifest,
    start_hash,
    write_manifest,
)

_OTHER_FILE = "choose another file, or pass overwrite=True"
_SETTINGS = ("key_id", "weights", "parameters")  # of the manifest; runs that differ do not mix


class DesignTarget(ABC):
    """Where designs go, and the manifest of how they were made."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @property
    def seed(self) -> int | None:
        """The seed of the run that made the manifest: the one given, or the one drawn."""
        given: int | None = self.manifest.parameters["seed"]
        return self.manifest.drawn_seed if given is None else given

    def first_number(self, name: str, take: Callable[[], int]) -> int:
        """Return the number that was taken for a structure; take one if none was."""
        if name not in self.manifest.nonce_numbers:
            numbers = {**self.manifest.nonce_numbers, name: take()}
            self.manifest = replace(self.manifest, nonce_numbers=numbers)
            self._note_numbers()
        return self.manifest.nonce_numbers[name]

    def is_finished(self, name: str, sha256: str) -> bool:
        """Say whether a structure is done; refuse another structure of the same name."""
        for structure in self.manifest.structures:
            if structure.name == name:
                if structure.sha256 != sha256:
                    raise InputError(
                        f"{name}: {self._place} already has designs on another structure of this "
                        f"name ({structure.file}): rename one of them"
                    )
                return True
        return False

    @property
    @abstractmethod
    def _place(self) -> str:
        """Name the target in messages."""

    @property
    def kept(self) -> str:
        """Say what is safe when a run ends early, and how to continue."""
        return "nothing was written"

    @abstractmethod
    def _note_numbers(self) -> None:
        """Keep the numbers that were taken, where they must outlive the run."""

    @abstractmethod
    def append(
        self,
        plan: DesignPlan,
        file: Path,
        sha256: str,
        native: Design,
        designs: Sequence[Design],
    ) -> None:
        """Add the native sequence and the designs of one structure."""


class DesignsInMemory(DesignTarget):
    """Keeps designs in memory: nothing is written."""

    def __init__(self, manifest: Manifest) -> None:
        super().__init__(manifest)
        self.designs: list[tuple[DesignPlan, Design]] = []  # natives are those of index 0

    @property
    def _place(self) -> str:
        return "this run"

    def _note_numbers(self) -> None:
        """The manifest in memory has them."""

    def append(
        self,
        plan: DesignPlan,
        file: Path,
        sha256: str,
        native: Design,
        designs: Sequence[Design],
    ) -> None:
        """Add the native sequence and the designs of one structure."""
        self.manifest = _with_structure(self.manifest, plan, file, sha256)
        self.designs += [(plan, design) for design in (native, *designs)]


class DesignFile(DesignTarget):
    """Appends structures to a FASTA file one by one; after a crash it goes on where it stopped.

    The manifest says how many bytes of the FASTA file belong to finished structures. It is
    replaced after each of them; what stands beyond that in the file is cut off on the next run. It
    also has a hash of these bytes, so that a changed letter is noticed, and the signature of the
    key. The caller holds a lock.
    With `overwrite` what is there stays until the first new structure is finished.
    """

    def __init__(
        self, path: Path, manifest: Manifest, *, key: Key | None = None, overwrite: bool = False
    ) -> None:
        super().__init__(manifest)
        self.path, self._key = path, key
        self._manifest_path = manifest_path(path)
        self._overwrite = self._has_old = overwrite
        self._hash = hashlib.sha256()  # of the finished structures in the file
        try:
            if path.exists() and not path.is_file():
                raise InputError(f"{path}: is not a file: give the name of a FASTA file")
            if not path.parent.exists():
                raise InputError(f"{path}: there is no folder {path.parent}: make it first")
            if not overwrite:
                self.manifest = self._continued(manifest)
            digest = self._hash.hexdigest()
            self.manifest = replace(self.manifest, fasta_sha256=digest)
            path.open("ab").close()  # asked before the first structure is designed, not after it
            if not overwrite:
                self._begin()
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written: {error.strerror}: fix that, or choose another file"
            ) from None

    @property
    def kept(self) -> str:
        """Say what is safe when a run ends early, and how to go on."""
        if self._has_old:
            return "nothing in it has changed"
        again = "repeat the run" + " without overwrite=True" * self._overwrite
        # What is on the disk counts: a run may be stopped before it knows what it has written.
        done = len(read_manifest(self._manifest_path).structures)
        return f"{done} finished structure(s) are kept: {again} to continue"

    def _begin(self) -> None:
        # In this order: a manifest that promises more than the file holds could not be continued.
        self.manifest = self._signed(self.manifest)
        write_manifest(self.manifest, self._manifest_path)
        os.truncate(self.path, self.manifest.fasta_bytes)
        self._has_old = False

    def _signed(self, manifest: Manifest) -> Manifest:
        return manifest if self._key is None else manifest.signed_by(self._key)

    def _continued(self, wanted: Manifest) -> Manifest:
        size = self.path.stat().st_size if self.path.exists() else 0
        if not self._manifest_path.exists():
            if not size:
                return wanted
            raise InputError(
                f"{self.path}: exists and was not made by patternmark design: {_OTHER_FILE}"
            )
        found = read_manifest(self._manifest_path)
        if not found.structures and not size and _settings(found) != _settings(wanted):
            return wanted  # nothing to lose: the settings may have been what was wrong
        for what in _SETTINGS:
            if getattr(found, what) != getattr(wanted, what):
                raise InputError(
                    f"{self.path}: was made with other settings ({_difference(found, wanted, what)}"
                    f"): {_OTHER_FILE}"
                )
        if self._key is not None and not found.is_signed_by(self._key):
            raise InputError(
                f"{self._manifest_path}: is not what key {self._key.key_id} signed: it was "
                f"changed, or an older patternmark wrote it; {_OTHER_FILE}"
            )
        if size < found.fasta_bytes:
            raise InputError(
                f"{self.path}: is shorter than its manifest says: it was changed; {_OTHER_FILE}"
            )
        self._hash = start_hash(self.path, found.fasta_bytes)
        if found.fasta_sha256 not in (None, self._hash.hexdigest()):
            raise InputError(
                f"{self.path}: was changed after its designs were written: restore it; or "
                f"{_OTHER_FILE}"
            )
        return found

    @property
    def _place(self) -> str:
        return str(self.path)

    def _note_numbers(self) -> None:
        if not self._has_old:
            self._write(self.manifest)

    def append(
        self,
        plan: DesignPlan,
        file: Path,
        sha256: str,
        native: Design,
        designs: Sequence[Design],
    ) -> None:
        """Write the native sequence and the designs of one structure."""
        text = "".join(self._records(plan, native, designs)).encode()
        longer = _with_structure(self.manifest, plan, file, sha256)
        digest = self._hash.copy()
        digest.update(text)
        longer = replace(
            longer,
            fasta_bytes=longer.fasta_bytes + len(text),
            fasta_sha256=digest.hexdigest(),
        )
        self._write(longer, text)
        self._hash = digest

    def _write(self, manifest: Manifest, text: bytes = b"") -> None:
        """Append text and replace the manifest, or leave both as they are and say so."""
        try:
            if self._has_old:
                self._begin()
            with self.path.open("ab") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            signed = self._signed(manifest)
            write_manifest(signed, self._manifest_path)
        except OSError as error:
            if not self._has_old:
                with suppress(OSError):  # half a structure would pass for a whole one
                    os.truncate(self.path, self.manifest.fasta_bytes)
            raise PatternmarkError(
                f"{self.path}: cannot be written: {error.strerror}; {self.kept}"
            ) from None
        self.manifest = signed

    def _records(self, plan: DesignPlan, native: Design, designs: Sequence[Design]) -> list[str]:
        temperature = self.manifest.parameters["temperature"]
        mark = f", wm={self.manifest.key_id}" if self.manifest.key_id else ""
        seed = None if self.manifest.key_id else self.seed
        facts = _native_header(plan, native, self.manifest.weights["name"], seed)
        records = [f">{plan.backbone.name}, {facts}\n{letters_of(plan, native)}\n"]
        for design in designs:
            records.append(
                f">T={temperature}, sample={design.index}, score={design.score:.4f}, "
                f"global_score={design.global_score:.4f}, "
                f"seq_recovery={design.recovery:.4f}{mark}\n{letters_of(plan, design)}\n"
            )
        return records


def _native_header(plan: DesignPlan, native: Design, model: str, seed: int | None) -> str:
    """Return the facts ProteinMPNN prints of a native sequence; of marked designs no seed."""
    context = [c for c in plan.backbone.chain_ids if c not in plan.chains]
    return (
        f"score={native.score:.4f}, global_score={native.global_score:.4f}, "
        f"fixed_chains={context}, designed_chains={list(plan.chains)}, "
        f"model_name={model}" + (f", seed={seed}" if seed is not None else "")
    )


def letters_of(plan: DesignPlan, design: Design) -> str:
    """Return the letters of the designed chains, with `/` between them."""
    chains = [design.sequence[plan.backbone.chain(c)] for c in plan.chains]
    return "/".join("".join(PROTEIN.letters[i] for i in chain) for chain in chains)


def _with_structure(manifest: Manifest, plan: DesignPlan, file: Path, sha256: str) -> Manifest:
    """Return the manifest with one more finished structure."""
    structure = DesignedStructure(plan.backbone.name, str(file), sha256, _masks(plan))
    return replace(manifest, structures=(*manifest.structures, structure))


def _masks(plan: DesignPlan) -> tuple[ChainMask, ...]:
    def digits(mask: np.ndarray) -> str:
        return "".join("1" if flag else "0" for flag in mask)

    rows = {chain: plan.backbone.chain(chain) for chain in plan.chains}
    return tuple(
        ChainMask(c, digits(plan.designed[r]), digits(plan.scored[r])) for c, r in rows.items()
    )


def _settings(manifest: Manifest) -> tuple[Any, ...]:
    return tuple(getattr(manifest, what) for what in _SETTINGS)


def _difference(found: Manifest, wanted: Manifest, what: str) -> str:
    before, now = getattr(found, what), getattr(wanted, what)
    if isinstance(before, dict) and isinstance(now, dict):
        name = next(k for k in {**before, **now} if before.get(k) != now.get(k))
        return f"{name} was {before.get(name)!r}, now {now.get(name)!r}"
    return f"{what} was {before!r}, now {now!r}"
