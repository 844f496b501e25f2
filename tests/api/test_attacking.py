"""`attack` gives what the command gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

import patternmark as pm
from tests.conftest import Outcome

Run = Callable[..., Outcome]
SEQUENCES = {"a": "MKTAYIAKQRQISFVKSHFSRQLEERLG", "b": "MKLVNDAAGHHW/ACDEFGHIKLMN"}


@pytest.fixture
def fasta(tmp_path: Path) -> Path:
    file = tmp_path / "x.fa"
    file.write_text("".join(f">{id}\n{letters}\n" for id, letters in SEQUENCES.items()))
    return file


def test_proteins_are_attacked_as_by_the_command(run: Run, fasta: Path, tmp_path: Path) -> None:
    by_command, by_call = tmp_path / "command.fa", tmp_path / "call.fa"
    options = ("--attack", "substitute", "--epsilon", 0.3, "--seed", 5)
    (told,) = run("attack", fasta, *options, "-o", by_command, "--json").objects
    found = pm.attack(fasta, "substitute", 0.3, seed=5, output=by_call)
    assert by_call.read_text() == by_command.read_text()
    assert told == found.summary | {"file": str(fasta), "output": str(by_command)}
    assert [one.before for one in found] == list(SEQUENCES.values())
    assert [one.after for one in found] == by_call.read_text().split("\n")[1::2]
    in_memory = pm.attack(SEQUENCES, "substitute", 0.3, seed=5)
    assert in_memory == found
    assert pm.attack(SEQUENCES["a"], "substitute", 0.3, seed=5).after == found[0].after
    again = pm.attack(found, "delete", 0.2)  # results are records, too
    assert [one.before for one in again] == [one.after for one in found]
    with pytest.raises(pm.InputError, match="overwrite=True"):
        pm.attack(fasta, "substitute", 0.3, output=by_call)


def test_texts_are_attacked_as_by_the_command(run: Run, tmp_path: Path) -> None:
    source, out, again = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "again.txt"
    lines = ["the committee could not agree and so the vote was put off", "", "one two three four"]
    source.write_text("\n".join(lines) + "\n")
    assert run("attack", source, "--attack", "word-drop", "--epsilon", 0.5, "-o", out).status == 0
    found = pm.attack(lines, "word-drop", 0.5, output=again)
    assert again.read_text() == out.read_text()
    assert [one.after for one in found] == out.read_text().split("\n")[:-1]
    assert found.summary["kind"] == "text"


def test_the_oracle_asks_a_detector(run: Run, key_file: Path, fasta: Path, tmp_path: Path) -> None:
    options = ("--attack", "oracle", "--key", key_file, "--queries", 20)
    (told,) = run("attack", fasta, *options, "-o", tmp_path / "x", "--json").objects
    for key in (key_file, pm.load_key(key_file)):
        found = pm.attack(fasta, "oracle", key=key, queries=20)
        assert [one.oracle for one in found] == told["asked"]
    assert "still marked False" in repr(found[0])


def test_what_does_not_go_together_is_refused(fasta: Path, key_file: Path) -> None:
    for name, options, why in (
        ("delete", {}, "give epsilon=X"),
        ("delete", {"epsilon": 0.1, "key": key_file}, "key=FILE goes with oracle"),
        ("oracle", {}, "give key=FILE"),
        ("redesign", {"epsilon": 0.1}, "backbone=FILE"),
        ("delete", {"epsilon": 0.1, "kind": "rna"}, "kind='rna' is not protein or text"),
    ):
        with pytest.raises(pm.ParameterError, match=why):
            pm.attack(fasta, name, **options)
    with pytest.raises(pm.ParameterError, match="give kind='protein' or kind='text'"):
        pm.attack(SEQUENCES, "truncate", 0.5)
    with pytest.raises(pm.SequenceError, match="sequence 'x'"):
        pm.attack({"x": "not a protein"}, "delete", 0.5)
    with pytest.raises(pm.InputError, match="no record"):
        pm.attack([], "delete", 0.5)
