"""Which manifests are used: those that a key signed, unless the user decides otherwise.

A manifest lies beside a FASTA file and says which residues count and which records are native
sequences. Whoever hands over evidence can hand over a manifest with it. By default a manifest is
used only if it is signed by a key that judges, and if the FASTA file is still the one it was signed
for. Otherwise everything counts, and a warning says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patternmark.core.key import Key
from patternmark.errors import InputError, ParameterError
from patternmark.io.designs import (
    DesignedStructure,
    DesignHeader,
    Manifest,
    manifest_path,
    read_manifest,
)
from patternmark.signature import short_hash

VERIFY, TRUST, IGNORE = "verify", "trust", "ignore"
MANIFESTS = (VERIFY, TRUST, IGNORE)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class UsedManifest:
    """A manifest that is used."""

    manifest: Manifest
    signer: str | None  # id of the key whose signature was verified; None: the user trusts it

    @cached_property
    def digest(self) -> str:
        """The first digits of a hash of its contents, for signatures."""
        return short_hash([self.manifest.content()])

    def structure(self, design: DesignHeader | None) -> DesignedStructure | None:
        """Return what the manifest says of the structure that a record names."""
        name = None if design is None else design.name
        return next((s for s in self.manifest.structures if s.name == name), None)

    def is_native(self, design: DesignHeader | None) -> bool:
        """Tell whether a record is the native sequence of a structure of the manifest."""
        return design is not None and design.is_native and self.structure(design) is not None


class ManifestUse:
    """Finds the manifests beside files and decides which of them are used."""

    def __init__(self, how: str = VERIFY, keys: Iterable[Key] = ()) -> None:
        if how not in MANIFESTS:
            raise ParameterError(f"manifest={how!r} is not one of {', '.join(MANIFESTS)}")
        self._how, self._keys = how, {key.key_id: key for key in keys}

    @property
    def ignores(self) -> bool:
        """Whether no manifest is used."""
        return self._how == IGNORE

    def beside(self, file: str, warn: Callable[[object], None]) -> UsedManifest | None:
        """Return the manifest beside a file if it is used; `warn` hears why another one is not."""
        path = manifest_path(file)
        if self.ignores or file == "-" or not _is_there(path):
            return None
        try:
            manifest = read_manifest(path)
        except InputError as error:
            warn(f"{error}; until then all residues and records of {file} count")
            return None
        doubt = "" if self._how == TRUST else self._doubt(manifest, Path(file))
        if doubt:
            warn(
                f"{file}: its manifest is not used, because {doubt}: all residues and records "
                "count; give manifest='trust' to use it all the same, or manifest='ignore' to use "
                "no manifest"
            )
            return None
        if self._how == TRUST and manifest.fasta_sha256 and not manifest.describes(Path(file)):
            warn(
                f"{file}: was changed after its manifest was written, or is not finished: the "
                "manifest may not fit it"
            )
        _log.debug("%s: counting what %s says was designed", file, path)
        return UsedManifest(manifest, manifest.key_id if self._how == VERIFY else None)

    def _doubt(self, manifest: Manifest, file: Path) -> str:
        """Say why a manifest must not be used; nothing if it may."""
        if manifest.mac is None:
            return "no key signed it"
        key = self._keys.get(manifest.key_id or "")
        if key is None:
            return "no key that is given here signed it"
        if not manifest.is_signed_by(key):
            return f"it is not what key {key.key_id} signed"
        if not manifest.describes(file):
            return f"the file is not the one that key {key.key_id} signed it for"
        return ""


def _is_there(path: Path) -> bool:
    """Tell whether a manifest lies there; a pipe or a device is none."""
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False
