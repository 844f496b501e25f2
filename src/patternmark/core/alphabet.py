"""What a symbol is: amino acids or the ids of a tokenizer, and which of them are never scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError, SequenceError

# All sentinels of the package stand here. Symbols and keys are numbers from 0.
SEPARATOR = -1  # between the chains of one record: not a symbol, and no pattern crosses it
UNREAD = -1  # a position of a reading that says nothing; finds the last column of a table
NO_KEY = -1  # a position that carries no key: fixed, prompt, or an unscored symbol
NO_COIN = -2  # a symbol that rests on no secret coin, where SEPARATOR keeps its meaning
NO_SYMBOL = -2  # a character that no symbol is written with

FEW_SYMBOLS = 64  # up to this size a schedule is laid out whole; of larger ones, what is used
MANY_SYMBOLS = 512  # from this size on a sequence meets most symbols seldom or never


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
    letters: str = ""  # one character per id, where sequences are written in letters
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
        """Make an alphabet of the symbols in their id order; `characters` are further fields."""
        if len(set(symbols)) != len(symbols):
            twice = next(s for i, s in enumerate(symbols) if s in symbols[:i])
            raise ParameterError(f"alphabet {name!r}: symbol {twice!r} stands twice")
        ids = tuple(sorted(set(unscored)))
        if ids and not (ids[0] >= 0 and ids[-1] < len(symbols)):
            raise ParameterError(f"alphabet {name!r}: unscored ids must be 0..{len(symbols) - 1}")
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
        is_scored[[*self.unscored, SEPARATOR]] = False  # SEPARATOR, -1, finds the last
        return is_scored

    def is_scored(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which ids can carry the mark; a SEPARATOR cannot."""
        return np.asarray(self._is_scored[ids])

    @property
    def num_scored(self) -> int:
        return self.size - len(self.unscored)

    @property
    def has_many_symbols(self) -> bool:
        """Whether a sequence meets most symbols seldom or never, as text does its tokens."""
        return self.num_scored >= MANY_SYMBOLS

    def encode(self, sequence: str | ArrayLike) -> NDArray[np.int64]:
        """Turn letters (either case) or ids into ids, or say which symbol does not fit."""
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
        written = self.letters + self.separators[:1]  # SEPARATOR, -1, finds the last
        return "".join(written[i] for i in np.asarray(ids).tolist())

    def _encode_letters(self, text: str) -> NDArray[np.int64]:
        if not self.letters:
            raise SequenceError(
                f"alphabet {self.name!r} is made of token ids, not letters: turn text into ids "
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


_LAST_CODE_POINT = 128  # letters are ASCII; every other code point lands here, on no symbol

# The order of ProteinMPNN. B, Z, J (ambiguous), U, O (rare), stops and gaps read as X: no key.
PROTEIN = Alphabet.from_symbols(
    "protein",
    "ACDEFGHIKLMNPQRSTVWYX",
    unscored=[20],
    written_in_letters=True,
    unscored_aliases="BZJUO*-.~?",
    separators="/:",
)

# How often each letter occurs in UniProtKB/Swiss-Prot, in hundredths of a percent; X never.
PROTEIN_BACKGROUND = (
    825, 138, 546, 672, 386, 707, 227, 591, 580, 965,
    241, 406, 474, 393, 553, 665, 536, 686, 110, 292, 0,
)  # fmt: skip
