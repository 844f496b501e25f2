"""Write files so that they are never incomplete, and lock folders."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patternmark.errors import InputError


def make_folder(folder: Path) -> None:
    """Make a folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}") from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder, if the system has locks; another process that tries gets an error."""
    try:
        import fcntl  # noqa: PLC0415  # not on Windows
    except ImportError:
        yield
        return
    make_folder(folder)
    with (folder / "lock").open("wb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another run is using it: wait until it ends") from None
        except OSError:
            pass  # a file system without locks
        yield


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write or replace a JSON file."""
    write_text(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write or replace a text file."""
    put_in_place(file, lambda path: path.write_text(text, encoding="utf-8"))


def put_in_place(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, and rename it when it is complete."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        write(unfinished)
        with unfinished.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(unfinished, file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
