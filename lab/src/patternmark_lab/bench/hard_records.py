"""Texts whose lines are alike: lists, tables, files and forms.

All lines of a class have the same form, filled with new words. Words and names come from natural
English.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Make = Callable[[np.random.Generator], str]
_LINES = 60  # in a text, before it is cut to its length
_T = TypeVar("_T")


class Draws:
    """Draws random words, names and numbers."""

    def __init__(self, words: Sequence[str], rng: np.random.Generator) -> None:
        self._words, self._rng = words, rng

    def words(self, least: int, most: int | None = None) -> str:
        """Return `least` to `most` words (default: exactly `least`)."""
        number = self.number(least, (most or least) + 1)
        return " ".join(self._words[self.number(len(self._words))] for _ in range(number))

    def name(self) -> str:
        return self.words(1).capitalize()

    def number(self, low: int, high: int | None = None) -> int:
        """Return a number from 0 to below `low`, or from `low` to below `high`."""
        return int(self._rng.integers(low, high))

    def one(self, *things: _T) -> _T:
        return things[self.number(len(things))]

    def time(self) -> str:
        return f"{self.number(24):02d}:{self.number(60):02d}"


Line = Callable[
    [Draws, Sequence[str]], str
]  # makes a new line, given names that are the same in all lines

LINES: dict[str, Line] = {
    "tasks": lambda d, _: f"[ ] {d.words(2, 5)}",
    "JSON": lambda d, names: (
        f'{{"{names[0]}": {d.number(1000)}, "{names[1]}": "{d.words(1, 2)}", '
        f'"{names[2]}": "{d.words(1)}"}},'
    ),
    "a log file": lambda d, names: (
        f"2024-05-{d.number(1, 29):02d} {d.time()}:{d.number(60):02d} "
        f"{d.one('INFO', 'WARN', 'ERROR')} {d.one(*names)}: {d.words(2, 5)}"
    ),
    "a chat": lambda d, names: f"[{d.time()}] {d.one(*names)}: {d.words(2, 8)}",
    "a dialogue": lambda d, names: (
        f'"{d.words(3, 8).capitalize()}," '
        f"{d.one('said ' + names[0], names[1] + ' said', 'he said', 'she said')}."
    ),
    "a recipe": lambda d, _: (
        f"Add the {d.words(1)} and {d.words(1)} and stir for {d.number(30)} minutes."
    ),
    "numbered clauses": lambda d, names: (
        f"{d.number(1, 9)}.{d.number(1, 30)} The {names[0]} shall {d.words(4, 11)}."
    ),
    "addresses of pages": lambda d, names: (
        f"https://www.{d.one(names[0], d.words(1))}.com/{d.words(1, 3).replace(' ', '/')}"
    ),
    "addresses of mail": lambda d, _: f"{d.words(1)}.{d.words(1)}@{d.words(1)}.org;",
    "names with titles": lambda d, _: f"{d.one('Mr', 'Mrs', 'Dr', 'Prof')}. {d.name()} {d.name()},",
    "comma-separated values": lambda d, _: (
        f"{d.number(99)},{d.words(1)},{d.number(1000)},{d.words(1)},{d.number(10)}.{d.number(100)}"
    ),
    "a dictionary": lambda d, _: (
        f"{d.words(1)} ({d.one('n.', 'v.', 'adj.')}): {d.words(3, 7)}; {d.words(3)}."
    ),
    "a contract": lambda d, _: (
        f"{d.one('WHEREAS', 'AND WHEREAS', 'PROVIDED THAT')} the said Party of the "
        f"{d.one('First', 'Second')} Part {d.words(4, 11)},"
    ),
    "results of matches": lambda d, _: f"{d.name()} {d.number(6)} - {d.number(6)} {d.name()}",
    "a timetable": lambda d, _: f"{d.time()} {d.words(1, 3)} (platform {d.number(12)})",
    "a table in Markdown": lambda d, _: f"| {d.words(1, 2)} | {d.words(1, 2)} | {d.words(1, 2)} |",
    "a list in HTML": lambda d, _: f'<li><a href="/{d.words(1)}">{d.words(1, 3)}</a></li>',
    "a genealogy": lambda d, _: f"And {d.name()} begat {d.name()}.",
    "questions and answers": lambda d, _: f"Q: {d.words(4, 9)}?\nA: {d.words(3, 13)}.",
    "one name again and again": lambda d, names: (
        f"{d.one(names[0], names[0] + ' ' + names[1])} {d.words(3, 7)}."
    ),
    "things joined by and the": lambda d, _: f"{d.words(1, 2)} and the",
}


def of_lines(words: Sequence[str]) -> dict[str, Make]:
    """Return a function for each class that makes one text."""

    def maker(line: Line) -> Make:
        def make(rng: np.random.Generator) -> str:
            draws = Draws(words, rng)
            names = [draws.name() for _ in range(3)]
            return "\n".join(line(draws, names) for _ in range(_LINES))

        return make

    return {name: maker(line) for name, line in LINES.items()}
