"""`score` gives what the command gives, and designs say themselves what of them was designed."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import patternmark as pm
from tests.adapters import write_chains
from tests.conftest import Outcome

pytest.importorskip("gemmi")
pytest.importorskip("tmtools")
torch = pytest.importorskip("torch")
torch.set_num_threads(1)

Run = Callable[..., Outcome]


@pytest.fixture
def pdb(tmp_path: Path) -> Path:
    return write_chains(tmp_path / "one.pdb", {"A": ("D", range(8, 68))})


def test_scores_are_those_of_the_command(
    run: Run, pdb: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    key = pm.load_key(key_file)
    designs = pm.design(pdb, key, 2, output=out, fixed="A8-17", seed=1, device="cpu")
    options = ("--orders", 2, "--seed", 3, "--device", "cpu", "--json")
    told = run("score", out, "--backbone", pdb, *options).objects
    of_file = pm.score(out, pdb, orders=2, seed=3, device="cpu")
    assert [one.to_dict() for one in of_file] == told
    assert {one.num_scored for one in of_file} == {50}
    of_designs = pm.score([*designs.natives, *designs], pdb, orders=2, seed=3, device="cpu")
    assert of_designs == of_file
    assert pm.score(designs[0], pdb, orders=2, seed=3, device="cpu") == of_file[1]
    plain = pm.score(designs[0].sequence, pdb, fixed="A8-17", orders=2, seed=3, device="cpu")
    assert plain.score == of_file[1].score
    assert repr(plain).startswith("<Score id 1, scored 50, score ")


def test_what_was_designed_is_what_is_detected(
    run: Run, pdb: Path, key_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "designs.fa"
    key = pm.load_key(key_file)
    designs = pm.design(pdb, key, 2, output=out, fixed="A8-17", seed=1, device="cpu")
    of_file = [without_manifest(verdict) for verdict in pm.detect(out, key)[1:]]
    assert pm.detect(designs, key) == of_file
    assert pm.detect(designs[1], key) == of_file[1]
    assert pm.detect(designs[1].sequence, key).num_tokens_scored != of_file[1].num_tokens_scored
    on_file = [without_manifest(v) for v in pm.detect(out, key, backbone=pdb)[1:]]
    assert pm.detect(designs, key, backbone=pdb) == on_file
    told = run("detect", out, "--key", key_file, "--backbone", pdb, "--json").objects[1:]
    assert [one.p_value for one in on_file] == [one["p_value"] for one in told]


def without_manifest(verdict: pm.Verdict) -> pm.Verdict:
    """Return a verdict on a file as one on the design itself, which needs no manifest."""
    signature, times = re.subn(r"\|manifest:[0-9a-f]+", "", verdict.signature)
    assert times == 1
    return replace(verdict, signature=signature)


def test_what_does_not_fit_is_an_error(pdb: Path) -> None:
    with pytest.raises(pm.SequenceError, match="sequence '1': it has 4 residues"):
        pm.score("ACDE", pdb, device="cpu")
    with pytest.raises(pm.ParameterError, match="orders=N"):
        pm.score("ACDE", pdb, orders=0)
    other = pm.design(pdb, None, device="cpu")
    pdb.rename(pdb.with_name("two.pdb"))
    with (
        pytest.warns(pm.PatternmarkWarning, match="1 sequence.* designed on one, not here"),
        pytest.raises(pm.InputError, match="no sequence could be scored"),
    ):
        pm.score(other, pdb.with_name("two.pdb"), device="cpu")
