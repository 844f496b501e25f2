"""Broken inputs end in a result or in an error of our own: a few hundred here, many at night."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patternmark.errors import InputError, KeyFileError
from tests.conftest import SECRET_HEX
from tests.fuzz.corpus import FOLDER, FOUND, Broken, broken_inputs
from tests.fuzz.hunt import Plan
from tests.fuzz.judging import judge
from tests.fuzz.targets import SECRETS, Target, all_targets
from tests.imports import CLONE

TARGETS = {name: target for name, target in all_targets().items() if not target.is_planted}
CORPUS = list(broken_inputs())
# The others import torch, compile loops, or are whole commands.
QUICK = {name for name, target in TARGETS.items() if not {"torch", "numba"} & {*target.needs}}
QUICK -= {"arguments"}
EXAMPLES, MORE_EXAMPLES = 30, 60
LARGE = 10_000  # bytes: larger files of the corpus unpack to hundreds of MB, or take a second
pytest.importorskip("resource", reason="limits of memory are those of Unix")


def _marked(names: Iterable[str]) -> list[object]:
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in names]


def _target(name: str) -> Target:
    if not TARGETS[name].can_run:
        pytest.skip(f"needs {', '.join(TARGETS[name].needs)}")
    return TARGETS[name]


@pytest.mark.parametrize("name", _marked(TARGETS))
def test_no_input_breaks_a_reader(name: str, tmp_path: Path) -> None:
    target = _target(name)
    for example in target.examples():
        found = judge(target, example, tmp_path, 60.0)  # what is imported and compiled counts too
        assert found is None, found

    @settings(max_examples=EXAMPLES if name in QUICK else MORE_EXAMPLES,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(inputs(target))
    def holds(content: bytes) -> None:
        found = judge(target, content, tmp_path, 4.0 * target.seconds)
        assert found is None, found

    holds()


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Draw what `scripts/fuzz` would try, and now and then any bytes."""
    made = st.builds(target.input, st.randoms(use_true_random=False))
    return st.one_of(made, made, made, st.binary(max_size=200))


@pytest.mark.parametrize("name", _marked({one.target: None for one in CORPUS}))
def test_what_once_broke_a_reader_does_not_any_more(name: str, tmp_path: Path) -> None:
    target = _target(name)
    for one in _of(name):
        if len(one.content) <= LARGE or name not in QUICK:
            found = judge(target, one.content, tmp_path, 4.0 * target.seconds)
            assert found is None, (one.what_it_did, found)


@pytest.mark.slow
@pytest.mark.parametrize("name", {one.target: None for one in CORPUS})
def test_the_corpus_stays_within_its_limit_of_memory(name: str, tmp_path: Path) -> None:
    _target(name)
    for number, one in enumerate(_of(name)):
        (tmp_path / str(number)).write_bytes(one.content)
    files = [str(tmp_path / str(number)) for number in range(len(_of(name)))]
    done = _fuzz("--target", name, *(word for file in files for word in ("--replay", file)))
    assert done.returncode == 0, done.stdout + done.stderr


def _of(name: str) -> list[Broken]:
    return [one for one in CORPUS if one.target == name]


def test_every_file_of_the_corpus_has_its_line() -> None:
    files = {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*") if file.is_file()}
    assert files == set(FOUND)
    assert {one.target for one in CORPUS} <= set(TARGETS)
    assert all(one.what_it_did for one in CORPUS)


def _fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CLONE / "scripts" / "fuzz"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_faults_on_purpose_are_found(tmp_path: Path) -> None:
    names = ("error", "hang", "crash", "memory", "secret")
    targets = [word for name in names for word in ("--target", f"fault-{name}")]
    done = _fuzz("--inputs", "150", "--seed", "1", "--engine", "plain",
                 "--finds", str(tmp_path), *targets)  # fmt: skip
    assert done.returncode == 1, done.stderr
    for kind in ("ZeroDivisionError", "TooSlowError", "ended with status -11", "MemoryError",
                 "shows a part of the secret"):  # fmt: skip
        assert kind in done.stdout
    assert SECRETS[0] not in done.stdout
    assert done.stdout.count("150 inputs") == 1
    again = next(line for line in done.stdout.splitlines() if line.startswith("again: "))
    told = _fuzz(*again.split()[2:])
    assert (told.returncode, "ZeroDivisionError" in told.stderr) == (1, True)


@pytest.mark.slow
def test_a_run_that_finds_nothing_is_no_failure(tmp_path: Path) -> None:
    done = _fuzz("--inputs", "50", "--target", "nonce-counter", "--finds", str(tmp_path / "none"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found" in done.stdout
    assert not (tmp_path / "none").exists()


def _reads(raised: BaseException | None, *said: str) -> Target:
    def read(content: bytes, folder: Path) -> Iterable[str]:
        yield from said
        if raised is not None:
            raise raised

    return Target("made", read, lambda: [b"x"], secrets=lambda content: SECRETS)


def test_a_judge_tells_finds_from_errors_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    assert judge(_reads(None, "fine"), b"", tmp_path, 5.0) is None
    assert not list(tmp_path.iterdir())  # every input has an empty folder
    assert judge(_reads(InputError("x.fa: no")), b"", tmp_path, 5.0) is None
    for raised in (ValueError("x"), AssertionError("lost"), MemoryError(), SystemExit(0)):
        found = judge(_reads(raised), b"", tmp_path, 5.0)
        assert found is not None
        assert found.kind.startswith(type(raised).__name__)
    for said in (_reads(None, f"key {SECRET_HEX[:20].upper()}"), _reads(KeyFileError(SECRET_HEX))):
        leak = judge(said, b"", tmp_path, 5.0)
        assert leak is not None
        assert "shows a part of the secret" in leak.kind
        assert SECRET_HEX not in leak.details


def test_the_same_seed_makes_the_same_inputs() -> None:
    target = TARGETS["nonce-counter"]
    made = [[target.input(Random(f"{seed}/{i}")) for i in range(20)] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


def test_inputs_and_time_are_shared_out() -> None:
    some = [TARGETS["records-fasta"], TARGETS["arguments"]]
    by_inputs = [Plan(inputs=640).limits(target, some)[0] for target in some]
    assert by_inputs == [600, 40]
    assert [Plan(minutes=2, processes=1).limits(t, some)[1] for t in some] == [60.0, 60.0]
