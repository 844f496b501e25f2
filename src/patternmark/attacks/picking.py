"""Natural sentences that happen to follow a mark: forging readable text without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import ParameterError

Symbols = NDArray[np.int64]


class TextKnowledge(Protocol):
    """What an attacker believes after having seen texts."""

    def evidence(self, text: Symbols, at: int = 0) -> float:
        """Return how much a piece of text that begins at a place speaks for the mark."""

    def forge(self, length: int, rng: np.random.Generator) -> Symbols:
        """Write a text of words in no order."""


def pick_sentences(
    knowledge: TextKnowledge,
    sentences: Sequence[Symbols],
    length: int,
    rng: np.random.Generator,
    tries: int = 300,
) -> Symbols:
    """Put natural sentences together that speak for the mark, and cut the text to its length.

    Each sentence is the best of so many drawn at random; none comes twice.
    """
    text: list[int] = []
    left = rng.permutation(len(sentences))
    while len(text) < length:
        if not len(left):
            raise ParameterError(f"too few sentences for a text of {length} tokens")
        offered = [sentences[i] for i in left[:tries]]
        found = [knowledge.evidence(one, len(text)) / np.sqrt(max(len(one), 1)) for one in offered]
        best = int(np.argmax(found))
        text += offered[best].tolist()
        left = rng.permutation(np.delete(left, best))
    return np.array(text[:length], dtype=np.int64)
