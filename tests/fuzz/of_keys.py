"""Key files and public halves, and what stands beside them: nonce counters, calibrations.

Manifests of designs are read like these: as a file of facts beside another file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from patternmark.core.alphabet import PROTEIN, Alphabet
from patternmark.core.key import Key
from patternmark.core.keyfile import dump_key, load_key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.core.secret import Secret
from patternmark.errors import InputError, PatternmarkError
from patternmark.io.designs import (
    ChainMask,
    DesignedStructure,
    Manifest,
    manifest_path,
    read_manifest,
)
from patternmark.io.items import RecordSource, read_items
from patternmark.io.kept import Kept
from patternmark.io.nonce_counter import NonceCounter
from patternmark.plan.calibrate import calibration_path, calibration_warning
from tests.conftest import SECRET_HEX
from tests.fuzz.of_records import HEADERS, LETTERS
from tests.fuzz.targets import SECRETS, Target

_SECRET = re.compile(rb"key\s*=")  # the line of a key file that holds the secret
_TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(40)], range(5))


@cache
def keys() -> tuple[Key, ...]:
    """Return a key of each scheme, and one with adopted parts."""
    secret = Secret(bytes.fromhex(SECRET_HEX))
    profiles = [
        Profile(scheme=Blocks()),
        Profile(scheme=Blocks(nonces=4)),
        Profile(scheme=Paper()),
        Profile(alphabet=_TOKENS, scheme=Turns()),
    ]
    made = [Key.of(secret, profile) for profile in profiles]
    return *made, Key.of(secret, profiles[2], ["ACDEFGHIKL", "MNPQRSTVWY"])


def public(key: Key) -> Key:
    """Return the public half of a key."""
    return replace(key, secret=None, parts=None)


def _dumped(of: Callable[[Key], Key]) -> list[bytes]:
    return [dump_key(of(key)).encode() for key in keys()]


def _secrets_of(content: bytes) -> tuple[str, ...]:
    """Return what must stay hidden of a key file; nothing if an edit has copied it elsewhere."""
    others = b"".join(line for line in content.lower().splitlines() if not _SECRET.match(line))
    return () if any(part.encode() in others for part in SECRETS) else SECRETS


def _read_key(content: bytes, folder: Path) -> list[str]:
    file = folder / "x.key"
    file.write_bytes(content)
    file.chmod(0o600)
    key = load_key(file)
    if key.secret is not None:  # by chance, no edit makes another key out of one of these
        same = [known for known in keys() if known.key_id == key.key_id]
        assert same, "an edited key file was accepted"
        assert key.profile == same[0].profile, "an edited key file was accepted"
    return [repr(key), str(key), repr(key.profile), dump_key(public(key))]


def _read_calibration(content: bytes, folder: Path) -> list[str]:
    key, key_file = keys()[0], folder / "x.key"
    file = calibration_path(key_file)
    file.write_bytes(content)
    return [calibration_warning(file, key, "auto") or ""]


def _calibration() -> bytes:
    rate = {"nominal": 0.01, "trials": 900, "hits": 40, "fpr": 0.044, "low": 0.03, "high": 0.06}
    key_id = keys()[0].key_id
    levels = [rate, {**rate, "nominal": 0.001}]
    own = {"key_id": key_id, "levels": levels}
    return json.dumps({"key_id": key_id, "detector": "auto", "own_key": own}).encode()


def _read_nonces(content: bytes, folder: Path) -> list[str]:
    key, key_file, said = keys()[1], folder / "x.key", list[object]()
    counter = NonceCounter(key, key_file, said.append)
    counter.path.write_bytes(content)
    try:
        first = counter.take(3)
    except InputError:
        assert counter.path.read_bytes() == content, "a counter that was refused has changed"
        raise
    nonces = counter.nonces(first, 3)
    assert all(0 <= nonce < key.schedule.nonces for nonce in nonces)
    assert counter.take(1) == first + 3, "the same numbers were given twice"
    return [str(message) for message in said]


def _counters() -> list[bytes]:
    own = {"key_id": keys()[1].key_id, "first": 4 * 2**39, "used": 5}
    return [b"", json.dumps(own).encode() + b"\n", json.dumps({**own, "used": 0}).encode()]


def _read_manifest(content: bytes, folder: Path) -> list[str]:
    """Read a manifest alone, and as `detect` does beside the designs that it describes."""
    fasta = folder / "x.fa"
    fasta.write_text(f">{HEADERS[0]}\n{LETTERS}\n>{HEADERS[1]}\n{LETTERS}\n>other\n{LETTERS}\n")
    manifest_path(fasta).write_bytes(content)
    said: list[object] = []
    items = list(read_items([str(fasta)], RecordSource(PROTEIN), said.append))
    for item in items:
        assert item.scored is None or len(item.scored) == len(item.symbols)
    try:
        found = read_manifest(manifest_path(fasta))
        for structure in found.structures:
            found.scored_mask(structure.name)
        assert len(items) == 3, "a record was lost"
    except PatternmarkError as error:
        said.append(error)
    return [str(message) for message in said]


def _manifest() -> bytes:
    chains = (ChainMask("A", "1" * len(LETTERS), "1" * len(LETTERS)),)
    made = Manifest(
        software={"patternmark": "0"},
        weights={"name": "v_48_020", "sha256": "c9"},
        key_id=keys()[0].key_id,
        parameters={"seed": None, "temperature": 0.1},
        structures=(DesignedStructure("6tw7", "6tw7.pdb", "ab", chains),),
        fasta_bytes=300,
        drawn_seed=17,
        nonce_numbers={"6tw7": 5},
    )
    return made.to_json().encode()


def _read_kept(content: bytes, folder: Path) -> list[str]:
    """Read the finished pieces of a scan that was stopped, and add one."""
    file = folder / "pieces.jsonl"
    file.write_bytes(content)
    kept = Kept(file)
    for name in ("0/0", "0/1"):
        row = kept.get(name)
        assert row is None or row["job"] == name
    kept.add({"job": "0/2", "failed": False})
    again = Kept(file)
    assert again.get("0/2") == {"job": "0/2", "failed": False}
    lines = (
        match[0] for match in re.finditer(rb'(?:\A|(?<=\n))\{"job": "0/0", "n": 1\}\n', content)
    )
    if any(lines):
        assert again.get("0/0") is not None, "a finished job was lost"
    return []


def _rows() -> Sequence[bytes]:
    return [b'{"job": "0/0", "n": 1}\n{"job": "0/1", "failed": false}\n{"job": "0/1", "fai']


_KEY_WORDS = (b"[secret]\n", b"[alphabet]\n", b"[scheme]\n", b"[mark]\n", b"\nversion = ", b"[[",
              b"parts = ", b"key = ", SECRET_HEX.encode(), b"key_id = ", b'"""', b"1979-05-27",
              b"nonces = ", b"delta = ", b"0x7fffffffffffffff", b"commitment = ",
              b"protein")  # fmt: skip
_JSON = (b'"key_id":', b'"structures":', b'"chains":', b'"format":', b'"version":', b"[[]]",
         b'"first":', b'"used":', b'"levels":', b'{"job":', b'"scored":', b"\n")  # fmt: skip

TARGETS = (
    Target("key-file", _read_key, partial(_dumped, lambda key: key), _KEY_WORDS, share=60,
           secrets=_secrets_of),
    Target("public-half", _read_key, partial(_dumped, public), _KEY_WORDS[:-1], share=40),
    Target("manifest", _read_manifest, lambda: [_manifest()], _JSON, share=30),
    Target("calibration", _read_calibration, lambda: [_calibration()], _JSON, share=40),
    Target("nonce-counter", _read_nonces, _counters, _JSON, share=30),
    Target("finished-jobs", _read_kept, _rows, _JSON, share=30),
)  # fmt: skip
