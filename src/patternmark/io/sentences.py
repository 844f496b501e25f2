"""Where a sentence ends."""

from __future__ import annotations

import re

# The end of a sentence: a stop, a space, and a capital, digit or quote. Not behind a numeral, a
# single letter or what is usually abbreviated.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b\w\.)(?<!\d\.)(?<!\b(?:Dr|Mr|Ms|Nr|No|St|ca)\.)"
    r"(?<!\b(?:Mrs|Art|Abs|Mio|Mrd|bzw|usw|vgl|etc|inc)\.)(?<!\bProf\.)"
    r"\s+(?=[\"'„“‘(«–-]?\s?[A-ZÀ-Þ0-9])"
)


def sentences(text: str) -> list[str]:
    """Split a paragraph where a sentence ends.

    >>> sentences("It is so. We know that! Do we?")
    ['It is so.', 'We know that!', 'Do we?']
    """
    return [part for part in _SENTENCE_END.split(text) if part]
