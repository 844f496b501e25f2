"""Write files so that they are never incomplete, and lock what a run writes."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patternmark.errors import InputError


def make_folder(folder: Path) -> None:
    """Make a folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}") from None


_LOCK_NAME = 200  # characters of a name: its lock must not have a name that is too long


@contextmanager
def held(target: Path | None) -> Iterator[None]:
    """Lock the file or folder that a run writes; a second run is refused.

    The lock is a hidden file beside the target; names that begin with the same 200 characters share
    it. It is removed at the end. If a run is killed, the
    system releases the lock, and the next run takes over the file that is left. Nothing is locked
    if there is no target, or if it is standard output, a pipe or a device.
    """
    handle = None
    if target is not None and str(target) != "-":
        real = Path(os.path.realpath(target))  # two names of one file share a lock
        lock = real.with_name(f".{real.name[:_LOCK_NAME]}.lock") if real.name else real / ".lock"
        if real.is_file() or real.is_dir() or not real.exists():
            handle = _locked(lock, target)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                found = os.fstat(handle)
                if stat.S_ISREG(found.st_mode) and not found.st_size:  # others are somebody's own
                    lock.unlink()  # before it is released: a run that waits would lose it otherwise
            os.close(handle)


def _locked(lock: Path, target: Path) -> int | None:
    """Return the handle of a locked file; None where the system or the folder has no locks."""
    try:
        import fcntl  # noqa: PLC0415  # not on Windows
    except ImportError:
        return None
    while True:
        handle = _opened(lock)
        if handle is None:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise InputError(
                f"{target}: another run is using it: wait until that run ends, or choose "
                "another output"
            ) from None
        except FileNotFoundError:
            pass  # the run before has just removed it
        except OSError:  # a file system without locks
            os.close(handle)
            return None
        os.close(handle)


def _opened(lock: Path) -> int | None:
    """Open a lock file; another user's one can be locked, too, if it can be read."""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        try:
            # Without O_NONBLOCK a pipe of this name would be waited for.
            return os.open(lock, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError:
            continue
    return None  # whoever cannot write here is told so when the output is written


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write or replace a JSON file."""
    write_text(file, json.dumps(content, indent=1) + "\n")  # ASCII: no name writes to a terminal


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


def write_private(file: Path, content: str | bytes, *, overwrite: bool = False) -> None:
    """Write a file that only its owner can read: it is as secret as a key.

    A full disk leaves the old file as it is. A symbolic link is refused, not followed: what it
    points to could be a file that others read.
    """
    if file.is_symlink() or (file.exists() and not file.is_file()):
        kind = "a symbolic link" if file.is_symlink() else "no file"
        raise InputError(f"{file}: cannot be written: it is {kind}: give the name of a file")
    if file.exists() and not overwrite:
        raise InputError(f"{file}: already exists: choose another file, or pass overwrite=True")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content.encode() if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(unfinished, file)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None
