"""Changes that tokenizers notice but readers hardly do: case, look-alikes, invisible characters.

None of them changes the meaning of a text. A detector folds a text before it reads it
(`io.folding`), which undoes look-alikes, invisible characters and full width. Folding leaves case
and punctuation unchanged, because no rule can know the original.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

# Latin letters, and the Cyrillic or Greek letters that look the same.
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
_FIRST_FULL, _FIRST_ASCII, _LAST_ASCII = 0xFF01, 0x21, 0x7E


def change_case(text: str, share: float, rng: np.random.Generator) -> str:
    """Write each word, with probability `share`, in another case: lower, upper or capitalised."""

    def changed(word: str, pick: float) -> str:
        others = [w for w in (word.lower(), word.upper(), word.capitalize()) if w != word]
        return others[int(pick * len(others))] if others else word

    return _each(r"\S+", text, share, rng, changed)


def change_punctuation(text: str, share: float, rng: np.random.Generator) -> str:
    """Exchange plain and typographic quotes, hyphens and dots, each with probability `share`."""
    return _each(_MARKS, text, share, rng, lambda mark, _: _OTHER_MARK[mark])


def use_homoglyphs(text: str, share: float, rng: np.random.Generator) -> str:
    """Replace each Latin letter that has a look-alike by it, with probability `share`."""
    letters = f"[{''.join(HOMOGLYPHS)}]"
    return _each(letters, text, share, rng, lambda letter, _: HOMOGLYPHS[letter])


def insert_invisible(text: str, share: float, rng: np.random.Generator) -> str:
    """Insert an invisible character after each character with probability `share`."""

    def followed(character: str, pick: float) -> str:
        return character + INVISIBLE[int(pick * len(INVISIBLE))]

    return _each(re.compile(".", re.DOTALL), text, share, rng, followed)


def use_full_width(text: str, share: float, rng: np.random.Generator) -> str:
    """Replace each plain character by its full-width form, with probability `share`."""

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
    """Change each match of a pattern with probability `share`; `change` gets a random number."""

    def maybe(found: re.Match[str]) -> str:
        is_changed, pick = rng.random(2)
        return change(found[0], pick) if is_changed < share else found[0]

    return re.sub(pattern, maybe, text)
