"""Later marks for order-agnostic models: TANGO, the expectation-based one, DMark and LR-DWM.

As far as their descriptions go. What they leave open is read as their docstrings say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark_lab.schemes.base import Judged, Scheme
from patternmark_lab.schemes.laid import Laid, counted_pairs
from patternmark_lab.schemes.lists import Lists, byte_limit, colouring, drawn_row
from patternmark_lab.schemes.rules import GAP, BothSides, EitherSide, LikelySides, Rule, right_list

_LIKELY = 50


@dataclass(frozen=True, eq=False)
class Tango(Scheme):
    """TANGO (arXiv 2609.35224): colours of two tokens two places apart sum to 0 modulo 3.

    q = 3 colours, lag 2, coefficient 1, residue 0; either side: the token at the left decides the
    favoured colour where it is known, else that at the right, else nothing is promoted.
    Detector: all pairs at the lag, Bin(T, 1/q), z as published. Reading: the hash colouring (a
    keyed shuffle cut into q parts of equal size); the semantic one needs a model's embeddings.
    """

    colours: int = 3

    name: ClassVar[str] = "tango"
    lag: ClassVar[int] = GAP
    rule: ClassVar[Rule] = EitherSide(lag)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.colours <= self.alphabet.num_scored:
            raise ParameterError(f"{self.colours} colours do not fit {self.alphabet.name!r}")

    @cached_property
    def colour_of(self) -> NDArray[np.int64]:
        """The colour of each symbol, or -1: [V]."""
        label = f"tango/{self.alphabet.sha256}/{self.colours}"
        return colouring(self.secret, label, self.alphabet, self.colours)

    def table(self) -> NDArray[np.bool_]:
        """Return the symbols whose colour fits that of each token at the lag: [V, V]."""
        colour = self.colour_of
        of_colour = colour == np.arange(self.colours)[:, None]  # [q, V]
        fits = of_colour[-colour % self.colours]
        fits[colour < 0] = False
        return np.asarray(fits)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the pairs whose colours sum to 0."""
        laid = Laid.out(sequences, self.alphabet)
        pairs = laid.pairs(self.lag)
        hit = (self.colour_of[pairs.left] + self.colour_of[pairs.right]) % self.colours == 0
        return Judged.of_count(*laid.counts(pairs, hit), 1.0 / self.colours)


@dataclass(frozen=True, eq=False)
class Matrix(Scheme):
    """Schemes of one matrix of bits G[left, right], each 1 with chance gamma."""

    gamma: float = 0.5

    @cached_property
    def greens(self) -> Lists:
        """Which right neighbours each token lists: rows of the matrix."""
        alphabet = self.alphabet
        has_own = alphabet.is_scored(np.arange(alphabet.size))

        def make(token: int) -> NDArray[np.bool_]:
            return self.row(token) if has_own[token] else np.zeros(alphabet.size, dtype=bool)

        return Lists(alphabet.size, alphabet.size, make)

    def row(self, token: int) -> NDArray[np.bool_]:
        """Draw the row of a scored token: [V]."""
        label = f"{self.name}/{self.alphabet.sha256}/{token}"
        return drawn_row(self.secret, label, self.alphabet, byte_limit(self.gamma))

    def table(self) -> NDArray[np.bool_]:
        """Return rows, for left neighbours, nothing, and columns, for right ones: [2 V + 1, V]."""
        rows = self.greens.whole()
        return np.concatenate([rows, np.zeros((1, self.alphabet.size), dtype=bool), rows.T])

    def judge_pairs(self, sequences: Iterable[str | ArrayLike], distinct: bool | None) -> Judged:
        """Count the pairs of neighbours that the matrix holds; None: see `counted_pairs`."""
        laid = Laid.out(sequences, self.alphabet)
        pairs = counted_pairs(laid, self.alphabet, distinct)
        return Judged.of_count(
            *laid.counts(pairs, self.greens.hold(pairs.left, pairs.right)), self.gamma
        )


@dataclass(frozen=True, eq=False)
class Expected(Matrix):
    """The expectation-based mark of diffusion models (arXiv 2509.24368), context {-1}.

    What is promoted is the expected number of green pairs: by a token's own list and by the lists
    it is in, each under the distribution of the neighbour, which is certain where that is known.
    One iteration, the 50 likeliest tokens of an open neighbour, delta / 2 for each side as
    released. Detector: different pairs, Bin(n, gamma). Readings: gamma = 1/4, the default of code
    and paper; tokens outside a position's own 50 likeliest are promoted too; of proteins, which
    have few different pairs, all pairs count.
    """

    gamma: float = 0.25
    distinct: bool | None = None  # None: where the alphabet has many symbols

    name: ClassVar[str] = "eth"
    rule: ClassVar[Rule] = LikelySides(_LIKELY, weighted=True)

    @property
    def strength(self) -> float:
        """Half of delta for each of the two sides."""
        return self.delta / 2.0

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the green ones; the score is -log10 p, as published."""
        found = self.judge_pairs(sequences, self.distinct)
        return Judged.of_p(found.log_p, found.scored)


@dataclass(frozen=True, eq=False)
class DMark(Matrix):
    """DMark (arXiv 2510.02902), predict-bidirectional: the lists of both neighbours add up.

    Where a neighbour is open, the model's likeliest token stands in for it. gamma = 1/2. Detector:
    all pairs of neighbours, z as published, p = Bin(n, gamma). Readings: the bias enters before
    tokens are chosen and confidences taken, as for all schemes here (the released loop picks the
    positions by logits without it); the first token, whose context is a prompt, is not scored.
    """

    name: ClassVar[str] = "dmark"
    rule: ClassVar[Rule] = LikelySides(1, weighted=False)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the green pairs."""
        return self.judge_pairs(sequences, distinct=False)


@dataclass(frozen=True, eq=False)
class LeftRight(Scheme):
    """LR-DWM (arXiv 2601.12376): one list for the left neighbour, one for the right, as known.

    Two independent keys; on both lists a token gets 2 delta. gamma = 1/2. Detector: how many
    pairs agree, from the left and from the right, Bin(2 T, gamma); z of that sum. Readings, none
    of which is settled: lists are drawn symbol by symbol; the first and the last token count with
    their one neighbour; the null is this closed form, not a measured spread, for which each pair
    counts once in text (as in `Soft`, all of them with proteins).
    """

    gamma: float = 0.5
    distinct: bool | None = None  # None: where the alphabet has many symbols

    name: ClassVar[str] = "lr-dwm"
    rule: ClassVar[Rule] = BothSides()

    @cached_property
    def greens(self) -> Lists:
        """The lists of left neighbours, none, and those of right ones."""
        alphabet, limit, size = self.alphabet, byte_limit(self.gamma), self.alphabet.size
        has_own = alphabet.is_scored(np.arange(size))

        def make(row: int) -> NDArray[np.bool_]:
            side, token = ("left", row) if row < size else ("right", row - size - 1)
            if token < 0 or not has_own[token]:
                return np.zeros(size, dtype=bool)
            label = f"lr-dwm {side}/{alphabet.sha256}/{token}"
            return drawn_row(self.secret, label, alphabet, limit)

        return Lists(2 * size + 1, size, make)

    def table(self) -> NDArray[np.bool_]:
        """Return all lists: [2 V + 1, V]."""
        return self.greens.whole()

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the agreements of pairs, either way."""
        laid = Laid.out(sequences, self.alphabet)
        size = self.alphabet.size
        pairs = counted_pairs(laid, self.alphabet, self.distinct)
        from_left = self.greens.hold(pairs.left, pairs.right)
        from_right = self.greens.hold(right_list(pairs.right, size), pairs.left)
        hits = laid.per_sequence(pairs.record[from_left])
        hits = hits + laid.per_sequence(pairs.record[from_right])
        return Judged.of_count(hits, 2 * laid.per_sequence(pairs.record), self.gamma)
