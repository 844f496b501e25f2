"""The state of sequences while they are generated, in any order.

A canvas holds the tokens that are already chosen, and the open positions whose bias is wanted next:
one residue of each sequence for ProteinMPNN, all masked tokens for Mask-Predict. Its arrays are of
numpy or torch. The keys of this package depend on positions alone and need no canvas. It is for
marks that depend on neighbouring tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from patternmark.arrays import is_tensor

EMPTY = -1  # an open position
OUTSIDE = -2  # no position: before the first, after the last, or between two chains

# Takes rows [K], places [K] and a number k; returns the k likeliest tokens of each place and their
# probabilities: [K, k] each. Where a place is not open, the results are arbitrary.
Likely = Callable[[Any, Any, int], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Canvas:
    """N sequences of up to L tokens, with M positions whose bias is wanted."""

    tokens: Any  # [N, L] ids, EMPTY or OUTSIDE
    rows: Any  # [M] the sequence of each wanted position
    places: Any  # [M] its place there
    previous: Any = None  # [N] the tokens of the last step, if a decoder chooses one per step
    likely: Likely | None = None  # if the scheme needs it
    logits: Any = None  # [M, V] the raw logits, for schemes that change the model's distribution
    temperature: float = 1.0  # by which the sampler divides the logits

    def neighbour(self, offset: int) -> Any:
        """Return the token `offset` places after each wanted position: [M] ids, EMPTY or OUTSIDE.

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
        """Return the likeliest tokens `offset` places further on, and their probabilities.

        Both are [M, count]. A known token has probability 1; a probability of 0 means no token.
        """
        if self.likely is None:
            raise TypeError("this canvas has no `likely`: make it with the model's distributions")
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
    """Marks of N sequences that depend on the tokens around each position."""

    @property
    def likely(self) -> int:
        """How many likely tokens of open neighbours a canvas must offer; 0 means none."""

    def bias(self, canvas: Canvas) -> Any:
        """Return what to add to the raw logits of the wanted positions: [M, V]."""


def library_of(array: Any) -> Any:
    """Return the module of an array: torch for tensors, else numpy."""
    return sys.modules["torch"] if is_tensor(array) else np
