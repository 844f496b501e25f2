"""What is as secret as a key: written for its owner alone, whole or not at all; and locks."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from patternmark import InputError, Key, Profile, save_key
from patternmark.io.files import held, write_private
from tests.conftest import Outcome, no_file_over
from tests.synthetic import marked

Run = Callable[..., Outcome]


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    yield folder
    folder.chmod(0o700)


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bias.json"
    write_private(file, "one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(InputError, match=r"bias\.json: already exists: .* overwrite=True"):
        write_private(file, "two")
    file.chmod(0o644)
    write_private(file, "two", overwrite=True)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("two", 0o600)
    with pytest.raises(InputError, match=r"absent/bias\.json: cannot be written: No such file"):
        write_private(tmp_path / "absent" / "bias.json", "one")
    with pytest.raises(InputError, match="cannot be written"):
        write_private(tmp_path, "one", overwrite=True)
    assert os.listdir(tmp_path) == ["bias.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(locked: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: Permission denied"):
        write_private(locked / "bias.json", "one")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_private(tmp_path / "bias.json", "one")
    assert os.listdir(tmp_path) == []


def test_a_link_is_refused_and_what_it_points_to_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    with pytest.raises(InputError, match="link: cannot be written: it is a symbolic link"):
        write_private(link, "secret", overwrite=True)
    assert target.read_text() == "mine"
    target.unlink()  # a link to nothing would make a file elsewhere
    with pytest.raises(InputError, match="it is a symbolic link"):
        write_private(link, "secret")
    assert os.listdir(tmp_path) == ["link"]


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def secret_files(tmp_path: Path) -> dict[str, list[object]]:
    """Return the commands that write what a key promotes, by the name of the file they write."""
    key = Key.generate(Profile())
    save_key(key, tmp_path / "lab.key")
    text = marked(key, 200, np.random.default_rng(1))
    (tmp_path / "x.fa").write_text(f">a\n{text}\n")
    given = [tmp_path / "x.fa", "--key", tmp_path / "lab.key"]
    return {
        "x.html": ["report", *given, "-o", tmp_path / "x.html"],
        "x.svg": ["detect", *given, "--plot", tmp_path / "x.svg"],
        "x.png": ["detect", *given, "--plot", tmp_path / "x.png"],
    }


def test_pages_and_pictures_are_as_private_as_a_key(
    run: Run, secret_files: dict[str, list[object]], tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        for name, command in secret_files.items():
            file = tmp_path / name
            file.write_text("old")
            file.chmod(0o644)
            assert run(*command).status == 0
            assert (mode(file), file.read_bytes() != b"old") == (0o600, True)
            file.unlink()
            assert run(*command).status == 0
            assert mode(file) == 0o600
    finally:
        os.umask(before)


def test_a_full_disk_leaves_the_old_page_and_a_link_is_not_followed(
    run: Run, secret_files: dict[str, list[object]], tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name, command in secret_files.items():
        file = tmp_path / name
        file.write_text("old")
        with no_file_over(1000):
            full = run(*command)
        assert (full.status, f"{file}: cannot be written: File too large" in full.err) == (2, True)
        assert file.read_text() == "old"
        assert not list(tmp_path.glob(".x*"))
        file.unlink()
        file.symlink_to(mine)
        linked = run(*command)
        assert (linked.status, f"{file}: cannot be written: it is a sym" in linked.err) == (2, True)
        assert mine.read_text() == "mine"


def test_a_lock_is_there_for_one_run_and_then_gone(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with held(target):
        with pytest.raises(InputError, match="x: another run is using it"), held(target):
            pass
        assert os.listdir(tmp_path) == [".x.lock"]
    assert os.listdir(tmp_path) == []
    (tmp_path / ".x.lock").touch()  # what a killed run left
    with held(target), held(tmp_path / "y"), held(None), held(Path("-")), held(Path("-")):
        pass
    assert os.listdir(tmp_path) == []
    with held(Path(os.devnull)), held(Path(os.devnull)):
        pass


def test_a_file_of_somebody_else_is_no_lock_to_be_removed(tmp_path: Path) -> None:
    own = tmp_path / ".x.lock"
    own.write_text("mine")
    with held(tmp_path / "x"):
        pass
    assert own.read_text() == "mine"


def test_a_pipe_in_the_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / ".x.lock"
    os.mkfifo(pipe, 0o400)
    with held(tmp_path / "x"):
        pass
    assert pipe.is_fifo()  # it is somebody's own


def test_names_of_any_length_have_a_lock(tmp_path: Path) -> None:
    target = tmp_path / ("a" * 255)
    with held(target), pytest.raises(InputError, match="another run is using it"), held(target):
        pass
    assert list(tmp_path.iterdir()) == []
