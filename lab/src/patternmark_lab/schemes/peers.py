"""Later marks for order-agnostic models: TANGO, the expectation-based mark, DMark and LR-DWM.

They follow their publications. The docstrings name our readings of what those leave open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark_lab.schemes.base import Judgements, Scheme
from patternmark_lab.schemes.layout import Layout, pairs_to_count
from patternmark_lab.schemes.lists import Lists, byte_limit, colouring, random_row
from patternmark_lab.schemes.rules import GAP, BothSides, EitherSide, LikelySides, Rule, right_list

_LIKELY_TOKENS = 50  # of an open neighbour, for the expectation-based mark


@dataclass(frozen=True, eq=False)
class Tango(Scheme):
    """TANGO (arXiv 2609.35224): the colours of tokens two places apart sum to 0 modulo 3.

    q = 3 colours, lag 2, coefficient 1, residue 0. The left token decides the favoured colour if
    it is known, else the right token; if neither is known, nothing is promoted. Detector: counts
    all pairs at the lag, Bin(T, 1/q), z as published. Our reading: the hash colouring (a keyed
    shuffle cut into q parts of equal size), because the semantic one needs a model's embeddings.
    """

    colours: int = 3

    name: ClassVar[str] = "tango"
    lag: ClassVar[int] = GAP
    rule: ClassVar[Rule] = EitherSide(lag)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.colours <= self.alphabet.num_scored:
            raise ParameterError(
                f"colours must be between 2 and {self.alphabet.num_scored} for the alphabet "
                f"{self.alphabet.name!r}, not {self.colours}"
            )

    @cached_property
    def colour_of(self) -> NDArray[np.int64]:
        """The colour of each symbol, or -1: [V]."""
        label = f"tango/{self.alphabet.sha256}/{self.colours}"
        return colouring(self.secret, label, self.alphabet, self.colours)

    def table(self) -> NDArray[np.bool_]:
        """Return, for each token at the lag, the symbols whose colour fits its own: [V, V]."""
        colour = self.colour_of
        of_colour = colour == np.arange(self.colours)[:, None]  # [q, V]
        fits = of_colour[-colour % self.colours]
        fits[colour < 0] = False
        return np.asarray(fits)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the pairs whose colours sum to 0."""
        layout = Layout.of(sequences, self.alphabet)
        pairs = layout.pairs(self.lag)
        hit = (self.colour_of[pairs.left] + self.colour_of[pairs.right]) % self.colours == 0
        return Judgements.of_count(*layout.counts(pairs, hit), 1.0 / self.colours)


@dataclass(frozen=True, eq=False)
class Matrix(Scheme):
    """Schemes with one matrix of random bits G[left, right], each 1 with probability gamma."""

    gamma: float = 0.5

    @cached_property
    def greens(self) -> Lists:
        """The rows of the matrix: the right neighbours that are in each token's list."""
        alphabet = self.alphabet
        has_own = alphabet.is_scored(np.arange(alphabet.size))

        def make(token: int) -> NDArray[np.bool_]:
            return self.row(token) if has_own[token] else np.zeros(alphabet.size, dtype=bool)

        return Lists(alphabet.size, alphabet.size, make)

    def row(self, token: int) -> NDArray[np.bool_]:
        """Draw the row of a scored token: [V]."""
        label = f"{self.name}/{self.alphabet.sha256}/{token}"
        return random_row(self.secret, label, self.alphabet, byte_limit(self.gamma))

    def table(self) -> NDArray[np.bool_]:
        """Return rows (for left neighbours), a row of zeros, then columns (for right neighbours).

        The shape is [2 V + 1, V].
        """
        rows = self.greens.whole()
        return np.concatenate([rows, np.zeros((1, self.alphabet.size), dtype=bool), rows.T])

    def judge_pairs(
        self, sequences: Iterable[str | ArrayLike], distinct: bool | None
    ) -> Judgements:
        """Count the pairs of neighbours whose bit is 1; `distinct` as in `pairs_to_count`."""
        layout = Layout.of(sequences, self.alphabet)
        pairs = pairs_to_count(layout, self.alphabet, distinct)
        return Judgements.of_count(
            *layout.counts(pairs, self.greens.hold(pairs.left, pairs.right)), self.gamma
        )


@dataclass(frozen=True, eq=False)
class Expected(Matrix):
    """The expectation-based mark of diffusion models (arXiv 2509.24368), context {-1}.

    A token's bias is proportional to the expected number of green pairs that it makes with both
    neighbours. The expectation is over the neighbour's distribution; a decoded neighbour is
    certain. One iteration, the 50 likeliest tokens of an open neighbour, delta / 2 for each side,
    as in the released code. Detector: counts different pairs, Bin(n, gamma). Our readings: gamma =
    1/4, the default of code and paper; tokens outside a position's own 50 likeliest are promoted
    too; in proteins, which have few different pairs, all pairs count.
    """

    gamma: float = 0.25
    distinct: bool | None = None  # count each different pair once; None: if there are many symbols

    name: ClassVar[str] = "eth"
    rule: ClassVar[Rule] = LikelySides(_LIKELY_TOKENS, weighted=True)

    @property
    def strength(self) -> float:
        """Half of delta for each of the two sides."""
        return self.delta / 2.0

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the green pairs; the score is -log10 p, as published."""
        found = self.judge_pairs(sequences, self.distinct)
        return Judgements.of_p(found.log_p, found.scored)


@dataclass(frozen=True, eq=False)
class DMark(Matrix):
    """DMark (arXiv 2510.02902), predict-bidirectional: the lists of both neighbours add up.

    The model's likeliest token stands in for an open neighbour. gamma = 1/2. Detector: counts all
    pairs of neighbours, z as published, p = Bin(n, gamma). Our readings: the bias is added before
    tokens and confidences are computed, as for all schemes here (the released loop picks positions
    by logits without the bias); the first token, whose context is the prompt, is not scored.
    """

    name: ClassVar[str] = "dmark"
    rule: ClassVar[Rule] = LikelySides(1, weighted=False)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the green pairs."""
        return self.judge_pairs(sequences, distinct=False)


@dataclass(frozen=True, eq=False)
class LeftRight(Scheme):
    """LR-DWM (arXiv 2601.12376): one list for the left neighbour and one for the right, if known.

    Two independent keys; a token on both lists gets 2 delta. gamma = 1/2. Detector: counts the
    pairs that agree from the left and from the right, Bin(2 T, gamma), and z of that sum. Our
    readings, all uncertain: lists are drawn symbol by symbol; the first and the last token count
    with their only neighbour; the null is this closed form and not a measured spread, so that each
    different pair counts once in text (all pairs count in proteins, as in `Soft`).
    """

    gamma: float = 0.5
    distinct: bool | None = None  # count each different pair once; None: if there are many symbols

    name: ClassVar[str] = "lr-dwm"
    rule: ClassVar[Rule] = BothSides()

    @cached_property
    def greens(self) -> Lists:
        """The lists of left neighbours, an empty list, then the lists of right neighbours."""
        alphabet, limit, size = self.alphabet, byte_limit(self.gamma), self.alphabet.size
        has_own = alphabet.is_scored(np.arange(size))

        def make(row: int) -> NDArray[np.bool_]:
            side, token = ("left", row) if row < size else ("right", row - size - 1)
            if token < 0 or not has_own[token]:
                return np.zeros(size, dtype=bool)
            label = f"lr-dwm {side}/{alphabet.sha256}/{token}"
            return random_row(self.secret, label, alphabet, limit)

        return Lists(2 * size + 1, size, make)

    def table(self) -> NDArray[np.bool_]:
        """Return all lists: [2 V + 1, V]."""
        return self.greens.whole()

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the pairs that agree, from the left and from the right."""
        layout = Layout.of(sequences, self.alphabet)
        size = self.alphabet.size
        pairs = pairs_to_count(layout, self.alphabet, self.distinct)
        from_left = self.greens.hold(pairs.left, pairs.right)
        from_right = self.greens.hold(right_list(pairs.right, size), pairs.left)
        hits = layout.per_sequence(pairs.record[from_left])
        hits = hits + layout.per_sequence(pairs.record[from_right])
        return Judgements.of_count(hits, 2 * layout.per_sequence(pairs.record), self.gamma)
