"""Who may only learn the call learns nothing else: no number that a small edit would move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import patternmark as pm
from patternmark.core.schemes import Blocks
from tests.conftest import Outcome
from tests.synthetic import marked, plain, write_fasta

Run = Callable[..., Outcome]

FIELDS = {"id", "length", "prediction", "status", "fpr", "key_id", "signature"}


@pytest.fixture
def key_file(secret, tmp_path: Path) -> Path:
    pm.save_key(pm.Key.of(secret, pm.Profile(scheme=Blocks(nonces=4))), tmp_path / "lab.key")
    return tmp_path / "lab.key"


@pytest.fixture
def fasta(key_file: Path, tmp_path: Path) -> Path:
    """Two marked sequences, one far clearer than the other, two without a mark, a short one."""
    key, rng = pm.load_key(key_file, with_secret=True), np.random.default_rng(3)
    sequences = {
        "clear": marked(key, 300, rng),
        "fainter": marked(key, 300, rng, delta=1.0),
        "plain-1": plain(300, rng),
        "plain-2": plain(300, rng),
        "short": "MKTAY",
    }
    return write_fasta(tmp_path / "x.fa", sequences)


def test_json_has_the_call_and_nothing_graded(run: Run, key_file: Path, fasta: Path) -> None:
    whole = run("detect", fasta, "--key", key_file, "--json").objects
    bare = run("detect", fasta, "--key", key_file, "--json", "--verdict-only").objects
    assert [set(one) for one in bare] == [FIELDS | {"file"}] * 5
    assert bare == [{name: one[name] for name in FIELDS | {"file"}} for one in whole]
    assert [one["status"] for one in bare[:4]] == ["marked", "marked", "no_mark", "no_mark"]
    # The statistics differ, and the answers do not.
    for one, other in ((0, 1), (2, 3)):
        assert whole[one]["statistic"] != whole[other]["statistic"]
        assert bare[one] | {"id": ""} == bare[other] | {"id": ""}


def test_the_table_has_the_call_and_nothing_graded(run: Run, key_file: Path, fasta: Path) -> None:
    lines = run("detect", fasta, "--key", key_file, "--verdict-only").out.splitlines()
    assert lines[0].split() == ["sequence", "length", "verdict"]
    cells = [line.split(maxsplit=2) for line in lines[1:6]]
    calls = ["marked", "marked", "no mark found", "no mark found", "too short to tell"]
    assert [[length, call.strip()] for _, length, call in cells] == [
        *(["300", call] for call in calls[:4]),
        ["5", calls[4]],
    ]
    rest = "\n".join(lines[6:])
    assert "2 of 5 sequences carry the mark of key" in rest
    assert "signature key:" in rest
    assert "payload" not in rest


def test_a_set_gets_one_call(run: Run, key_file: Path, fasta: Path) -> None:
    options = ("detect", fasta, "--key", key_file, "--combine", "--verdict-only")
    *_, together = run(*options, "--json").objects
    assert set(together) == FIELDS - {"id", "length"} | {"combined", "num_records"}
    assert (together["status"], together["num_records"]) == ("marked", 5)
    assert "all together: marked (5 records)" in run(*options).out
    assert "p =" not in run(*options).out


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (["--plot", "x.png"], "the picture shows where a sequence agrees"),
        (["--exact"], "--verdict-only cannot be used with --exact"),
        (["--null", "keys"], "asked often would tell more"),
        (["--null-keys", "9"], "--null-keys N"),
    ],
)
def test_what_would_tell_more_is_refused(
    run: Run, key_file: Path, fasta: Path, option: list[str], why: str
) -> None:
    found = run("detect", fasta, "--key", key_file, "--verdict-only", *option)
    assert (found.status, found.out) == (2, "")
    assert why in found.err


def test_python_returns_objects_that_hold_the_call_alone(key_file: Path, fasta: Path) -> None:
    whole = pm.detect(fasta, key_file)
    bare = pm.detect(fasta, key_file, verdict_only=True)
    assert [one.to_dict() for one in bare] == [
        {name: one.to_dict()[name] for name in FIELDS} for one in whole
    ]
    assert all(set(vars(one)) == FIELDS for one in bare)
    assert list(pm.detect_stream(fasta, key_file, verdict_only=True)) == bare
    assert set(vars(pm.combine(fasta, key_file, verdict_only=True))) == FIELDS - {
        "id",
        "length",
    } | {"num_records"}
    assert repr(bare[0]) == f"<BareVerdict id clear, marked, key {bare[0].key_id}>"
    assert "p_any" not in bare._repr_html_()
    one = pm.detect("MKTAYIAKQR", key_file, verdict_only=True)
    assert one.status is pm.Status.TOO_SHORT
    with pytest.raises(pm.ParameterError, match="verdict_only=True cannot be used with exact=True"):
        pm.detect(fasta, key_file, verdict_only=True, exact=True)
