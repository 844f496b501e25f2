"""Headers and manifests that come with the evidence decide nothing, unless a key signed them."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import patternmark as pm
from patternmark.core.schemes import Paper
from patternmark.io.designs import (
    ChainMask,
    DesignedStructure,
    Manifest,
    manifest_path,
    read_manifest,
    write_manifest,
)
from tests.conftest import Outcome
from tests.synthetic import marked, plain

Run = Callable[..., Outcome]
LENGTH, FIXED = 150, 60  # residues of a chain, and those at its start that were not designed
HEADER = ">one, score=1.2, global_score=1.2, fixed_chains=[], designed_chains=['A'], model_name=x"


@dataclass
class Evidence:
    """A FASTA file of designs with its manifest, and the key that marked them."""

    key: pm.Key
    key_file: Path
    fasta: Path

    @property
    def manifest(self) -> Manifest:
        return read_manifest(manifest_path(self.fasta))

    def put(self, manifest: Manifest) -> None:
        write_manifest(manifest, manifest_path(self.fasta))


def manifest_of(key: pm.Key, fasta: Path, scored: str) -> Manifest:
    content = fasta.read_bytes()
    structure = DesignedStructure("one", "one.pdb", "0" * 64, (ChainMask("A", scored, scored),))
    return Manifest(
        software={"patternmark": "x"},
        weights={"name": "x", "sha256": "0" * 64},
        key_id=key.key_id,
        parameters={"temperature": 0.1, "seed": None},
        structures=(structure,),
        fasta_bytes=len(content),
        fasta_sha256=sha256(content).hexdigest(),
        drawn_seed=7,
    )


@pytest.fixture
def evidence(tmp_path: Path, rng: np.random.Generator) -> Evidence:
    key = pm.Key.generate(pm.Profile())
    pm.save_key(key, tmp_path / "lab.key")
    fasta = tmp_path / "designs.fa"
    rows = [HEADER, plain(LENGTH, rng)]
    for sample in (1, 2, 3):
        rows += [f">T=0.1, sample={sample}, score=0.8, wm={key.key_id}", marked(key, LENGTH, rng)]
    fasta.write_text("\n".join(rows) + "\n")
    found = Evidence(key, tmp_path / "lab.key", fasta)
    scored = "0" * FIXED + "1" * (LENGTH - FIXED)
    found.put(manifest_of(key, fasta, scored).signed_by(key))
    return found


def detected(run: Run, evidence: Evidence, *options: object) -> Outcome:
    return run("detect", evidence.fasta, "--key", evidence.key_file, "--json", *options)


def test_a_signed_manifest_is_used_and_this_is_said(run: Run, evidence: Evidence) -> None:
    found = detected(run, evidence)
    assert found.err == ""
    native, *designs = found.objects
    assert native["note"] == "native sequence"
    assert {one["num_tokens_scored"] for one in found.objects} == {LENGTH - FIXED}
    facts = {"signed_by": evidence.key.key_id, "counted": LENGTH - FIXED, "residues": LENGTH}
    assert native["manifest"] == facts | {"is_native": True}
    assert designs[0]["manifest"] == facts | {"is_native": False}
    shown = run("detect", evidence.fasta, "--key", evidence.key_file)
    said = f"manifest used (signed by key {evidence.key.key_id}): 360 of 600 residues counted"
    assert f"{said}; 1 native sequence(s) not counted" in shown.out
    assert f" of 3 sequences carry the mark of key {evidence.key.key_id}" in shown.out
    ignored = detected(run, evidence, "--manifest", "ignore")
    assert ignored.err == ""
    assert {one["num_tokens_scored"] for one in ignored.objects} == {LENGTH}
    assert "manifest" not in ignored.objects[0]


def unsigned(evidence: Evidence) -> str:
    evidence.put(replace(evidence.manifest, mac=None))
    return "no key signed it"


def old(evidence: Evidence) -> str:
    content = json.loads(manifest_path(evidence.fasta).read_text())
    for name in ("mac", "fasta_sha256"):
        del content[name]
    manifest_path(evidence.fasta).write_text(json.dumps(content | {"version": 1}))
    return "no key signed it"


def foreign(evidence: Evidence) -> str:
    other = pm.Key.generate(pm.Profile())
    evidence.put(replace(evidence.manifest, key_id=other.key_id).signed_by(other))
    return "no key that is given here signed it"


def forged(evidence: Evidence) -> str:
    evidence.put(replace(evidence.manifest.signed_by(pm.Key.generate(pm.Profile()))))
    return f"it is not what key {evidence.key.key_id} signed"


def edited(evidence: Evidence) -> str:
    evidence.put(replace(evidence.manifest, drawn_seed=8))
    return f"it is not what key {evidence.key.key_id} signed"


def no_ascii(evidence: Evidence) -> str:
    evidence.put(replace(evidence.manifest, mac="\ud800" * 64))
    return f"it is not what key {evidence.key.key_id} signed"


def changed_fasta(evidence: Evidence) -> str:
    text = evidence.fasta.read_text()
    evidence.fasta.write_text(text.replace("score=0.8", "score=0.7", 1))
    return f"the file is not the one that key {evidence.key.key_id} signed it for"


def longer_fasta(evidence: Evidence) -> str:
    with evidence.fasta.open("a") as stream:
        stream.write(">T=0.1, sample=4, score=0.8\nMKV\n")
    return f"the file is not the one that key {evidence.key.key_id} signed it for"


@pytest.mark.parametrize(
    "change", [unsigned, old, foreign, forged, edited, no_ascii, changed_fasta, longer_fasta]
)
def test_any_other_manifest_is_not_used_by_default(
    run: Run, evidence: Evidence, change: Callable[[Evidence], str]
) -> None:
    why = change(evidence)
    found = detected(run, evidence)
    assert (
        f"warning: {evidence.fasta}: its manifest is not used, because {why}: all residues and "
        "records count; give --manifest trust to use it all the same, or --manifest ignore to use "
        "no manifest" in found.err
    )
    without = detected(run, evidence, "--manifest", "ignore")
    assert "its manifest" not in without.err
    assert found.objects == without.objects
    trusted = detected(run, evidence, "--manifest", "trust")
    assert "is not used" not in trusted.err
    is_changed = change in (changed_fasta, longer_fasta)
    assert ("was changed after its manifest was written" in trusted.err) == is_changed
    assert {one["num_tokens_scored"] for one in trusted.objects[:4]} == {LENGTH - FIXED}
    assert trusted.objects[0]["manifest"]["signed_by"] is None
    shown = run("detect", evidence.fasta, "--key", evidence.key_file, "--manifest", "trust")
    assert "manifest used (trusted, whoever wrote it): " in shown.out


@pytest.mark.parametrize("content", ["", "{}", "[1]", "{" * 10**5, '{"a":' * 10**5, '"mac"'])
def test_a_manifest_that_cannot_be_read_removes_nothing(
    run: Run, evidence: Evidence, content: str
) -> None:
    without = detected(run, evidence, "--manifest", "ignore").objects
    manifest_path(evidence.fasta).write_text(content)
    for how in ("verify", "trust"):
        found = detected(run, evidence, "--manifest", how)
        assert "not a patternmark manifest: move it away to continue" in found.err
        assert found.objects == without


@pytest.mark.parametrize(
    "change", [{"mac": 5}, {"fasta_bytes": "many"}, {"structures": [{"name": ["one"]}]}]
)
def test_odd_types_are_no_manifest(run: Run, evidence: Evidence, change: dict[str, Any]) -> None:
    content = json.loads(manifest_path(evidence.fasta).read_text())
    structures = change.pop("structures", [{}])
    content["structures"][0] |= structures[0]
    manifest_path(evidence.fasta).write_text(json.dumps(content | change))
    found = detected(run, evidence, "--manifest", "trust")
    assert "not a patternmark manifest" in found.err
    assert len(found.objects) == 4


def test_a_doctored_manifest_does_not_hide_a_mark(run: Run, evidence: Evidence) -> None:
    """Whoever hands over a marked design cannot say that only nine of its residues count."""
    few = "1" * 9 + "0" * (LENGTH - 9)
    evidence.put(manifest_of(evidence.key, evidence.fasta, few))
    found = detected(run, evidence)
    marks = [one for one in found.objects if one["prediction"]]
    assert min(one["p_value"] for one in marks) < 1e-6
    trusted = detected(run, evidence, "--manifest", "trust").objects
    assert {one["status"] for one in trusted} == {"too_short"}  # that is what it was made for


def test_headers_that_imitate_a_native_sequence_count(
    run: Run, evidence: Evidence, rng: np.random.Generator
) -> None:
    rows = [f"{HEADER.replace('one', f'd{i}')}\n{marked(evidence.key, 200, rng)}" for i in range(3)]
    evidence.fasta.write_text("\n".join(rows) + "\n")
    for manifest in (True, False):
        if not manifest:
            manifest_path(evidence.fasta).unlink()
        shown = run("detect", evidence.fasta, "--key", evidence.key_file, "--combine")
        assert "3 of 3 sequences carry the mark" in shown.out
        assert shown.out.count("(header says native)") == 3
        assert "all together: p = " in shown.out
        assert ", marked (" in shown.out
        together = pm.combine(evidence.fasta, evidence.key, warn=lambda message: None)
        assert (together.num_records, together.prediction) == (3, True)


def test_runs_that_can_differ_never_share_a_signature(
    run: Run, evidence: Evidence, tmp_path: Path
) -> None:
    """Neither in a verdict nor in all together: also where the mask counts every residue."""
    everything = manifest_of(evidence.key, evidence.fasta, "1" * LENGTH)
    other = replace(everything, structures=(replace(everything.structures[0], name="two"),))
    masks = [evidence.manifest, *(one.signed_by(evidence.key) for one in (everything, other))]
    found: dict[str, list[Any]] = {}
    for number, manifest in enumerate(masks):
        evidence.put(manifest)
        for how in ("verify", "ignore", "trust"):
            rows = detected(run, evidence, "--manifest", how, "--combine").objects
            found[f"{number}, {how}"] = rows
    for (one, a), (two, b) in combinations(found.items(), 2):
        for x, y in zip(a, b, strict=True):
            same = {"manifest", "note"}  # what is said in words
            values = [{k: v for k, v in z.items() if k not in same} for z in (x, y)]
            assert x["signature"] != y["signature"] or values[0] == values[1], f"{one} and {two}"
    together = [rows[-1] for rows in found.values()]
    assert len({one["log10_p"] for one in together}) == 3  # and some do differ
    assert len({one["signature"] for one in together}) == 4  # of no manifest, and of three


def test_other_commands_keep_to_the_same_rule(run: Run, evidence: Evidence, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    for name in ("a", "b"):
        pm.save_key(pm.Key.generate(pm.Profile()), tmp_path / "keys" / f"{name}.key")
    pm.save_key(evidence.key, tmp_path / "keys" / "lab.key")
    page = tmp_path / "x.html"
    commands = {
        "identify": ["--keys", tmp_path / "keys"],
        "locate": ["--key", evidence.key_file],
        "report": ["--key", evidence.key_file, "-o", page],
        "audit": ["--key", evidence.key_file, "--tries", 1],
    }
    said = f"manifest used (signed by key {evidence.key.key_id}): 360 of 600 residues counted"
    for edit in (False, True):
        if edit:
            edited(evidence)
        for name, options in commands.items():
            done = run(name, evidence.fasta, *options)
            assert done.status == 0, done.err
            shown = page.read_text() if name == "report" else done.out
            assert (said in shown) != edit
            assert ("its manifest is not used" in done.err) == edit
            if name == "audit":
                assert shown.startswith("4 chains, 600" if edit else "3 chains, 270")
        assert ("Native sequences, for comparison" in page.read_text()) != edit
    rows = run("identify", evidence.fasta, *commands["identify"], "--json").objects
    trusted = run(
        "identify", evidence.fasta, *commands["identify"], "--json", "--manifest", "trust"
    ).objects
    assert [one["num_tokens_scored"] for one in rows] == [LENGTH] * 4
    assert [one["num_tokens_scored"] for one in trusted] == [LENGTH - FIXED] * 4
    assert rows[1]["signature"] != trusted[1]["signature"]


def test_in_python(evidence: Evidence) -> None:
    heard: list[object] = []
    scored = {
        how: [v.num_tokens_scored for v in pm.detect(evidence.fasta, evidence.key, manifest=how)]
        for how in ("verify", "trust", "ignore")
    }
    assert scored["verify"] == scored["trust"] == [LENGTH - FIXED] * 4
    assert scored["ignore"] == [LENGTH] * 4
    unsigned(evidence)
    found = pm.identify(evidence.fasta, {"lab": evidence.key}, warn=heard.append)
    assert [one.num_tokens_scored for one in found] == [LENGTH] * 4
    assert "give manifest='trust'" in str(heard[0])
    with pytest.raises(pm.ParameterError, match="manifest='yes' is not one of verify, trust, ign"):
        pm.detect(evidence.fasta, evidence.key, manifest="yes")


def test_the_signature_of_a_manifest_survives_its_file(evidence: Evidence) -> None:
    manifest = replace(
        evidence.manifest, parameters={"bias": {"Å": 0.1 + 0.2}, "seed": 2**62, "x": [1e-300]}
    ).signed_by(evidence.key)
    evidence.put(manifest)
    assert evidence.manifest == manifest
    assert evidence.manifest.is_signed_by(evidence.key)
    assert not evidence.manifest.is_signed_by(evidence.key.derive("sub"))
    weaker = pm.Key.of(evidence.key.require_secret(), pm.Profile(scheme=Paper()))
    assert weaker.key_id != evidence.key.key_id
    assert evidence.key.require_secret().reveal_hex() not in manifest.to_json()


@pytest.mark.parametrize("depth", [100, 500, 900, 5_000, 100_000])
def test_deep_parameters_of_a_manifest_end_in_no_traceback(
    run: Run, evidence: Evidence, depth: int
) -> None:
    place = manifest_path(evidence.fasta)
    text = json.dumps(json.loads(place.read_text()) | {"parameters": "HERE"})
    place.write_text(text.replace('"HERE"', "[" * depth + "]" * depth))
    found = run("detect", evidence.fasta, "--key", evidence.key_file, "--json")
    assert found.status == 0
    assert [one["num_tokens_scored"] for one in found.objects] == [LENGTH] * 4
    trusting = ("--key", evidence.key_file, "--manifest", "trust")
    assert run("detect", evidence.fasta, *trusting).status == 0


def test_bytes_that_are_not_utf_8_are_no_manifest(run: Run, evidence: Evidence) -> None:
    """json reads halves of surrogate pairs, and writes them as it writes the whole."""
    place = manifest_path(evidence.fasta)
    named = replace(evidence.manifest, parameters={"name": "\U0001f600"})
    evidence.put(named.signed_by(evidence.key))
    assert read_manifest(place).is_signed_by(evidence.key)
    whole = place.read_bytes()
    halves = whole.replace(b"\\ud83d\\ude00", b"\xed\xa0\xbd\xed\xb8\x80")
    assert halves != whole
    place.write_bytes(halves)
    with pytest.raises(pm.InputError, match="not a patternmark manifest"):
        read_manifest(place)


def test_a_pipe_beside_a_file_is_no_manifest(run: Run, evidence: Evidence) -> None:
    place = manifest_path(evidence.fasta)
    place.unlink()
    os.mkfifo(place)
    assert run("detect", evidence.fasta, "--key", evidence.key_file).status == 0


def test_a_name_that_leaves_no_room_for_a_manifest(run: Run, evidence: Evidence) -> None:
    longest = evidence.fasta.with_name("a" * 247 + ".fa")
    longest.write_bytes(evidence.fasta.read_bytes())
    found = run("detect", longest, evidence.fasta, "--key", evidence.key_file, "--json")
    assert (found.status, len(found.objects)) == (0, 8)
    too_long = run("detect", "a" * 300 + ".fa", "--key", evidence.key_file)
    assert too_long.status == 2
