"""`write_bias` writes the file that the command writes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import patternmark as pm
from tests.adapters import write_chains
from tests.conftest import Outcome

pytest.importorskip("gemmi")
pytest.importorskip("tmtools")

Run = Callable[..., Outcome]


def test_a_bias_file_is_that_of_the_command(run: Run, key_file: Path, tmp_path: Path) -> None:
    pdb = write_chains(tmp_path / "one.pdb", {"A": ("D", range(8, 48))})
    by_command, by_call = tmp_path / "command.json", tmp_path / "call.json"
    options = ("--for", "ligandmpnn", "--seed", 3, "--fixed", "A8-17", "--delta", 2)
    told = run("bias", pdb, "--key", key_file, *options, "-o", by_command)
    assert told.status == 0
    key = pm.load_key(key_file, with_secret=True)
    found = pm.write_bias(pdb, key, "ligandmpnn", by_call, seed=3, fixed="A8-17", delta=2)
    assert by_call.read_bytes() == by_command.read_bytes()
    assert by_call.stat().st_mode & 0o777 == 0o600
    assert found.usage.replace("call", "command") in told.err
    assert json.loads(json.dumps(found.to_dict()))["key_id"] == key.key_id
    assert repr(found).startswith(f"<BiasFile file {by_call}, for ")
    with pytest.raises(pm.InputError, match="pass overwrite=True"):
        pm.write_bias(pdb, key, "ligandmpnn", by_call)
    with pytest.raises(pm.ParameterError, match="tool=NAME"):
        pm.write_bias(pdb, key, "chisel", by_call)
