"""`design` gives what the command gives, in memory and in a file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import patternmark as pm
from patternmark.io.designs import manifest_path, read_manifest
from tests.adapters import write_chains
from tests.conftest import Outcome

pytest.importorskip("gemmi")
torch = pytest.importorskip("torch")
torch.set_num_threads(1)

Run = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "structures"
    made.mkdir()
    write_chains(made / "one.pdb", {"A": ("D", range(8, 48))})
    write_chains(made / "two.pdb", {"A": ("D", range(8, 38)), "B": ("D", range(8, 38))})
    return made


def test_designs_in_memory_are_those_of_the_command(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    options = ["--homo-oligomer", "--fixed", "A8-11", "--omit", "C", "--bias", "K=1", "--delta", 2]
    command = ["design", folder / "two.pdb", "--key", key_file, "-n", 2, "--seed", 3, *options]
    assert run(*command, "--device", "cpu", "-o", out).status == 0
    before = set(tmp_path.rglob("*"))
    designs = pm.design(
        folder / "two.pdb", pm.load_key(key_file), 2, seed=3, homo_oligomer=True, fixed="A8-11",
        omit="C", bias={"K": 1}, delta=2, device="cpu",
    )  # fmt: skip
    assert set(tmp_path.rglob("*")) == before  # nothing was written
    lines = out.read_text().splitlines()
    assert [one.sequence for one in [*designs.natives, *designs]] == lines[1::2]
    for one, head in zip(designs, lines[2::2], strict=True):
        assert f" score={one.score:.4f}, " in head
        assert f"seq_recovery={one.recovery:.4f}" in head
    assert [(one.id, one.structure) for one in designs] == [("two/1", "two"), ("two/2", "two")]
    assert {one.key_id for one in designs} == {pm.load_key(key_file).key_id}
    written = read_manifest(manifest_path(out))
    assert designs.manifest.parameters == written.parameters
    assert designs.manifest.scored_mask("two") == written.scored_mask("two")


def test_a_file_is_that_of_the_command_and_its_run_continues(
    run: Run, folder: Path, key_file: Path, tmp_path: Path
) -> None:
    by_command, by_call = tmp_path / "command.fa", tmp_path / "call.fa"
    command = ["design", folder, "--key", key_file, "--seed", 3, "--device", "cpu"]
    assert run(*command, "-o", by_command).status == 0
    key = pm.load_key(key_file)
    part = pm.design(folder / "one.pdb", key, output=by_call, seed=3, device="cpu")
    assert [one.id for one in part] == ["one/1"]
    heard: list[tuple[str, int, int | None]] = []
    whole = pm.design(
        folder, key, output=by_call, seed=3, device="cpu", progress=lambda *step: heard.append(step)
    )
    assert by_call.read_text() == by_command.read_text()
    assert [one.id for one in whole] == ["one/1", "two/1"]
    assert [one.id for one in whole.natives] == ["one/native", "two/native"]
    assert {what for what, _, _ in heard} == {"structures", "two"}  # one was finished before
    assert ("two", 60, 60) in heard
    with pytest.raises(pm.InputError, match=r"pass overwrite=True"):
        pm.design(folder, key, 2, output=by_call, seed=3, device="cpu")


def test_designs_say_how_they_were_made_but_not_the_seed(folder: Path) -> None:
    (design,) = pm.design(folder / "one.pdb", None, seed=271828, device="cpu")
    assert repr(design).startswith("<DesignedSequence id one/1, residues 40, score ")
    assert json.loads(json.dumps(design.to_dict()))["sequence"] == design.sequence
    assert design.signature.startswith("design:")
    assert "271828" not in repr(design) + design.signature
    (other,) = pm.design(folder / "one.pdb", None, seed=1, device="cpu", temperature=0.2)
    assert other.signature != design.signature


def test_nonces_are_counted_beside_a_key_file_alone(folder: Path, tmp_path: Path) -> None:
    key, file = pm.Key.generate(pm.Profile(scheme=pm.Blocks(nonces=8))), tmp_path / "my.key"
    pm.save_key(key, file)
    counter = tmp_path / "my.key.nonces"
    pm.design(folder / "one.pdb", key, device="cpu")
    assert not counter.exists()
    pm.design(folder / "one.pdb", file, 2, device="cpu")
    assert json.loads(counter.read_text())["used"] == 2


def test_a_bad_structure_costs_no_other(folder: Path) -> None:
    (folder / "bad.pdb").write_text("no structure\n")
    with pytest.warns(pm.PatternmarkWarning, match=r"bad\.pdb"):
        designs = pm.design(folder, None, device="cpu")
    assert [one.id for one in designs] == ["one/1", "two/1"]
    assert len(designs.failed) == 1
    with pytest.raises(pm.InputError, match=r"bad\.pdb"):
        pm.design(folder / "bad.pdb", None, device="cpu")
    with pytest.raises(pm.ParameterError, match="need a key"):
        pm.design(folder, None, payload=1)
    with pytest.raises(pm.ParameterError, match="count=N"):
        pm.design(folder, None, 0)
