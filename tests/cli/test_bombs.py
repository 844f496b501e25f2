"""Small files that unpack or claim to be enormous end in a sentence, and cost no other record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patternmark import Key, save_key
from tests.cli.limited import LETTERS, MIB, run_limited, write_bomb

pytestmark = pytest.mark.slow
IN_JSON = b'{"sequence": "' + LETTERS + b'"}\n'
RECORDS = {  # format: what comes before, the block of 1 MiB, how often, what comes after
    "fasta": (b">a\n" + LETTERS + b"\n>big\n", b"A" * MIB, 140, b"\n>c\n" + LETTERS + b"\n"),
    "lines": (LETTERS + b"\n", b"A" * MIB, 140, b"\n" + LETTERS + b"\n"),
    "jsonl": (IN_JSON, b"[]," * (MIB // 3), 50, b"\n" + IN_JSON),
    "header": (b">a\n" + LETTERS + b"\n>", b"a=, " * (MIB // 4), 100, b"\n>c\n" + LETTERS + b"\n"),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_is_too_long_costs_only_itself(
    kind: str, key_file: Path, tmp_path: Path
) -> None:
    file = write_bomb(tmp_path / "x.gz", *RECORDS[kind])
    assert file.stat().st_size < 3 * MIB
    found = run_limited("-m", "patternmark", "detect", file, "--key", key_file, "--json")
    assert found.returncode == 0, found.stderr
    judged = [json.loads(line) for line in found.stdout.splitlines()]
    assert sum(one["length"] == len(LETTERS) for one in judged) == 2
    if kind == "header":
        assert "Traceback" not in found.stderr
        return
    limit = 32 if kind == "jsonl" else 128
    assert f"{file}: " in found.stderr
    assert f"has more than {limit} MiB and is left out: split it" in found.stderr


READ = """
import sys
from patternmark.io.records import read_records
for one in read_records(sys.argv[1], sys.argv[2], of_text=True):
    print(getattr(one, "message", None) or len(one.sequence))
"""


@pytest.mark.parametrize(("kind", "kept"), [("paragraphs", ["5", "3"]), ("text", [])])
def test_texts_are_read_within_the_same_limit(kind: str, kept: list[str], tmp_path: Path) -> None:
    file = write_bomb(
        tmp_path / "x.gz", b"first\n\n", (b"word " * 200 + b"\n") * 1000, 140, b"\n\nend\n"
    )
    found = run_limited("-c", READ, file, kind)
    assert found.stderr == ""
    *others, last = sorted(found.stdout.splitlines(), key=len)
    assert sorted(others, reverse=True) == kept
    assert last == "has more than 128 MiB and is left out: split it"


def test_what_still_needs_too_much_ends_in_a_sentence(key: Key, tmp_path: Path) -> None:
    save_key(key, tmp_path / "lab.key")
    (tmp_path / "x.fa").write_bytes(b">a\n" + LETTERS * (100 * MIB // len(LETTERS)) + b"\n")
    command = ("-m", "patternmark", "detect", tmp_path / "x.fa", "--key", tmp_path / "lab.key")
    found = run_limited(*command, limit=1_000 * MIB)
    assert found.returncode == 2
    said = "error: there is not enough memory: give fewer or shorter records at once\n"
    assert found.stderr == said


STRUCTURE = """
import sys
from pathlib import Path
from patternmark.errors import InputError
from patternmark.io.structures import read_backbone
try:
    read_backbone(Path(sys.argv[1]))
except InputError as error:
    print(error)
"""
STRUCTURES = {
    "x.pdb.gz": ((b"", b" " * MIB, 600), "has more than 256 MiB, which no structure has"),
    "y.pdb.gz": ((b"", b"\n" * MIB, 250), "the file is empty"),
    "z.cif.gz": ((b"data_x\nloop_\n_a.b\n", b"1 " * (MIB // 2), 250), "more memory than there is"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_unpacked_within_a_limit(name: str, tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    content, says = STRUCTURES[name]
    file = write_bomb(tmp_path / name, *content)
    found = run_limited("-c", STRUCTURE, file)
    assert found.stderr == ""
    assert found.stdout.startswith(f"{file}: ")
    assert says in found.stdout


SETTINGS = {
    "--parts": ("keygen", "--scheme", "paper", "-o", "new.key", "--parts", "@{}"),
    "--background": ("keygen", "--scheme", "paper", "-o", "new.key", "--background", "{}"),
    "--alphabet": ("keygen", "-o", "new.key", "--alphabet", "tokenizer:{}"),
    "--ids": ("identify", "x.fa", "--master", "{key}", "--ids", "{}"),
    "manifest": ("detect", "x.fa", "--key", "{key}"),
    "calibration": ("detect", "x.fa", "--key", "{key}"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_are_read_within_a_limit(
    kind: str, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of holes has every size and takes no room."""
    monkeypatch.chdir(tmp_path)
    Path("x.fa").write_bytes(b">a\n" + LETTERS + b"\n")
    special = {"manifest": "x.fa.manifest.json", "calibration": f"{key_file}.calibration.json"}
    file = Path(special.get(kind, "large.json"))
    with file.open("wb") as stream:
        stream.truncate(4_000 * MIB)
    command = [word.format(file, key=key_file) for word in SETTINGS[kind]]
    found = run_limited("-m", "patternmark", *command)
    assert "Traceback" not in found.stderr
    assert file.name in found.stderr
    # Without its manifest a file is judged as a whole.
    assert found.returncode == (0 if kind in ("calibration", "manifest") else 2)
