"""Judge what a reader makes of one input: a result or an error of our own, in time, in memory."""

from __future__ import annotations

import gc
import re
import shutil
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patternmark.errors import PatternmarkError
from tests.frames import shown_by
from tests.fuzz.targets import SECRETS, Target


class TooSlowError(BaseException):
    """Not an `Exception`: some readers turn every one of those into an error of their own."""


_SHOWN = 4000  # characters of the traceback of a find
# What differs between two finds of one kind.
_NUMBERED = re.compile(r"\{.*|[\w-]*\d.*|\n.*", re.DOTALL)


@dataclass(frozen=True)
class Find:
    """What an input broke."""

    target: str
    kind: str  # two finds of one kind are the same fault
    details: str


def judge(target: Target, content: bytes, folder: Path, seconds: float) -> Find | None:
    """Read an input in a folder, which is emptied before; return what it broke."""
    _empty(folder)
    secrets = target.secrets(content)
    try:
        with _at_most(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            for message in target.read(content, folder):
                _check(secrets, str(message))
    except PatternmarkError as error:
        try:
            _check(secrets, str(error))
            if secrets:
                _check(secrets, shown_by(error))
        except AssertionError as leak:
            return _find(target, leak)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except MemoryError as error:
        gc.collect()
        return _find(target, error)
    except BaseException as error:  # a panic of Rust is no Exception
        return _find(target, error)
    return None


def _check(secrets: tuple[str, ...], text: str) -> None:
    for part in secrets:
        assert part not in text.lower(), "shows a part of the secret"


def _find(target: Target, error: BaseException) -> Find:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((f for f in reversed(frames) if "patternmark" in f.filename), frames[-1])
    place = f"{Path(last.filename).name}:{last.name}"
    what = _NUMBERED.sub("", str(error))[:60] if isinstance(error, AssertionError) else ""
    kind = f"{type(error).__name__} in {place}" + (f": {what}" if what else "")
    text = "".join(traceback.format_exception(error, limit=-8))
    for part in SECRETS:
        text = text.replace(part, "(secret)")
    return Find(target.name, kind, text[-_SHOWN:])


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Stop what takes too long of a processor; `hunt` stops what does not come back to Python."""

    def stop(number: int, frame: Any) -> None:
        raise TooSlowError(f"took more than {seconds:g} s of a processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
