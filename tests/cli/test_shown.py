"""Names cannot write to the terminal, into headers, or end a run because they are not UTF-8."""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from patternmark import Key, PatternmarkWarning, Profile, save_key
from patternmark.api.given import warn_in_python
from patternmark.cli.output import cell
from patternmark.core.secret import Secret
from patternmark.io.shown import json_line, printable, shown
from patternmark.io.structure_files import structure_name
from tests.conftest import Outcome

Run = Callable[..., Outcome]
CONTROLS = {
    "escape": "\x1b[2J\x1b[31m",
    "C1": "\x9b31m",
    "newline": "\nerror: fake",
    "return": "\rerror: fake",
    "bidi": "\u202egpj\u2066",
    "line separator": "\u2028error: fake",
    "bell and delete": "\x07\x7f",
    "not UTF-8": os.fsdecode(b"\xff\xfe"),
    "markup": "[red]x[/red][/]",
}
NAMES = pytest.mark.parametrize("evil", CONTROLS.values(), ids=CONTROLS)
LETTERS = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVKALPDAQFEVV"


def is_clean(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n")) and "\nerror: fake" not in text


@NAMES
def test_what_is_shown_is_printable_and_json_is_reversible(evil: str) -> None:
    assert shown(evil).isprintable()
    assert printable(evil).isprintable()
    assert cell(evil).isprintable()
    line = json_line({"file": evil})
    assert line.isprintable()
    line.encode("utf-8")
    assert json.loads(line) == {"file": evil}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PatternmarkWarning)
        warn_in_python(f"{evil}: bad")
    assert str(caught[0].message).isprintable()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@NAMES
@pytest.mark.parametrize("more", [(), ("--json",), ("--combine",)], ids=["table", "json", "one"])
def test_files_of_such_names_are_judged(
    run: Run, evil: str, more: tuple[str, ...], key_file: Path, tmp_path: Path
) -> None:
    names = [tmp_path / f"{part}{evil.replace('/', '')}.fa" for part in "ab"]
    for name in names:
        name.write_text(f">{evil.splitlines()[-1]}\n{LETTERS}\n>{'empty'}\n", errors="replace")
    found = run("detect", *names, "--key", key_file, *more)
    assert found.status == 0
    assert found.err.count("warning:") == 2
    assert is_clean(found.out)
    assert is_clean(found.err)
    if more == ("--json",):
        assert [one["file"] for one in found.objects] == [str(name) for name in names]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@NAMES
def test_keys_of_such_names(run: Run, evil: str, secret: Secret, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    name = evil.replace("/", "")
    save_key(Key.of(secret, Profile()), tmp_path / "keys" / f"{name}.key")
    (tmp_path / "keys" / f"bad{name}.key").write_text("no key")
    (tmp_path / "x.fa").write_text(f">a\n{LETTERS}\n")
    found = run("identify", tmp_path / "x.fa", "--keys", tmp_path / "keys")
    assert found.status == 0
    assert is_clean(found.out)
    assert is_clean(found.err)
    for command in (
        ("detect", f"missing{evil}", "--key", "k"),
        ("detect", "x", f"--{evil}"),
        (evil,),
    ):
        found = run(*command)
        assert found.status == 2
        assert is_clean(found.err)
        assert "Traceback" not in found.err


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@NAMES
def test_reports_and_scans_of_such_names(
    run: Run, evil: str, secret: Secret, tmp_path: Path
) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("xxhash")
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys" / "lab.key"
    save_key(Key.of(secret, Profile()), key)
    file = tmp_path / f"x{evil.replace('/', '')}.fa"
    file.write_text(f">a\n{LETTERS}\n>b\nMK1V\n")
    page = tmp_path / "page.html"
    assert run("report", file, "--key", key, "-o", page).status == 0
    assert is_clean(page.read_text(encoding="utf-8").partition("</h1>")[0])
    (tmp_path / "keys" / f"bad{evil.replace('/', '')}.key").write_text("no key")
    found = run(
        "scan", file, "--keys", tmp_path / "keys", "-o", tmp_path / "hits.parquet", "--json"
    )
    assert found.status == 3
    assert is_clean(found.err)
    assert is_clean(found.out)
    assert json.loads(found.out)["keys_left_out"]


FACTS = {
    "newline": "x\n>d, score=1, designed_chains=['A']",
    "facts": "x, T=0.1, sample=1",
    "blanks": " x ",
    "escape": "x\x1b[2J",
    "not UTF-8": os.fsdecode(b"x\xff"),
    "bidi": "x\u202ey",
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("name", FACTS.values(), ids=FACTS)
def test_a_structure_writes_one_header(run: Run, name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gemmi")
    from tests.adapters import write_chains

    plain = write_chains(tmp_path / "plain.pdb", {"A": ("D", range(8, 30))})
    file = tmp_path / f"{name}.pdb"
    shutil.copy(plain, file)
    output = tmp_path / "out.fa"
    found = run("design", file, "--no-watermark", "--device", "cpu", "-o", output)
    assert found.status == 0, found.err
    assert is_clean(found.err)
    text = output.read_text(encoding="utf-8")
    assert is_clean(text)
    assert [line for line in text.split("\n") if line.startswith(">")] == text.split("\n")[:-1:2]
    from patternmark.io.designs import manifest_path, read_manifest
    from patternmark.io.records import Record, read_records

    (structure,) = read_manifest(manifest_path(output)).structures
    assert structure.name == structure_name(file)
    assert structure.file == str(file)
    native, design = (one for one in read_records(str(output)) if isinstance(one, Record))
    assert native.design is not None
    assert design.design is not None
    assert (native.design.sample, native.design.name) == (0, structure.name)
    assert (design.design.sample, design.design.name) == (1, structure.name)


@pytest.mark.parametrize("chain", ["A\n>x", "A, sample=1", "A], T=1, x=[", "A\x1b", "A B"])
def test_a_chain_id_that_would_write_facts_is_refused(chain: str, tmp_path: Path) -> None:
    gemmi = pytest.importorskip("gemmi")
    from patternmark import InputError
    from patternmark.io.structures import read_backbone
    from tests.adapters import write_chains

    plain = write_chains(tmp_path / "plain.pdb", {"A": ("D", range(8, 30))})
    structure = gemmi.read_structure(str(plain))
    structure.setup_entities()
    structure[0]["A"].name = chain
    file = tmp_path / "x.cif"
    file.write_text(structure.make_mmcif_document().as_string())
    with pytest.raises(InputError, match=r"x\.cif: chain '.*': headers of designs cannot hold"):
        read_backbone(file)
