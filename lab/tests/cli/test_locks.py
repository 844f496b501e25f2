"""A second run of a command that continues is refused while the first one is alive."""

from collections.abc import Callable
from pathlib import Path

import pytest

from patternmark.io.files import held
from tests.conftest import Outcome

Run = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("train cmlm pairs.tsv --tokenizer bpe.json", "-o"),
        ("train structure chains.tsv", "-o"),
        ("train distil teacher pairs.tsv", "-o"),
        ("bench secrecy", "--partial"),
        ("bench validity natural.fa", "--partial"),
        ("bench translation pairs.tsv", "--partial"),
        ("bench text-message pairs.tsv", "--partial"),
        ("bench text-secrecy pairs.tsv --natural pairs.tsv", "--partial"),
    ],
)
def test_a_second_run_is_refused(run: Run, tmp_path: Path, command: str, option: str) -> None:
    target = tmp_path / "made" / "kept"
    target.parent.mkdir()
    with held(target):
        done = run(*command.split(), option, target)
    assert done.status == 2
    assert f"error: {target}: another run is using it: wait until that run ends" in done.err
    assert not list(target.parent.iterdir())
    alone = run(*command.split(), option, target)  # refused for another reason, or not at all
    assert "another run" not in alone.err
    assert not list(target.parent.glob(".*"))


def test_the_work_of_the_paper_is_locked(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patternmark_lab.bench.paper.run.check_data", lambda *given: None)
    command = ["bench", "paper", "--data", tmp_path, "--task", "translation", "--size", "smoke",
               "--device", "cpu", "--work", tmp_path / "work"]  # fmt: skip
    with held(tmp_path / "work"):
        done = run(*command)
    assert (done.status, "work: another run is using it" in done.err) == (2, True)
    assert "another run" not in run(*command).err
