"""Split a paragraph into sentences."""

from __future__ import annotations

import re

# The end of a sentence: a stop, a space, and a capital, digit or quote. But not after a numeral, a
# single letter or a common abbreviation.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b\w\.)(?<!\d\.)(?<!\b(?:Dr|Mr|Ms|Nr|No|St|ca)\.)"
    r"(?<!\b(?:Mrs|Art|Abs|Mio|Mrd|bzw|usw|vgl|etc|inc)\.)(?<!\bProf\.)"
    r"\s+(?=[\"'„“‘(«–-]?\s?[A-ZÀ-Þ0-9])"
)


def sentences(text: str) -> list[str]:
    """Split a paragraph into sentences.

    >>> sentences("It is so. We know that! Do we?")
    ['It is so.', 'We know that!', 'Do we?']
    """
    return [part for part in _SENTENCE_END.split(text) if part]
