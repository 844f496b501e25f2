"""Read the headers of design tools, and read and write the manifest of a run.

ProteinMPNN and LigandMPNN write the native sequence first and then the designs, with facts in the
header as `name=value`. We use ProteinMPNN's format and add `wm=<key id>`:

    >6tw7, score=1.2041, global_score=1.2041, fixed_chains=[], designed_chains=['A'], model_name=...
    >T=0.1, sample=1, score=0.8230, global_score=0.8230, seq_recovery=0.4453, wm=3f6c9e1b7a2d4058
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from patternmark.core.key import Key
from patternmark.errors import InputError
from patternmark.io.bounded import read_json

MANIFEST_FORMAT = "patternmark manifest"
MANIFEST_VERSION = 2  # since 2 with a hash of the FASTA file and a signature

_MOST_BYTES = 2**25  # of a manifest: enough for 25,000 structures of 600 residues
_LONGEST_NUMBER = 18  # digits of a sample in a header
_MAC_LABEL = "manifest"  # of the sub-key of a secret that signs manifests
_READ_BYTES = 2**20  # of a FASTA file that are hashed at a time
_FACT = re.compile(r"(?:^|, )(\w+)=(\[[^\]]*\]|[^,]*)")


@dataclass(frozen=True)
class DesignHeader:
    """The content of the FASTA header of a design: backbone, sample and facts."""

    name: str  # the name of the backbone
    sample: int  # 0 for the native sequence
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def is_native(self) -> bool:
        return self.sample == 0

    @property
    def id(self) -> str:
        return f"{self.name}/native" if self.is_native else f"{self.name}/{self.sample}"

    def number(self, *names: str) -> float | None:
        """Return the first of these facts that is a number, or None."""
        for name in names:
            try:
                return float(self.facts[name])
            except (KeyError, ValueError):
                continue
        return None


def parse_design_header(header: str, last_name: str) -> DesignHeader | None:
    """Read the header of a design tool; return None for any other FASTA header.

    Samples of ProteinMPNN do not name their backbone: `last_name` is the name in the last native
    record.
    """
    facts = dict(_FACT.findall(header))
    name = header.partition(",")[0].strip()
    if "sample" in facts and "T" in facts:  # ProteinMPNN, and ours
        return _header(last_name or "design", facts["sample"], facts)
    if "id" in facts and "T" in facts and "=" not in name:  # LigandMPNN
        return _header(name, facts["id"], facts)
    native = "designed_chains" in facts or ("num_res" in facts and "T" in facts)
    return DesignHeader(name, 0, facts) if native and "=" not in name else None


def _header(name: str, sample: str, facts: dict[str, str]) -> DesignHeader | None:
    is_number = sample.isdecimal() and len(sample) <= _LONGEST_NUMBER
    return DesignHeader(name, int(sample), facts) if is_number else None


@dataclass(frozen=True)
class ChainMask:
    """Which residues of a written chain were designed, and which ones a detector scores."""

    id: str
    designed: str  # "0110...": one digit for each residue
    scored: str  # as designed, but tied residues count once


@dataclass(frozen=True)
class DesignedStructure:
    """One finished backbone of a run."""

    name: str
    file: str
    sha256: str
    chains: tuple[ChainMask, ...]


@dataclass(frozen=True)
class Manifest:
    """The description of a run that wrote a FASTA file: enough to repeat it and to score it."""

    software: dict[str, str]
    weights: dict[str, str]
    key_id: str | None
    parameters: dict[str, Any]
    structures: tuple[DesignedStructure, ...] = ()
    fasta_bytes: int = 0  # size of the part of the FASTA file with finished structures
    fasta_sha256: str | None = None  # of these bytes; None in manifests of version 1
    drawn_seed: int | None = None  # drawn by this run, if the parameters have no seed
    # For each structure, the number of its first design in the counter of the key. It is stored
    # before the design begins, so that a resumed run makes the same designs.
    nonce_numbers: dict[str, int] = field(default_factory=dict)
    mac: str | None = None  # HMAC of all the rest by a sub-key of the key; None: not signed

    def content(self) -> bytes:
        """Return what is signed: everything but the signature, always in the same order."""
        kept = {name: value for name, value in vars(self).items() if name != "mac"}
        return json.dumps(kept, sort_keys=True, default=vars).encode()

    def signed_by(self, key: Key) -> Manifest:
        """Return the manifest with the signature of a key."""
        return replace(self, mac=self._mac(key))

    def is_signed_by(self, key: Key) -> bool:
        """Tell whether this key signed the manifest as it is."""
        found = (self.mac or "").encode("ascii", "replace")
        return hmac.compare_digest(found, self._mac(key).encode())

    def _mac(self, key: Key) -> str:
        subkey = key.require_secret().subkey(_MAC_LABEL)
        return hmac.digest(subkey, self.content(), "sha256").hex()

    def describes(self, fasta: Path) -> bool:
        """Tell whether a FASTA file is, byte for byte, what the manifest was written for."""
        try:
            return (
                fasta.is_file()
                and fasta.stat().st_size == self.fasta_bytes
                and start_hash(fasta, self.fasta_bytes).hexdigest() == self.fasta_sha256
            )
        except OSError:
            return False  # why it cannot be read is said when it is read

    def to_json(self) -> str:
        head = {"format": MANIFEST_FORMAT, "version": MANIFEST_VERSION}
        return json.dumps(head | asdict(self), indent=1) + "\n"

    def scored_mask(self, name: str) -> str | None:
        """Return one digit for each written residue of the designs on a backbone, or None."""
        chains = self.chains_of(name)
        return "".join(chain.scored for chain in chains) if chains else None

    def chains_of(self, name: str) -> tuple[ChainMask, ...]:
        """Return which residues of a backbone were designed; nothing of an unknown backbone."""
        return next((s.chains for s in self.structures if s.name == name), ())


def start_hash(fasta: Path, num_bytes: int) -> hashlib._Hash:
    """Return the SHA-256 of the first bytes of a file, ready to take more."""
    digest = hashlib.sha256()
    with fasta.open("rb") as stream:
        while num_bytes and (some := stream.read(min(num_bytes, _READ_BYTES))):
            digest.update(some)
            num_bytes -= len(some)
    return digest


def manifest_path(fasta: str | Path) -> Path:
    """Return the path of the manifest of a FASTA file, in the same folder."""
    return Path(f"{fasta}.manifest.json")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; raise an error that says why it cannot be used."""
    try:
        content = read_json(path, _MOST_BYTES)
        if content.pop("format") != MANIFEST_FORMAT:
            raise ValueError("wrong format")
        version = content.pop("version")
        if version > MANIFEST_VERSION:
            raise InputError(f"{path}: version {version} is newer than this patternmark: upgrade")
        structures = tuple(
            DesignedStructure(**{**s, "chains": tuple(ChainMask(**c) for c in s["chains"])})
            for s in content.pop("structures")
        )
        manifest = Manifest(**content, structures=structures)
        _check_types(manifest)
        manifest.content()  # what cannot be signed is no manifest
        return manifest
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path}: not a patternmark manifest: move it away to continue") from None


def _check_types(manifest: Manifest) -> None:
    """Raise a TypeError if the fields that are used are not what a manifest has."""
    texts = [manifest.mac or "", manifest.key_id or "", manifest.fasta_sha256 or ""]
    for structure in manifest.structures:
        texts += [structure.name, structure.sha256]
        texts += [text for chain in structure.chains for text in asdict(chain).values()]
    are_texts = all(isinstance(text, str) for text in texts)
    if not are_texts or type(manifest.fasta_bytes) is not int or manifest.fasta_bytes < 0:
        raise TypeError("no manifest")


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Replace a manifest in one step: a crash leaves the old one or the new one."""
    # One name for all runs, which take turns: what a killed run left is replaced by the next.
    temporary = path.with_name(f".{path.name}.unfinished")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(manifest.to_json())
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
