"""Every input that once broke something: for which target, and what it did.

Small ones that no code makes plainly are files in `corpus/TARGET/NAME`, with their line in
`FOUND`. To add a find of `scripts/fuzz`, copy its file there and write its line.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from patternmark.core.keyfile import dump_key
from tests.conftest import SECRET_HEX
from tests.fuzz.of_keys import keys, public
from tests.fuzz.of_records import LETTERS, TEXTS
from tests.fuzz.of_structures import pdb
from tests.fuzz.of_tokens import tokenizer_json
from tests.fuzz.of_weights import archive

FOLDER = Path(__file__).parent / "corpus"
_DEEP = 100_000  # brackets: more than any recursion allows
_DIGITS = b"9" * 5000  # more than Python turns into a number

FOUND = {  # of the files: what each did
    "arguments/name-of-5000-letters": "OSError: File name too long, in the search for a manifest",
    "arguments/folder-of-5000-letters": "OSError: File name too long, in the search for keys",
    "records-fasta/sample-of-5000-digits": "ValueError: thousands of digits, in a FASTA header",
    "records-gz/cut-off": "all records were lost, though most stand before the cut",
}


class Broken(NamedTuple):
    """An input that once broke a target."""

    target: str
    what_it_did: str
    content: bytes


def broken_inputs() -> Iterator[Broken]:
    """Yield the whole corpus."""
    for name, what_it_did in FOUND.items():
        yield Broken(name.partition("/")[0], what_it_did, (FOLDER / name).read_bytes())
    for target, what_it_did, content in (*_records(), *_keys(), *_others(), *_weights()):
        yield Broken(target, what_it_did, content)


def _bomb(begin: bytes, filling: bytes, mebibytes: int) -> bytes:
    """Return a gzipped file that is a thousand times as large when it is unpacked."""
    return gzip.compress(begin + filling * (mebibytes * 2**20 // len(filling)), 9, mtime=0)


def _records() -> Iterator[Broken]:
    yield Broken(
        "records-gz",
        "a record of more than 128 MiB in a small file filled the memory: other records were lost",
        _bomb(b">good-1\n" + LETTERS.encode() + b"\n>long\n", b"A" * 4096, 136),
    )
    yield Broken(
        "records-text",
        "MemoryError: a small file was read with a buffer of 128 MiB for each step",
        TEXTS[0].encode(),
    )
    for depth in (b"[" * _DEEP, b'{"a":' * _DEEP):
        yield Broken(
            "records-jsonl",
            "RecursionError: JSON that is nested too deeply",
            b'{"id": "good-1", "sequence": "%b"}\n' % LETTERS.encode() + depth + b"\n",
        )
    yield Broken(
        "records-jsonl", "ValueError: a number of 5,000 digits", b"[1, " + _DIGITS + b"]\n"
    )
    yield Broken(
        "records-paragraphs",
        "UnicodeEncodeError: half of a surrogate pair in a text",
        b"one \xed\xa0\x80 two\n\nthree\n",
    )
    yield Broken(
        "structure-gz",
        "3.2 GB of memory for 1 GB of blanks",
        _bomb(pdb()[:200], b" " * 4096, 600),
    )
    yield Broken(
        "pdb",
        "RuntimeWarning: a coordinate of 1e308 became infinite, and counted as there",
        pdb().replace(b"   0.000   2.100", b"   1e308   2.100"),
    )


def _keys() -> Iterator[Broken]:
    key = (
        f'format = "patternmark key"\nversion = 1\nkey_id = "{keys()[0].key_id}"\n\n'
        f'[secret]\nkey = "{SECRET_HEX}"\n'
    ).encode()
    for line, what in (
        (b"x = " + b"[" * _DEEP, "RecursionError: TOML that is nested too deeply"),
        (b"x = " + _DIGITS, "ValueError: a number of 5,000 digits"),
        (b"delta = 1e999", "OverflowError: a delta without end"),
        (b"version = true", "was accepted as version 1"),
    ):
        yield Broken("key-file", what, key.replace(b"\n\n", b"\n" + line + b"\n\n", 1))
    long = dump_key(public(keys()[2])).replace("pattern_length = 5", "pattern_length = 4294967296")
    what = "counted for hours how many patterns of this length there are"
    yield Broken("public-half", what, long.encode())
    yield Broken("key-file", "the frames of the error showed the secret", key.replace(b"0", b"", 1))
    yield Broken("key-file", "/dev/zero as a key filled the memory", bytes(5 * 2**20))


def _others() -> Iterator[Broken]:
    for target in ("manifest", "calibration", "nonce-counter", "finished-jobs", "background",
                   "vocabulary-json", "vocabulary-folder", "network-folder"):  # fmt: skip
        for deep in (b"[" * _DEEP, b'{"key_id":' * _DEEP):
            yield Broken(target, "RecursionError: JSON that is nested too deeply", deep)
        yield Broken(target, "ValueError: a number of 5,000 digits", b'{"first": %b}' % _DIGITS)
        yield Broken(target, "TypeError: JSON of another shape", b"[]")
    yield Broken("finished-jobs", "KeyError: a job without its other fields", b'{"job": "0/0"}\n')
    yield Broken("background", "TypeError: a weight that is a list", b'{"A": [1]}')
    made = tokenizer_json()
    model = {"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]], "byte_fallback": False}
    for rate in ("0", "1e-310"):
        words = f"detect seqs.fa --key blocks.key --null keys --null-keys 50 --fpr {rate}"
        what = "ZeroDivisionError and OverflowError: a false positive rate of 0, or next to it"
        yield Broken("arguments", what, words.replace(" ", "\0").encode())
    what = "plain Exception: a letter without a token, where no token stands for unknown ones"
    for target in ("tokenizer", "text-codec"):
        content = json.dumps(made | {"model": model, "added_tokens": []}).encode()
        yield Broken(target, what, content)


def _weights() -> Iterator[Broken]:
    claims = b"\x80\x05\x96" + (4 * 2**30).to_bytes(8, "little") + b"."
    yield Broken("torch-file", "4.3 GB of memory for 12 bytes that claim 4 GiB", claims)
    yield Broken("torch-file", "the same in an archive", archive(claims))
    for opcode in (b"\x8e", b"\x8d"):  # bytes and text with a size of eight bytes
        content = b"\x80\x05" + opcode + (2**62).to_bytes(8, "little") + b"."
        yield Broken("torch-file", "a size of 2^62 bytes", archive(content))
    for name in (b"os\nsystem", b"builtins\neval", b"posix\nsystem"):
        call = b"c" + name + b"\n(S'touch ran'\ntR."
        yield Broken("torch-file", "names a function that must never be called", archive(call))
    yield Broken("safetensors", "a header that claims 2^63 bytes", b"\xff" * 7 + b"\x7f{}")
