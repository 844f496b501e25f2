"""Fold text: replace characters that look alike by those that a tokenizer expects.

Characters that look alike do not disturb a reader, but they hide a mark from a tokenizer. So a
text is folded before its tokens are read:

    invisible    default-ignorable characters, soft hyphens, controls: removed
    spaces       any other blank: replaced by a plain one
    forms        full-width and mathematical letters, ligatures, superscripts: NFKC
    marks        accents that the language of the text does not have: removed
    look_alikes  letters of other scripts that look Latin (UTS 39): replaced in Latin words

Characters that a language needs do not change. A word in Cyrillic letters stays if the text has
such words, and a Latin letter inside it becomes Cyrillic. Accents of European languages stay, and
those of Vietnamese or Yoruba stay in texts that are not in a European language. Joiners stay in
scripts that need them, and in emoji. Typographic quotes, dashes and fractions stay, because models
write them. Folding does not depend on a key, so p-values remain valid.

>>> fold("Ｔｈｅ c\u200bо\u00admmittее").text
'The committee'
>>> fold("Это не текст; naïve café").text
'Это не текст; naïve café'
>>> describe(fold("the сat sаt\u200b").counts)
'2 look-alike letters, 1 invisible character'
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from patternmark.io.scripts import (
    Letters,
    Text,
    in_one_script,
    is_joined_script,
    tables,
    tell_l_from_i,
    without_rare_accents,
)

__all__ = ["fold"]

VERSION = 1
SIGNATURE = f"fold:{VERSION}"  # in the signature of verdicts on folded text

_NAMES = {  # singular and plural
    "look_alikes": ("look-alike letter", "look-alike letters"),
    "invisible": ("invisible character", "invisible characters"),
    "forms": ("other form of a character", "other forms of characters"),
    "marks": ("accent", "accents"),
    "spaces": ("other space", "other spaces"),
}
# Characters that models write, but that NFKC or the table of look-alikes would change.
_TYPOGRAPHY = frozenset("‘’‚‛“”„‟′″‹›–—―…´¨¯¸²³¹¼½¾™№µ−")
_PLAIN = re.compile(rf"[\t\n\r\x20-\x7e{''.join(sorted(_TYPOGRAPHY - {'µ'}))}]*")  # µ is a letter
_BLANKS = frozenset("\u2800\u3164\uffa0\u115f\x0b\x0c\x85\u2028\u2029")  # shown as a space or break
_JOINERS = frozenset("\u200c\u200d")
_EMOJI_SELECTOR, _KEYCAP, _BLACK_FLAG = "\ufe0f", "\u20e3", "\U0001f3f4"
_MOST_MARKS = 2  # marks on one letter; no language has more


@dataclass(frozen=True, eq=False)
class Folded:
    """A folded text, the number of folded characters of each kind, and their original places."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)
    origin: NDArray[np.int64] | None = None  # [characters + 1]; None: nothing moved

    def places(self, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Turn places between characters of the folded text into places in the original."""
        if self.origin is None:
            return cuts
        found = self.origin[cuts]
        found[cuts == 0] = 0  # removed characters at the start belong to the first one
        return found


def describe(counts: Mapping[str, int]) -> str:
    """Describe what was folded, the most frequent kind first; "" if nothing was.

    >>> describe({"invisible": 1, "look_alikes": 37})
    '37 look-alike letters, 1 invisible character'
    """
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{number} {_NAMES[kind][number > 1]}" for kind, number in ordered)


def fold(text: str) -> Folded:
    """Fold a text: see the docstring of this module."""
    if _PLAIN.fullmatch(text):
        return Folded(text)
    counts: Counter[str] = Counter()
    begins, pieces = _pieces(text, counts)
    altered = {at for at, begin in enumerate(begins) if pieces[at] != text[begin]}
    read = Text(pieces, altered)
    without_rare_accents(read, counts)
    in_one_script(read, counts)
    tell_l_from_i(read)
    _plain_signs(read, counts)
    folded = "".join(read.pieces)
    if folded == text:
        return Folded(text)
    lengths = [len(piece) for piece in read.pieces]
    origin = np.append(np.repeat(np.array(begins, dtype=np.int64), lengths), len(text))
    return Folded(folded, {kind: n for kind, n in counts.items() if n}, origin)


def _pieces(text: str, counts: Counter[str]) -> tuple[list[int], list[str]]:
    """Return where each character with its marks begins in a text, and the normalised ones."""
    begins: list[int] = []
    pieces: list[str] = []
    after_other = True  # whether the last character was another space; true at the start
    for begin, cluster in _clusters(text):
        piece = _normal(cluster, counts)
        is_other = piece == " " and cluster[0] != " "
        if piece == " " and after_other and (not pieces or pieces[-1] == " "):
            continue
        if is_other and pieces and pieces[-1] == " ":
            after_other = True
            continue
        if piece:
            begins.append(begin)
            pieces.append(piece)
            after_other = is_other
    if after_other and pieces and pieces[-1] == " ":
        begins.pop()
        pieces.pop()
    return begins, pieces


def _clusters(text: str) -> Iterator[tuple[int, str]]:
    begin = 0
    for at in range(1, len(text)):
        if not _extends(text[at]):
            yield begin, text[begin:at]
            begin = at
    yield begin, text[begin:]


@lru_cache(maxsize=4096)
def _extends(character: str) -> bool:
    """Tell whether a character belongs to the one before: marks, Korean vowels, invisible ones."""
    if character < "\xad" or character in _BLANKS or character in tables().similar:
        return False
    is_jamo = "\u1160" <= character <= "\u11ff"
    return is_jamo or unicodedata.category(character)[0] == "M" or _is_invisible(character)


@lru_cache(maxsize=4096)
def _is_invisible(character: str) -> bool:
    if character in "\t\n\r" or character in _BLANKS:
        return False
    code = ord(character)
    if any(first <= code <= last for first, last in tables().ignorable):
        return True
    return unicodedata.category(character) in ("Cc", "Cf")


def _normal(cluster: str, counts: Counter[str]) -> str:
    """Remove invisible characters, and normalise the rest by NFKC, except typography."""
    if len(cluster) == 1 and " " <= cluster <= "~":
        return cluster
    kept = ""
    for character in cluster:
        if _is_invisible(character) and not _is_needed(character, kept):
            counts["invisible"] += 1
        else:
            kept += character
    if kept and (kept[0] in _BLANKS or unicodedata.category(kept[0]) == "Zs"):
        counts["spaces"] += kept[0] != " "
        counts["marks"] += len(kept) - 1
        return " "
    plain = "".join(map(_compatible, kept))
    counts["forms"] += sum(_compatible(c) != unicodedata.normalize("NFC", c) for c in kept)
    return _with_few_marks(unicodedata.normalize("NFC", plain), counts)


def _is_needed(character: str, before: str) -> bool:
    """Tell whether an invisible character has a purpose: it changes how those before are drawn."""
    if not before:
        return False
    last = before[-1]
    is_picture = unicodedata.category(before[0]) == "So" and before[0] not in _BLANKS
    if character == _EMOJI_SELECTOR:
        return (is_picture or before[0] in "0123456789#*") and last != character
    if character in _JOINERS:
        return last not in _JOINERS and (is_picture or is_joined_script(before[0]))
    if "\U000e0020" <= character <= "\U000e007f":
        return before[0] == _BLACK_FLAG  # flags of regions are spelled in tags
    is_selector = "\u180b" <= character <= "\u180f"
    return is_selector and unicodedata.name(before[0], "").startswith("MONGOLIAN")


@lru_cache(maxsize=4096)
def _compatible(character: str) -> str:
    if character in _TYPOGRAPHY:
        return character
    plain = unicodedata.normalize("NFKC", character)
    # An accent without a letter would become a blank with a mark.
    return unicodedata.normalize("NFC", character) if plain.startswith(" ") else plain


def _with_few_marks(piece: str, counts: Counter[str]) -> str:
    """Remove marks on characters that are not letters, and more than _MOST_MARKS on letters."""
    if len(piece) < 2 or not any(unicodedata.combining(c) for c in piece[1:]):
        return piece
    base, kind = piece[0], unicodedata.category(piece[0])
    most = _MOST_MARKS if kind[0] in "LM" else len(piece) if kind in ("So", "Sm") else 0
    if kind[0] == "L" and is_joined_script(base):
        return piece  # vowels and tones of Arabic, Hebrew, Indic scripts are marks
    kept, number = "", 0
    for character in piece:
        is_mark = unicodedata.category(character)[0] == "M" and character != _KEYCAP
        number += is_mark
        if is_mark and number > most:
            counts["marks"] += 1
        else:
            kept += character
    return kept


def _plain_signs(read: Text, counts: Counter[str]) -> None:
    """Replace rare signs by look-alike ASCII signs, in texts in Latin letters."""
    signs: Letters = tables().signs
    if not read.is_latin:
        return
    for at, piece in enumerate(read.pieces):
        if piece in signs and piece not in _TYPOGRAPHY:
            read.pieces[at] = signs[piece]
            counts["look_alikes"] += 1
