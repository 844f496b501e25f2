"""Faults on purpose: they show that `scripts/fuzz` finds each kind, and what it prints then."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from patternmark.errors import KeyFileError
from tests.fuzz.targets import SECRETS, Target


def _target(name: str, break_it: Callable[[bytes], object]) -> Target:
    def read(content: bytes, folder: Path) -> Iterable[str]:
        if len(content) % 7 == 3:
            break_it(content)
        return []

    return Target(
        f"fault-{name}",
        read,
        lambda: [b"an example"[:2]],
        memory=2**30,
        seconds=0.2,
        secrets=lambda content: SECRETS,
        is_planted=True,
    )


def _raise(content: bytes) -> None:
    raise ZeroDivisionError("on purpose")


def _hang(content: bytes) -> None:
    while True:
        pass


def _die(content: bytes) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _fill(content: bytes) -> None:
    [bytes(2**28) for _ in range(8)]


def _tell(content: bytes) -> None:
    raise KeyFileError(f"the secret is {SECRETS[0]}")


TARGETS = tuple(
    _target(name, break_it)
    for name, break_it in {
        "error": _raise, "hang": _hang, "crash": _die, "memory": _fill, "secret": _tell,
    }.items()
)  # fmt: skip
