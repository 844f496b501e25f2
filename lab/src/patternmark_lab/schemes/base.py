"""The base class of a scheme: keyed lists, a rule that picks lists, and a detector.

All schemes add their bias to raw logits, before the sampler divides them by its temperature
(`delta_at = "logits"`, see `promote`).
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
_INDEPENDENT_OF_DELTA = ("greens", "colour_of", "weights")  # cached; from secret and alphabet alone


@dataclass(frozen=True, eq=False)
class Judgements:
    """A detector's results for n sequences."""

    score: NDArray[np.float64]  # [n] larger if a mark is likelier, for measured thresholds
    log_p: NDArray[np.float64]  # [n] ln of the scheme's own p-value
    scored: NDArray[np.int64]  # [n] number of symbols or pairs that were counted

    @property
    def log10_p(self) -> NDArray[np.float64]:
        return np.asarray(self.log_p / _LN10)

    @classmethod
    def of_count(
        cls, hits: NDArray[np.int64], trials: NDArray[np.int64], chance: float
    ) -> Judgements:
        """Judge by the number of hits in `trials`: the score is z, p the exact binomial tail."""
        spread = np.sqrt(np.maximum(trials * chance * (1.0 - chance), 1e-12))
        z = np.where(trials > 0, (hits - chance * trials) / spread, 0.0)
        return cls(z, binomial_log_tail(hits, trials, chance), trials)

    @classmethod
    def of_p(cls, log_p: NDArray[np.float64], scored: NDArray[np.int64]) -> Judgements:
        """Judge by p alone: the score is -log10 p."""
        return cls(0.0 - log_p / _LN10, log_p, scored)


@dataclass(frozen=True, eq=False)
class Scheme(ABC):
    """A way to mark what a model writes in any order, and to detect the mark."""

    secret: Secret
    alphabet: Alphabet
    delta: float

    name: ClassVar[str]
    # Picks the lists of a position from its neighbours. None: position keys pick them.
    rule: ClassVar[Rule | None] = None
    # True: marks by a bias. False: marks by choosing among the model's candidates.
    by_bias: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_delta(self.delta)

    @property
    def strength(self) -> float:
        """The bias on the raw logits of a list's symbols."""
        return self.delta

    def table(self) -> NDArray[np.bool_]:
        """Return the symbols of every list: [lists, V].

        A scheme with too many lists for one table returns no rows here and defines `promoted`.
        """
        return np.zeros((0, self.alphabet.size), dtype=bool)

    def promoted(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the symbols that these position keys promote: [len(keys), V]."""
        return self.table()[keys]

    @abstractmethod
    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Look for the mark in sequences, given as letters or ids."""

    def keys(
        self, length: int, seed: int | str, numbers: Sequence[int]
    ) -> NDArray[np.int64] | None:
        """Draw position keys of the numbered sequences [N, length]; None if a rule picks lists."""
        del length, seed, numbers
        return None

    def with_delta(self, delta: float) -> Self:
        """Return the scheme at another strength, which shares the lists that exist already."""
        other = replace(self, delta=delta)
        made = vars(self)
        vars(other).update({name: made[name] for name in _INDEPENDENT_OF_DELTA if name in made})
        return other

    def differs_in_delta_alone(self, other: Scheme) -> bool:
        """Tell whether two schemes promote the same lists, perhaps at different strengths."""
        names = {field.name for field in fields(self)} - {"delta"}
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    def bias(self, canvas: Canvas, seed: int | str = 0) -> Any:
        """Return the bias for the raw logits of the wanted positions: [M, V].

        Row i of the canvas is sequence number i of the seed. To call this many times for the same
        sequences, make a `Stack` once instead.
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
        """Return the statistic of one sequence, for measured thresholds."""
        return float(self.judge([sequence]).score[0])

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached lists: other processes make the lists again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
