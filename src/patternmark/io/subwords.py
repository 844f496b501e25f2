"""Split words into pieces and join them, as subword-nmt does: `low@@ er` is `lower`.

A file of merges has two symbols per line, the most frequent pair first; the first line may give the
version. At first the symbols of a word are its characters. The pair that is first in the file is
joined wherever it occurs, then the next pair, until no pair is in the file. `</w>` marks the end of
a word.

>>> merges = Merges([("l", "o"), ("lo", "w"), ("e", "r</w>")])
>>> merges.split("lower"), merges.split("rows")
(['low@@', 'er'], ['r@@', 'o@@', 'w@@', 's'])
>>> joined("low@@ er r@@ o@@ w@@ s")
'lower rows'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from patternmark.errors import InputError
from patternmark.io.bounded import VOCABULARY_BYTES, TooLargeError, read_bytes, read_text

CONTINUED = "@@"  # at the end of a piece: the word continues
_WORD_END = "</w>"
_VERSION = re.compile(r"#version: *(0\.[12])(\.0)*\s*")
# The usual names of such files in the folder of a dictionary.
MERGES_NAMES = ("bpecodes", "bpe.codes", "codes", "code", "bpe_codes", "codes.txt", "bpecodes.txt")
_MERGES_SUFFIXES = (".codes", ".bpecodes")


class Merges:
    """The merges of a file; `split` applies them to a word."""

    def __init__(self, pairs: Sequence[tuple[str, str]], *, end_is_symbol: bool = False) -> None:
        """Take pairs in order; in version 0.1 the end of a word is a separate symbol."""
        self._rank = {pair: rank for rank, pair in reversed(list(enumerate(pairs)))}
        self._end_is_symbol = end_is_symbol
        self._known: dict[str, list[str]] = {}

    @classmethod
    def read(cls, file: Path) -> Merges:
        """Read a file of subword-nmt's learn-bpe, of version 0.1 or 0.2."""
        try:
            lines = read_text(file, VOCABULARY_BYTES).rstrip("\n").split("\n")
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{file}: not UTF-8") from None
        except TooLargeError as error:
            raise InputError(f"{file}: not a file of merges: {error}") from None
        end_is_symbol = True
        begin = 1 if lines[0].startswith("#version:") else 0
        if begin:
            version = _VERSION.fullmatch(lines[0])
            if version is None:
                raise InputError(f"{file}: line 1: only merges of version 0.1 and 0.2 can be read")
            end_is_symbol = version[1] == "0.1"
        pairs = []
        for number, line in enumerate(lines[begin:], start=begin + 1):
            parts = line.strip("\r ").split(" ")
            if len(parts) != 2 or not all(parts):
                raise InputError(f"{file}: line {number}: not two symbols with a blank between")
            pairs.append((parts[0], parts[1]))
        return cls(pairs, end_is_symbol=end_is_symbol)

    def split(self, word: str) -> list[str]:
        """Return the pieces of a word; all but the last end with @@."""
        if word not in self._known:
            self._known[word] = self._split(word)
        return self._known[word]

    def _split(self, word: str) -> list[str]:
        if len(word) < 2:
            return [word]
        parts = list(word)
        parts[-1:] = [word[-1], _WORD_END] if self._end_is_symbol else [word[-1] + _WORD_END]
        while len(parts) > 1:
            ranks = [self._rank.get(pair) for pair in pairwise(parts)]
            found = [rank for rank in ranks if rank is not None]
            if not found:
                break
            parts = _merge(parts, ranks, min(found))
        if parts[-1] == _WORD_END:
            parts.pop()
        parts[-1] = parts[-1].removesuffix(_WORD_END)
        return [*(part + CONTINUED for part in parts[:-1]), parts[-1]]


def _merge(parts: list[str], ranks: list[int | None], rank: int) -> list[str]:
    """Join every pair of a rank, from the left, as pairs may overlap."""
    found, at = [], 0
    while at < len(parts):
        is_pair = at < len(ranks) and ranks[at] == rank
        found.append(parts[at] + parts[at + 1] if is_pair else parts[at])
        at += 2 if is_pair else 1
    return found


def joined(text: str) -> str:
    """Join the pieces of a text into words."""
    return f"{text} ".replace(f"{CONTINUED} ", "").rstrip(" ")


def _are_same(files: Sequence[Path]) -> bool:
    try:
        return len({read_bytes(file, VOCABULARY_BYTES) for file in files}) == 1
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except TooLargeError as error:
        raise InputError(f"{files[0].parent}: a file of merges cannot be read: {error}") from None


def find_merges(folder: Path) -> Merges | None:
    """Read the file of merges in a folder; return None if there is none."""
    try:
        files = sorted(
            file
            for file in folder.iterdir()
            if file.is_file() and (file.name in MERGES_NAMES or file.suffix in _MERGES_SUFFIXES)
        )
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    if len(files) > 1 and not _are_same(files):
        names = ", ".join(file.name for file in files)
        raise InputError(f"{folder}: has several files of merges ({names}): keep only one")
    return Merges.read(files[0]) if files else None
