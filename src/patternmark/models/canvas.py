"""What is known while a sequence is being generated, in whatever order that happens.

A canvas shows the tokens that are settled, and asks for the bias of some of those that are not:
one residue of each sequence for ProteinMPNN, every masked token for Mask-Predict. It is made of
numpy arrays or of torch tensors. The marks of this package's keys know their positions and need no
canvas: it is for marks that follow what stands around a position.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from patternmark.core.promote import is_tensor

EMPTY = -1  # a token that is open
OUTSIDE = -2  # no token: before the first, behind the last, between two chains

# Of places [K] in rows [K], so many of the model's likeliest tokens and their probabilities:
# [K, k] each. Where nothing is open they are of no use, and any numbers will do.
Likely = Callable[[Any, Any, int], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Canvas:
    """N sequences of up to L tokens, of which M positions are wanted."""

    tokens: Any  # [N, L] ids, EMPTY or OUTSIDE
    rows: Any  # [M] the sequence of each wanted position
    places: Any  # [M] its place there
    previous: Any = None  # [N] the tokens of the last step, where a decoder settles one a step
    likely: Likely | None = None  # where the scheme asks for it
    logits: Any = None  # [M, V] the model's raw ones, for schemes that shift its own law
    temperature: float = 1.0  # by which a sampler divides them

    def neighbour(self, offset: int) -> Any:
        """Return the token so many places further on: [M] ids, EMPTY or OUTSIDE.

        >>> import numpy as np
        >>> canvas = Canvas(np.array([[7, EMPTY, 5]]), np.array([0, 0]), np.array([0, 1]))
        >>> canvas.neighbour(-1).tolist(), canvas.neighbour(1).tolist()
        ([-2, 7], [-1, 5])
        """
        there = self.places + offset
        length = self.tokens.shape[1]
        found = self.tokens[self.rows, there.clip(0, length - 1)]
        return library_of(found).where((there >= 0) & (there < length), found, OUTSIDE)

    def likely_neighbour(self, offset: int, count: int) -> tuple[Any, Any]:
        """Return the likeliest tokens so many places further on, and their probabilities.

        A token that is known is certain. [M, count] each; a probability of 0 stands for no token.
        """
        if self.likely is None:
            raise TypeError("this canvas was made without the model's distributions")
        known = self.neighbour(offset)
        there = (self.places + offset).clip(0, self.tokens.shape[1] - 1)
        ids, p = self.likely(self.rows, there, count)
        library = library_of(known)
        is_known, is_open = (known >= 0)[:, None], (known == EMPTY)[:, None]
        alone = library.zeros_like(p)
        alone[:, 0] = 1.0
        ids = library.where(is_known, known[:, None], ids)
        return ids, library.where(is_known, alone, library.where(is_open, p, 0.0 * p))


class CanvasMarks(Protocol):
    """Marks of N sequences that follow what is known around each position."""

    @property
    def likely(self) -> int:
        """How many likely tokens of open neighbours a canvas must offer."""

    def bias(self, canvas: Canvas) -> Any:
        """Return what to add to the raw logits of the wanted positions: [M, V]."""


def library_of(array: Any) -> Any:
    """Return numpy, or torch where `array` is a tensor."""
    return sys.modules["torch"] if is_tensor(array) else np
