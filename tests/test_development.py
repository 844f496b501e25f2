"""What docs/development.md promises: the picture of the rooms, and templates that work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import CLONE

TEMPLATES = CLONE / "scripts" / "templates"
PARTS = ("src", "tests", "lab/src", "lab/tests", "scripts", "pyproject.toml")
LONGEST_TEMPLATE = 60  # lines


def python(*arguments: str, clone: Path = CLONE) -> subprocess.CompletedProcess[str]:
    paths = [clone, clone / "src", clone / "lab" / "src"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of what the templates are written into."""
    copy = tmp_path_factory.mktemp("clone")
    for part in PARTS:
        if (CLONE / part).is_file():
            shutil.copy(CLONE / part, copy / part)
        else:
            shutil.copytree(CLONE / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_the_picture_of_the_rooms_is_that_of_the_imports(clone: Path) -> None:
    done = python("scripts/rooms", "--check")
    assert (done.returncode, done.stderr) == (0, "")
    stale = python("scripts/rooms", "--check", clone=clone)  # the copy has no picture
    assert stale.returncode == 1
    assert "run scripts/rooms" in stale.stderr


def test_every_room_has_its_paragraph() -> None:
    page = (CLONE / "docs" / "development.md").read_text()
    rooms = [
        folder.name
        for folder in (CLONE / "src" / "patternmark").iterdir()
        if (folder / "__init__.py").exists()
    ]
    assert len(rooms) > 15
    assert [room for room in rooms if f"- **{room}**" not in page] == []


@pytest.mark.parametrize("kind", ["scheme", "detector", "adapter"])
def test_what_a_template_makes_passes_its_test(kind: str, clone: Path) -> None:
    if kind == "adapter":
        pytest.importorskip("torch")
    made = python("scripts/new", kind, "made_here", clone=clone)
    assert (made.returncode, made.stderr) == (0, "")
    module, test = (line.removeprefix("wrote ") for line in made.stdout.splitlines()[:2])
    assert "class MadeHere" in (clone / module).read_text()
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", test, clone=clone)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    again = python("scripts/new", kind, "made_here", clone=clone)
    assert again.returncode == 1
    assert "has that name already" in again.stderr
    (clone / module).unlink()  # a module's name is its own in all rooms
    (clone / test).unlink()


@pytest.mark.parametrize("name", ["Two", "two-lists", "2", "class", "two__lists"])
def test_a_name_that_no_module_can_have_is_refused(name: str, clone: Path) -> None:
    done = python("scripts/new", "scheme", name, clone=clone)
    assert done.returncode == 1
    assert "such as two_lists" in done.stderr


def test_templates_are_short() -> None:
    lines = {file.name: len(file.read_text().splitlines()) for file in TEMPLATES.glob("*.py")}
    assert len(lines) == 6
    assert max(lines.values()) < LONGEST_TEMPLATE
