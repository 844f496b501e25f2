"""What a scheme is: keyed lists, a rule that picks them while generating, and a detector.

A bias is added to raw logits, before a sampler divides them by its temperature: the same for all
schemes (`delta_at = "logits"`, see `promote`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import log
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.promote import check_delta
from patternmark.core.secret import Secret
from patternmark.models.canvas import Canvas
from patternmark.null.binomial import binomial_log_tail
from patternmark.results import p_value_of
from patternmark_lab.schemes.marks import Stack
from patternmark_lab.schemes.rules import Rule

_LN10 = log(10.0)
_OF_ANY_DELTA = ("greens", "colour_of", "weights")  # made of secret and alphabet alone


@dataclass(frozen=True, eq=False)
class Judged:
    """What a detector says of each of n sequences."""

    score: NDArray[np.float64]  # [n] larger where a mark is likelier: for an empirical threshold
    log_p: NDArray[np.float64]  # [n] ln of the scheme's own p-value
    scored: NDArray[np.int64]  # [n] how many symbols or pairs counted

    @property
    def log10_p(self) -> NDArray[np.float64]:
        return np.asarray(self.log_p / _LN10)

    @classmethod
    def of_count(cls, hits: NDArray[np.int64], trials: NDArray[np.int64], chance: float) -> Judged:
        """Judge by how many of so many are hits: z for a score, the exact binomial tail for p."""
        spread = np.sqrt(np.maximum(trials * chance * (1.0 - chance), 1e-12))
        z = np.where(trials > 0, (hits - chance * trials) / spread, 0.0)
        return cls(z, binomial_log_tail(hits, trials, chance), trials)

    @classmethod
    def of_p(cls, log_p: NDArray[np.float64], scored: NDArray[np.int64]) -> Judged:
        """Judge by p alone: its score is -log10 p."""
        return cls(0.0 - log_p / _LN10, log_p, scored)


@dataclass(frozen=True, eq=False)
class Scheme(ABC):
    """A way to mark what a model writes in any order, and to find that again."""

    secret: Secret
    alphabet: Alphabet
    delta: float

    name: ClassVar[str]
    # Picks lists by what is around a position; None where keys of positions pick them.
    rule: ClassVar[Rule | None] = None
    # Whether a bias marks; else the model's candidates are chosen among.
    by_bias: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_delta(self.delta)

    @property
    def strength(self) -> float:
        """What is added to the raw logits of a list's symbols."""
        return self.delta

    def table(self) -> NDArray[np.bool_]:
        """Return the symbols of every list: [lists, V].

        A scheme whose lists are too many to be laid out has none here, and `promoted` instead.
        """
        return np.zeros((0, self.alphabet.size), dtype=bool)

    def promoted(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the symbols of some lists, which keys of positions name: [len(keys), V]."""
        return self.table()[keys]

    @abstractmethod
    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Look for the mark in sequences, given as letters or ids."""

    def keys(
        self, length: int, seed: int | str, numbers: Sequence[int]
    ) -> NDArray[np.int64] | None:
        """Draw the list of every position of numbered sequences [N, length], if no rule picks."""
        del length, seed, numbers
        return None

    def with_delta(self, delta: float) -> Self:
        """Return the scheme at another strength; lists that were made are shared."""
        other = replace(self, delta=delta)
        made = vars(self)
        vars(other).update({name: made[name] for name in _OF_ANY_DELTA if name in made})
        return other

    def differs_in_delta_alone(self, other: Scheme) -> bool:
        """Tell whether two schemes promote the same lists, each at its strength."""
        names = {field.name for field in fields(self)} - {"delta"}
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    def bias(self, canvas: Canvas, seed: int | str = 0) -> Any:
        """Return what to add to the raw logits of the wanted positions: [M, V].

        Row i of the canvas is sequence number i of the seed. To do this again and again with the
        same sequences, make a `Stack` once.
        """
        count, length = canvas.tokens.shape
        keys = self.keys(length, seed, range(count))
        return Stack([self], canvas.tokens).marks([0] * count, keys).bias(canvas)

    def log10_p(self, sequence: str | ArrayLike) -> float:
        """Return log10 of the scheme's own p-value of one sequence."""
        return float(self.judge([sequence]).log10_p[0])

    def p_value(self, sequence: str | ArrayLike) -> float:
        """Return the scheme's own p-value of one sequence."""
        return p_value_of(float(self.judge([sequence]).log_p[0]))

    def score(self, sequence: str | ArrayLike) -> float:
        """Return the statistic for thresholds that are measured."""
        return float(self.judge([sequence]).score[0])

    def __getstate__(self) -> dict[str, Any]:
        """Return what makes the scheme, not what was made of it: other processes make it anew."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
