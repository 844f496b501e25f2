"""Nothing is lost when a run is killed; and the test of that would see a loss."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.imports import CLONE
from tests.kills.jobs import JOBS, Job
from tests.kills.killing import Outcome, can_run, compare, table


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_what_is_killed_three_times_is_as_if_it_was_not(name: str) -> None:
    if not can_run(JOBS[name]):
        pytest.skip(f"needs os.fork and {', '.join(JOBS[name].needs)}")
    command = [sys.executable, str(CLONE / "scripts" / "kill-test"), name, "3", "--seed", "5"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = done.stdout.splitlines()[-1].split()
    assert (cells[0], cells[1], cells[4:]) == (name, "3", ["0"] * 4)


def _outputs(tmp_path: Path, change: Callable[[Path], object]) -> Outcome:
    """Compare an output that was changed with the one of a whole run."""
    for name in ("whole", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"1\n2\n3 in {tmp_path / name}\n")
    change(tmp_path / "out")

    def records(out: Path) -> list[str]:
        return [line.split()[0] for line in (out / "a.txt").read_text().splitlines()]

    job, outcome = Job("made", print, lambda *_: [], records, ("a.txt",), ("log",)), Outcome("made")
    compare(job, tmp_path / "whole", tmp_path / "out", job.found(tmp_path / "whole"), outcome)
    outcome.finished = 1
    return outcome


def test_an_equal_output_is_good(tmp_path: Path) -> None:
    outcome = _outputs(tmp_path, lambda out: (out / "log").touch())
    assert outcome.is_good
    assert table([outcome]).splitlines()[1].split()[3:] == ["1", "0", "0", "0", "0"]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda out: (out / "a.txt").write_text("1\n2\n"), {"lost": 1, "different": ["a.txt"]}),
        (
            lambda out: (out / "a.txt").write_text(f"1\n2\n2\n3 in {out}\n"),
            {"doubled": 1, "different": ["a.txt"]},
        ),
        (lambda out: (out / "a.txt").write_text("1\n2\n3\n"), {"different": ["a.txt"]}),
        (lambda out: (out / ".a.1234").touch(), {"left": Counter([".a.1234"])}),
    ],
    ids=["lost", "doubled", "changed", "left behind"],
)
def test_a_loss_is_seen(
    change: Callable[[Path], object], wrong: dict[str, object], tmp_path: Path
) -> None:
    outcome = _outputs(tmp_path, change)
    assert not outcome.is_good
    assert {name: getattr(outcome, name) for name in wrong} == wrong
    if "left" in wrong:
        assert "left behind 1 times: .a.1234" in table([outcome])


def test_the_next_run_replaces_what_a_killed_one_left_of_a_manifest(tmp_path: Path) -> None:
    """A name with the number of the process would stay for ever."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from patternmark.io.designs import Manifest, write_manifest\n"
        "if sys.argv[2] == 'killed':\n"
        "    os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_manifest(Manifest({}, {}, None, {}), Path(sys.argv[1]))\n"
    )
    file = tmp_path / "x.fa.manifest.json"
    for how, status, left in (("killed", -9, 1), ("whole", 0, 1)):
        command = [sys.executable, "-c", code, str(file), how]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert len(list(tmp_path.iterdir())) == left
    assert list(tmp_path.iterdir()) == [file]


def test_a_run_that_cannot_be_continued_is_not_good() -> None:
    outcome = Outcome("made", kills=3, finished=2, failed=["status 2: error: no"])
    assert not outcome.is_good
    assert "could not be continued: status 2: error: no" in table([outcome])
    assert not Outcome("made").is_good  # nothing was compared
