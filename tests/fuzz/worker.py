"""Try inputs on one target in a process of its own, within a limit of memory.

What happens is said on standard output, one JSON object a line. The input that is being tried is
in the file `current`: whoever started this process has it even if the process dies.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

CURRENT, SCRATCH = "current", "scratch"
WARM_UP = 120.0  # seconds that an example may take: libraries are imported, loops are compiled
_SAY_EVERY = 0.5  # seconds


class Loop:
    """Tries inputs, counts them, and says what it finds."""

    def __init__(self, target: Target, arguments: argparse.Namespace) -> None:
        self._target, self._folder = target, Path(arguments.folder)
        self._finds, self._limit = Path(arguments.finds), int(arguments.inputs)
        self._scratch = self._folder / SCRATCH
        self._scratch.mkdir(exist_ok=True)
        self._seconds, self._ends = arguments.seconds, math.inf
        self.done, self._said = 0, 0.0

    @property
    def is_over(self) -> bool:
        return self.done >= self._limit or time.monotonic() > self._ends

    def warm_up(self) -> None:
        """Try the examples: what is slow only once must not count as slow."""
        for example in self._target.examples():
            self._try(example, WARM_UP)

    def start(self) -> None:
        """Say that from now on every input must be quick, and time counts."""
        say({"started": True})
        self._ends = time.monotonic() + self._seconds

    def one(self, content: bytes) -> None:
        """Try an input."""
        self._try(content, self._target.seconds)
        self.done += 1
        if self.is_over or time.monotonic() - self._said > _SAY_EVERY:
            self._said = time.monotonic()
            say({"done": self.done})

    def _try(self, content: bytes, seconds: float) -> None:
        from tests.fuzz.judging import judge

        (self._folder / CURRENT).write_bytes(content)
        find = judge(self._target, content, self._scratch, seconds)
        if find is not None:
            file = saved(self._finds, self._target.name, content)
            say({"find": find.kind, "details": find.details, "file": str(file)})


def saved(folder: Path, target: str, content: bytes) -> Path:
    """Keep an input that broke something; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{target}-{hashlib.sha256(content).hexdigest()[:12]}"
    file.write_bytes(content)
    return file


def say(row: dict[str, Any]) -> None:
    """Write a line for the process that started this one."""
    sys.__stdout__.write(json.dumps(row) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def plainly(loop: Loop, target: Target, seed: str, first: int) -> None:
    """Try inputs that each come from the seed and a number."""
    number = first
    while not loop.is_over:
        loop.one(target.input(Random(f"{seed}/{target.name}/{number}")))
        number += 1


def with_atheris(atheris: Any, loop: Loop, target: Target, seed: str, folder: Path) -> None:
    """Let atheris choose: it keeps inputs that reach new lines, and changes those."""
    from tests.fuzz.mutations import LARGEST, Mutator

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, example in enumerate(target.examples()):
        (corpus / str(number)).write_bytes(example)

    def mutated(content: bytes, most: int, number: int) -> bytes:
        chance = Random(number)
        if chance.random() < 0.3:
            return bytes(atheris.Mutate(content, most))
        made = target.input(chance) if chance.random() < 0.2 else None
        return (made or Mutator([content], target.words).make(chance))[:most]

    def tried(content: bytes) -> None:
        if not loop.is_over:
            loop.one(content)
        if loop.is_over:
            os._exit(0)  # to libFuzzer, any other end is a crash

    number = int(hashlib.sha256(seed.encode()).hexdigest()[:7], 16)
    options = [f"-seed={number}", f"-max_len={LARGEST}", "-rss_limit_mb=0", "-timeout=0",
               "-verbosity=0", f"-artifact_prefix={folder}/"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], tried, custom_mutator=mutated)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    for name in ("--folder", "--finds", "--seed"):
        parser.add_argument(name, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--engine", choices=("plain", "atheris"), default="plain")
    given = parser.parse_args()
    load: Callable[[], Target] = lambda: _target(given.target)  # noqa: E731
    atheris = None
    if given.engine == "atheris":
        import atheris  # type: ignore[import-not-found,no-redef]

        with atheris.instrument_imports(include=["patternmark"], enable_loader_override=False):
            target = load()
    else:
        target = load()
    import resource  # Unix alone has it; the tests import this module everywhere

    resource.setrlimit(resource.RLIMIT_AS, (target.memory, target.memory))
    loop = Loop(target, given)
    loop.warm_up()
    loop.start()
    if atheris is None:
        plainly(loop, target, given.seed, given.first)
    else:
        with_atheris(atheris, loop, target, given.seed, Path(given.folder))


def _target(name: str) -> Target:
    from tests.fuzz.targets import all_targets

    return all_targets()[name]


if __name__ == "__main__":
    main()
