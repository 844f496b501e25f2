"""Forge readable text without a model: pick natural sentences that happen to follow a mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import ParameterError

Symbols = NDArray[np.int64]


class TextKnowledge(Protocol):
    """What an attacker believes after seeing marked texts."""

    def evidence(self, text: Symbols, at: int = 0) -> float:
        """Return the evidence for the mark in a piece of text that begins at place `at`."""

    def forge(self, length: int, rng: np.random.Generator) -> Symbols:
        """Write a text of tokens in no meaningful order."""


def pick_sentences(
    knowledge: TextKnowledge,
    sentences: Sequence[Symbols],
    length: int,
    rng: np.random.Generator,
    tries: int = 300,
) -> Symbols:
    """Put together natural sentences with evidence for the mark, and cut the text to `length`.

    Each sentence is the best of `tries` random ones; none is used twice.
    """
    text: list[int] = []
    left = rng.permutation(len(sentences))
    while len(text) < length:
        if not len(left):
            raise ParameterError(f"too few sentences for a text of {length} tokens: give more")
        offered = [sentences[i] for i in left[:tries]]
        found = [knowledge.evidence(one, len(text)) / np.sqrt(max(len(one), 1)) for one in offered]
        best = int(np.argmax(found))
        text += offered[best].tolist()
        left = rng.permutation(np.delete(left, best))
    return np.array(text[:length], dtype=np.int64)
