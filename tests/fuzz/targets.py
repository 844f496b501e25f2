"""What is fuzzed: everything that reads what others made."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from tests.conftest import SECRET_HEX
from tests.fuzz.mutations import Mutator

MEMORY = 2 * 2**30  # bytes of address space for all that a reader needs
WITH_TORCH = 8 * 2**30  # torch and its libraries alone reserve some of it
SECONDS = 5.0  # of a processor that one input usually may take
_MODULES = ("of_records", "of_structures", "of_keys", "of_tokens", "of_weights", "of_scan",
            "of_commands", "of_faults")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Target:
    """One reader.

    `read` reads an input in an empty folder and returns what it said to people. An error that is
    not our own, or an `AssertionError`, is a find.
    """

    name: str
    read: Callable[[bytes, Path], Iterable[object]]
    examples: Callable[[], Sequence[bytes]]
    words: tuple[bytes, ...] = ()
    make: Callable[[Mutator, Random], bytes] = field(default=Mutator.make)
    share: int = 10  # how many inputs it gets, compared with other targets
    memory: int = MEMORY
    seconds: float = SECONDS
    # What no message and no frame may show of an input.
    secrets: Callable[[bytes], tuple[str, ...]] = field(default=lambda content: ())
    is_planted: bool = False  # a fault on purpose: only runs when it is named
    needs: tuple[str, ...] = ()  # packages without which there is nothing to fuzz

    @cached_property
    def mutator(self) -> Mutator:
        return Mutator(self.examples(), self.words)

    def input(self, chance: Random) -> bytes:
        """Make an input."""
        return self.make(self.mutator, chance)

    @property
    def can_run(self) -> bool:
        """Whether all packages that it needs are installed."""
        return all(importlib.util.find_spec(package) for package in self.needs)


def all_targets() -> dict[str, Target]:
    """Return the targets by name."""
    modules = [importlib.import_module(f"tests.fuzz.{name}") for name in _MODULES]
    found = [target for module in modules for target in module.TARGETS]
    named = {target.name: target for target in found}
    assert len(named) == len(found)
    return named


def parts_of(secret: str, size: int = 12) -> tuple[str, ...]:
    """Return what must not be shown of a secret: any `size` digits of it in a row."""
    return tuple(secret[at : at + size] for at in range(len(secret) - size + 1))


SECRETS = parts_of(SECRET_HEX)
