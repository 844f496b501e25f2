"""Alphabets: the symbols of a sequence (amino acids or token ids), and which are never scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError, SequenceError

# All sentinels of the package are defined here. Symbols and position keys are numbers from 0.
SEPARATOR = -1  # between the chains of one record: not a symbol, and no pattern crosses it
UNREAD = -1  # a position that a detector does not count; as an index: the last column of a table
NO_KEY = -1  # a position without a key: fixed, part of the prompt, or an unscored symbol
NO_COIN = -2  # a symbol without a secret coin, in arrays where -1 is SEPARATOR
NO_SYMBOL = -2  # a character that stands for no symbol

SMALL_ALPHABET = 64  # symbols up to which whole schedules are computed, not only what is used
LARGE_ALPHABET = 512  # symbols from which on most of them are rare or absent in one sequence


@dataclass(frozen=True)
class Alphabet:
    """Symbols 0..size-1; `sha256` pins their order and which of them are unscored.

    >>> PROTEIN.encode("mkX-w").tolist()
    [10, 8, 20, 20, 18]
    >>> PROTEIN.num_scored
    20
    """

    name: str
    size: int
    unscored: tuple[int, ...]
    sha256: str
    letters: str = ""  # one character per id; empty if sequences are token ids
    unscored_aliases: str = ""  # further characters that are read as the first unscored symbol
    separators: str = ""  # characters between the chains of one record, read as SEPARATOR

    @classmethod
    def from_symbols(
        cls,
        name: str,
        symbols: Sequence[str],
        unscored: Iterable[int],
        *,
        written_in_letters: bool = False,
        **characters: str,
    ) -> Alphabet:
        """Make an alphabet from its symbols in the order of their ids.

        `characters` sets the fields `unscored_aliases` and `separators`.
        """
        if len(set(symbols)) != len(symbols):
            twice = next(s for i, s in enumerate(symbols) if s in symbols[:i])
            raise ParameterError(f"alphabet {name!r}: symbol {twice!r} is listed twice")
        ids = tuple(sorted(set(unscored)))
        if ids and not (ids[0] >= 0 and ids[-1] < len(symbols)):
            allowed = f"unscored ids must lie in 0..{len(symbols) - 1}"
            raise ParameterError(f"alphabet {name!r}: {allowed}")
        content = json.dumps({"symbols": list(symbols), "unscored": ids}, separators=(",", ":"))
        digest = hashlib.sha256(content.encode()).hexdigest()
        letters = "".join(symbols) if written_in_letters else ""
        return cls(name, len(symbols), ids, digest, letters, **characters)

    @cached_property
    def scored(self) -> NDArray[np.intp]:
        """The ids that can carry the mark, ascending."""
        return np.flatnonzero(self._is_scored)

    @cached_property
    def _is_scored(self) -> NDArray[np.bool_]:
        is_scored = np.ones(self.size + 1, dtype=bool)
        is_scored[[*self.unscored, SEPARATOR]] = False  # SEPARATOR is -1: the last entry
        return is_scored

    def is_scored(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which ids can carry the mark; a SEPARATOR cannot."""
        return np.asarray(self._is_scored[ids])

    @property
    def num_scored(self) -> int:
        return self.size - len(self.unscored)

    @property
    def has_many_symbols(self) -> bool:
        """Whether most symbols are rare or absent in one sequence, like the tokens of a text."""
        return self.num_scored >= LARGE_ALPHABET

    def encode(self, sequence: str | ArrayLike) -> NDArray[np.int64]:
        """Turn letters (either case) or ids into ids; SequenceError names a wrong symbol."""
        if isinstance(sequence, str):
            return self._encode_letters(sequence)
        raw = np.asarray(sequence)
        if raw.ndim != 1 or not (np.issubdtype(raw.dtype, np.integer) or raw.size == 0):
            raise SequenceError("token ids must be one flat list of whole numbers")
        ids = raw.astype(np.int64)
        lowest = SEPARATOR if self.separators else 0
        bad = np.flatnonzero((ids < lowest) | (ids >= self.size))
        if bad.size:
            at = int(bad[0])
            where = f"alphabet {self.name!r} of {self.size} symbols"
            raise SequenceError(f"token id {ids[at]} at position {at + 1} is not in {where}")
        return ids

    def decode(self, ids: ArrayLike) -> str:
        """Turn ids into letters; a SEPARATOR becomes the first separator.

        >>> PROTEIN.decode([10, 8, 20, -1, 18])
        'MKX/W'
        """
        written = self.letters + self.separators[:1]  # SEPARATOR is -1: the last character
        return "".join(written[i] for i in np.asarray(ids).tolist())

    def _encode_letters(self, text: str) -> NDArray[np.int64]:
        if not self.letters:
            raise SequenceError(
                f"alphabet {self.name!r} consists of token ids, not letters: turn text into ids "
                "with its tokenizer (patternmark.io.tokenizer)"
            )
        code_points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        ids: NDArray[np.int64] = self._id_of_code_point[np.minimum(code_points, _LAST_CODE_POINT)]
        bad = np.flatnonzero(ids == NO_SYMBOL)
        if bad.size:
            at = int(bad[0])
            where = f"position {at + 1} is not a letter of alphabet {self.name!r}"
            raise SequenceError(f"character {text[at]!r} at {where}")
        return ids

    @cached_property
    def _id_of_code_point(self) -> NDArray[np.int64]:
        table = np.full(_LAST_CODE_POINT + 1, NO_SYMBOL, dtype=np.int64)
        for character in self.separators:
            table[ord(character)] = SEPARATOR
        for character in self.unscored_aliases:
            table[[ord(character.lower()), ord(character.upper())]] = self.unscored[0]
        for index, character in enumerate(self.letters):
            table[[ord(character.lower()), ord(character.upper())]] = index
        return table


_LAST_CODE_POINT = 128  # letters are ASCII; all other code points are looked up here: NO_SYMBOL

# The order of ProteinMPNN. B, Z, J (ambiguous), U, O (rare), stops and gaps are read as X.
PROTEIN = Alphabet.from_symbols(
    "protein",
    "ACDEFGHIKLMNPQRSTVWYX",
    unscored=[20],
    written_in_letters=True,
    unscored_aliases="BZJUO*-.~?",
    separators="/:",
)

# How often each letter occurs in UniProtKB/Swiss-Prot, in hundredths of a percent; X counts as 0.
PROTEIN_BACKGROUND = (
    825, 138, 546, 672, 386, 707, 227, 591, 580, 965,
    241, 406, 474, 393, 553, 665, 536, 686, 110, 292, 0,
)  # fmt: skip
