"""Tricks that a reader hardly sees and a tokenizer does: case, look-alikes, invisible characters.

None of them changes what a text says, so a detector may undo them before it reads: `undone` does,
all but a change of case, which no rule can undo.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import numpy as np

# Latin letters and the Cyrillic or Greek ones drawn alike.
HOMOGLYPHS = dict(
    zip(
        "aceijopsxyABCEHIJKMOPSTXYZ",
        "асеіјорѕхуАВСЕНІЈКМОРЅТХΥΖ",
        strict=True,
    )
)
# Zero-width space, non-joiner, joiner, word joiner, soft hyphen.
INVISIBLE = "\u200b\u200c\u200d\u2060\u00ad"
_TYPOGRAPHIC = {"'": "’", '"': "”", "-": "–", "...": "…"}
_PLAIN = {
    **{new: old for old, new in _TYPOGRAPHIC.items()},
    "‘": "'", "‚": "'", "“": '"', "„": '"', "—": "-", "‐": "-", "‑": "-",
}  # fmt: skip
_OTHER_MARK = {**_PLAIN, **_TYPOGRAPHIC}
_MARKS = re.compile("|".join(map(re.escape, sorted(_OTHER_MARK, key=len, reverse=True))))
_PLAIN_MARKS = re.compile("|".join(map(re.escape, _PLAIN)))
_FIRST_FULL, _FIRST_ASCII, _LAST_ASCII = 0xFF01, 0x21, 0x7E
_LATIN = {look_alike: letter for letter, look_alike in HOMOGLYPHS.items()}


def change_case(text: str, share: float, rng: np.random.Generator) -> str:
    """Write each word, with some probability, in another case: lower, upper, or a first capital."""

    def changed(word: str, pick: float) -> str:
        others = [w for w in (word.lower(), word.upper(), word.capitalize()) if w != word]
        return others[int(pick * len(others))] if others else word

    return _each(r"\S+", text, share, rng, changed)


def change_punctuation(text: str, share: float, rng: np.random.Generator) -> str:
    """Turn plain quotes, hyphens and dots into typographic ones, and those into plain ones."""
    return _each(_MARKS, text, share, rng, lambda mark, _: _OTHER_MARK[mark])


def use_homoglyphs(text: str, share: float, rng: np.random.Generator) -> str:
    """Replace each Latin letter that has a double, with some probability, by it."""
    letters = f"[{''.join(HOMOGLYPHS)}]"
    return _each(letters, text, share, rng, lambda letter, _: HOMOGLYPHS[letter])


def insert_invisible(text: str, share: float, rng: np.random.Generator) -> str:
    """Insert an invisible character after each character with some probability."""

    def followed(character: str, pick: float) -> str:
        return character + INVISIBLE[int(pick * len(INVISIBLE))]

    return _each(re.compile(".", re.DOTALL), text, share, rng, followed)


def use_full_width(text: str, share: float, rng: np.random.Generator) -> str:
    """Replace each plain character, with some probability, by its full-width form."""

    def widened(character: str, _: float) -> str:
        return chr(ord(character) - _FIRST_ASCII + _FIRST_FULL)

    return _each(f"[{chr(_FIRST_ASCII)}-{chr(_LAST_ASCII)}]", text, share, rng, widened)


def _each(
    pattern: str | re.Pattern[str],
    text: str,
    share: float,
    rng: np.random.Generator,
    change: Callable[[str, float], str],
) -> str:
    """Change what a pattern finds, each with some probability; `change` gets a random number."""

    def maybe(found: re.Match[str]) -> str:
        is_changed, pick = rng.random(2)
        return change(found[0], pick) if is_changed < share else found[0]

    return re.sub(pattern, maybe, text)


def undone(text: str) -> str:
    """Undo what can be undone: full width, invisible characters, look-alikes, typography.

    Full-width forms are what NFKC undoes; NFC, which every reader of texts here applies, undoes
    none of these. A look-alike becomes Latin in words that have Latin letters beside it.

    >>> undone("Ｔｈｅ c\u200bаt “sat”…")
    'The cat "sat"...'
    """
    text = unicodedata.normalize("NFKC", text)
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = _PLAIN_MARKS.sub(lambda mark: _PLAIN[mark[0]], text)
    return re.sub(r"\S+", lambda word: _in_latin(word[0]), text)


def _in_latin(word: str) -> str:
    """Turn look-alikes into Latin letters, unless the word may be one of another script."""
    letters = [c for c in word if c.isalpha()]
    foreign = [c for c in letters if not unicodedata.name(c, "").startswith("LATIN")]
    if any(c not in _LATIN for c in foreign):
        return word
    return "".join(_LATIN.get(c, c) for c in word)
