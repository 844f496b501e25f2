"""What `bench paper` and `bench page` say to bad input; tests/bench/test_paper.py measures."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from patternmark import __version__
from patternmark.errors import InputError
from patternmark.io.kept import Kept
from patternmark.models.weights import CACHE_VARIABLE, WHEEL_VARIABLE
from patternmark_lab.bench.paper.plan import SIZES
from patternmark_lab.bench.paper.run import CHAINS, LAYOUT, PARAGRAPHS, STRUCTURES
from patternmark_lab.bench.report import keep
from tests.conftest import Outcome, no_file_over

Run = Callable[..., Outcome]
RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with all that is looked for; nothing of it can be read."""
    folder = tmp_path / "data"
    for name in (CHAINS, PARAGRAPHS):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("no archive")
    (folder / STRUCTURES).mkdir()
    return folder


def paper(run: Run, data: Path, *options: object) -> Outcome:
    return run("bench", "paper", "--data", data, "--device", "cpu", *options)


@pytest.mark.parametrize("missing", [STRUCTURES, CHAINS, PARAGRAPHS])
def test_what_is_missing_is_named_before_anything_is_done(
    run: Run, data: Path, tmp_path: Path, missing: str
) -> None:
    place = data / missing
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    done = paper(run, data, "--size", "smoke", "--work", tmp_path / "work")
    assert done.status == 2
    assert f"{place}: does not exist" in done.err
    assert "structures/, proteins/ and parallel/" in done.err
    assert not (tmp_path / "work").exists()


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    done = paper(run, tmp_path / "nowhere", "--task", "translation", "-o", tmp_path / "out")
    assert done.status == 2
    assert f"{tmp_path / 'nowhere' / PARAGRAPHS}: does not exist" in done.err


def test_unreadable_data(run: Run, data: Path, tmp_path: Path) -> None:
    done = paper(run, data, "--task", "protein", "--size", "smoke", "--work", tmp_path / "work")
    assert done.status == 2
    assert f"{data / CHAINS}: cannot be read" in done.err


def test_missing_weights(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "empty"))
    monkeypatch.setenv(WHEEL_VARIABLE, str(tmp_path / "no.whl"))
    done = paper(run, data, "--task", "protein", "--work", tmp_path / "work")
    assert done.status == 2
    assert "no.whl" in done.err
    assert not (tmp_path / "work").exists()


def test_choices_that_do_not_exist(run: Run, data: Path) -> None:
    for option, value in (("--size", "huge"), ("--task", "music")):
        done = paper(run, data, option, value)
        assert done.status == 2
        assert f"{option} must be one of " in done.err
        assert repr(value) in done.err


def test_work_of_another_version_stays(run: Run, data: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "version.txt").write_text("0.0.1\n")
    (work / "designs-smoke.jsonl").write_text("kept\n")
    done = paper(run, data, "--task", "translation", "--size", "smoke", "--work", work)
    assert done.status == 2
    assert f"holds work of patternmark 0.0.1, but this is {__version__}" in done.err
    assert {file.name: file.read_text() for file in work.iterdir()} == {
        "version.txt": "0.0.1\n",
        "designs-smoke.jsonl": "kept\n",
    }


def test_work_on_other_data_stays(run: Run, data: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    kept = work / "inputs-translation-smoke.txt"
    kept.write_text("another\n")
    done = paper(run, data, "--task", "translation", "--size", "smoke", "--work", work)
    assert done.status == 2
    assert "holds work on other translation data" in done.err
    assert kept.read_text() == "another\n"
    assert not list(work.glob("*.jsonl"))


@pytest.mark.parametrize("change", [{"version": "0.0.1"}, {"size": "full"}, {"seed": 7}])
def test_a_result_made_otherwise_is_not_overwritten(
    run: Run, data: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    facts = {"benchmark": "paper", "layout": 1, "version": __version__, "size": "smoke", "seed": 1}
    text = json.dumps(facts | change)
    (tmp_path / "paper.json").write_text(text)
    done = paper(run, data, "--task", "translation", "--size", "smoke", "-o", tmp_path)
    assert done.status == 2
    assert "remove it, or choose another -o" in done.err
    assert str(next(iter(change.values()))) in done.err
    assert (tmp_path / "paper.json").read_text() == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schemes", "default"], "--schemes and --into together"),
        (["--into", "paper.json"], "--schemes and --into together"),
        (["--schemes", "default", "--into", "paper.json", "-o", "."], "leave out -o"),
        (["--schemes", "default", "--into", "other.json"], "must be named paper.json"),
        (["--schemes", "default,best", "--into", "paper.json"], "not 'default,best'"),
        (["--schemes", "default", "--into", "paper.json"], "paper.json: cannot be read"),
    ],
)
def test_some_schemes_need_a_result_to_stand_in(
    run: Run,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = paper(run, data, "--task", "protein", "--size", "smoke", *options)
    assert done.status == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "full"}, "it has size full, but this run has smoke"),
        ({"seed": 7}, "it has seed 7, but this run has 1"),
        ({"layout": 0}, "it has layout 0"),
        ({"amounts": {}}, "it has amounts {}"),
        ({}, "it has no rows of protein"),
    ],
)
def test_a_result_that_cannot_take_rows_stays(
    run: Run, data: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    amounts = json.loads(json.dumps(asdict(SIZES["smoke"])))
    facts = {"benchmark": "paper", "layout": LAYOUT, "version": "0.0.1", "size": "smoke", "seed": 1}
    file = tmp_path / "paper.json"
    file.write_text(text := json.dumps(facts | {"amounts": amounts} | change))
    options = ["--task", "protein", "--size", "smoke", "--schemes", "default", "--into", file]
    done = paper(run, data, *options)
    assert done.status == 2
    assert f"{file}: {message}" in done.err
    assert file.read_text() == text
    assert not (tmp_path / "paper-work").exists()


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    kept = Kept(file)
    kept.add({"job": "first", "found": 1})
    with no_file_over(file.stat().st_size + 10), pytest.raises(InputError, match="is kept"):
        kept.add({"job": "second", "found": "x" * 100})
    # Ten bytes of the second are there: the next one begins on a line of its own.
    assert file.read_bytes().endswith(b'{"job": "s')
    kept.add({"job": "third", "found": 3})
    again = Kept(file)
    assert again.get("first") == {"job": "first", "found": 1}
    assert again.get("second") is None
    assert again.get("third") == {"job": "third", "found": 3}


def test_a_full_disk_keeps_the_result_before(tmp_path: Path) -> None:
    keep({"benchmark": "null", "x": 1}, "page\n", tmp_path)
    with no_file_over(20), pytest.raises(InputError, match=r"null\.json: cannot be written"):
        keep({"benchmark": "null", "x": "y" * 100}, "other\n", tmp_path)
    assert json.loads((tmp_path / "null.json").read_text()) == {"benchmark": "null", "x": 1}
    assert (tmp_path / "null.md").read_text() == "page\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_pages_are_made_anew_and_checked(run: Run, tmp_path: Path) -> None:
    shutil.copy(RESULTS / "speed.json", tmp_path)
    result, page = tmp_path / "speed.json", tmp_path / "speed.md"
    done = run("bench", "page", result, "--check")
    assert done.status == 1
    assert f"{page}: differs from the page of {result}" in done.err
    assert not page.exists()
    assert run("bench", "page", result).status == 0
    assert page.read_text() == (RESULTS / "speed.md").read_text()
    assert run("bench", "page", result, "--check").status == 0
    page.write_text(page.read_text().replace("1", "2", 1))
    assert run("bench", "page", result, "--check").status == 1
    assert run("bench", "page", result, "-o", tmp_path / "other").status == 0
    assert (tmp_path / "other" / "speed.md").read_text() == (RESULTS / "speed.md").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a result of"),
        ('{"benchmark": "other"}', "is not a result of"),
        ('{"benchmark": "paper", "version": "9.9"}', "cannot read a result of patternmark 9.9"),
        ('{"benchmark": "paper", "layout": 1, "version": "9.9"}', "is incomplete"),
        ('{"benchmark": "speed", "version": "9.9"}', "is incomplete"),
    ],
)
def test_what_is_no_result_makes_no_page(
    run: Run, tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "paper.json"
    file.write_text(content)
    done = run("bench", "page", file)
    assert done.status == 2
    assert f"{file}: " in done.err
    assert message in done.err
    assert not (tmp_path / "paper.md").exists()
    done = run("bench", "page", tmp_path / "none.json")
    assert "cannot be read" in done.err
