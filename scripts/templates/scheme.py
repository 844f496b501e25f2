"""Example: one secret list of half the symbols is promoted at every position.

Say here what is promoted, what the detector counts, and of which sequences its p-value holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark_lab.schemes.base import Judgements, Scheme
from patternmark_lab.schemes.layout import Layout
from patternmark_lab.schemes.lists import fair_row, list_size
from patternmark_lab.schemes.rules import Everywhere, Rule

GAMMA = 0.5  # the share of the symbols that a list holds


@dataclass(frozen=True, eq=False)
class Example(Scheme):
    """One list for all positions; p is the tail of Bin(n, GAMMA)."""

    name: ClassVar[str] = "example"
    rule: ClassVar[Rule] = Everywhere()  # picks the rows of `table` by what is around a position

    @cached_property
    def greens(self) -> NDArray[np.bool_]:
        """The promoted symbols: [V]."""
        label = f"example/{self.alphabet.sha256}"
        return fair_row(self.secret, label, self.alphabet, list_size(GAMMA, self.alphabet))

    def table(self) -> NDArray[np.bool_]:
        """Return all lists: [1, V]."""
        return self.greens[None]

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the symbols in the list."""
        layout = Layout.of(sequences, self.alphabet)
        symbols, record = layout.scored()
        hits, trials = (
            layout.per_sequence(record[self.greens[symbols]]),
            layout.per_sequence(record),
        )
        return Judgements.of_count(hits, trials, GAMMA)
