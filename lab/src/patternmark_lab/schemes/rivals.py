"""Two schemes of 2026 for diffusion language models: UMR, and DenMark without its encoder.

docs/schemes.md says which parts of them are not available.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import log, pi, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark_lab.schemes.base import Judgements, Scheme
from patternmark_lab.schemes.layout import Layout
from patternmark_lab.schemes.normal import normal_log_tail
from patternmark_lab.schemes.peers import Matrix
from patternmark_lab.schemes.rules import Rule, ShiftedSides

_TIE = "?"
_MAX_DELTA = 10


@dataclass(frozen=True, eq=False)
class UMR(Matrix):
    """UMR (Yang et al., ACL 2026): an unbiased mark with a message, for diffusion models.

    One matrix of fair bits. The key assigns one bit of the message to each left neighbour; if that
    bit is 0, the row of the neighbour is inverted. Probability moves to the lists of decoded
    neighbours (see `shift`), so that up to delta = 1 the mean over keys is the model's own
    distribution. Detector, as published: counts all pairs of neighbours, z against n/2 hits. Here
    p is Bin(n, 1/2) for the expected message. If all pairs are different, this p rests on the
    secret alone, whoever wrote the text. Repeated pairs count each time and make p too small;
    `distinct` counts each once. Our readings: a context is stable once it is decoded; the detector
    counts from left to right, promotion follows both sides; Mask-Predict masks tokens again by
    confidence, and no other step takes a token back.
    """

    message: str = "10"
    distinct: bool = False

    name: ClassVar[str] = "umr"
    rule: ClassVar[Rule] = ShiftedSides()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.message or set(self.message) - set("01"):
            raise ParameterError(f"a message consists of 0 and 1, not {self.message!r}")

    @cached_property
    def bit_of(self) -> NDArray[np.int64]:
        """The number of the message bit that each left neighbour carries: [V]."""
        label = f"umr bits/{self.alphabet.sha256}"
        words = self.secret.octets(label, 4 * self.alphabet.size).view("<u4")
        return np.asarray(words % len(self.message), dtype=np.int64)

    @property
    def _bits(self) -> NDArray[np.bool_]:
        return np.array([bit == "1" for bit in self.message])

    def row(self, token: int) -> NDArray[np.bool_]:
        """Draw the row of a scored token, inverted if its message bit is 0: [V]."""
        drawn = super().row(token)
        if self._bits[self.bit_of[token]]:
            return drawn
        return self.alphabet.is_scored(np.arange(self.alphabet.size)) & ~drawn

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the pairs that follow the message."""
        return self.judge_pairs(sequences, self.distinct)

    def read(self, sequences: Iterable[str | ArrayLike]) -> list[str]:
        """Read the message of each sequence: its pairs vote on every bit, and ? is a tie."""
        layout = Layout.of(sequences, self.alphabet)
        pairs = layout.pairs(1)
        which = self.bit_of[pairs.left]
        says_one = self.greens.hold(pairs.left, pairs.right) == self._bits[which]
        votes = np.zeros((layout.count, len(self.message)), dtype=np.int64)
        np.add.at(votes, (pairs.record, which), np.where(says_one, 1, -1))
        return ["".join(_TIE if v == 0 else "01"[v > 0] for v in row) for row in votes.tolist()]


@dataclass(frozen=True, eq=False)
class DenMarkLexical(Scheme):
    """The method of DenMark (arXiv 2609.14257) with token counts instead of a sentence encoder.

    This is not DenMark, which embeds the *meaning* of a unit to survive paraphrase: this sees words
    only. A unit has 25 tokens. In each step, each candidate settles one token, rollouts complete
    the unit, and the candidate is taken whose units point furthest along the secret direction of
    that unit (`generation.rollouts`). There are 2^delta candidates; DenMark's 16 are delta = 4. A
    unit is the vector of its token counts, scaled to length 1; a direction has a normal weight for
    each token. (The mean of DenMark's two signed channels is again such a direction.) Detector:
    for each unit size from 12 to 37, the mean projection of at most 12 units; then the smallest p
    times the number of sizes. DenMark takes each p from a pool of clean texts, so that 10,000
    texts give no p below 26 / 10,001. Here each p is a normal tail, exact for any text by any
    author, because a unit of length 1 has a normal projection and every unit has its own direction.
    A text that is translated in pieces starts again with each piece.
    """

    unit: int = 25
    units: int = 12
    sizes: tuple[int, int] = (12, 37)

    name: ClassVar[str] = "denmark-lexical"
    by_bias: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta > _MAX_DELTA:
            raise ParameterError(
                f"{self.name} has 2^delta candidates for every token, so delta must be at most "
                f"{_MAX_DELTA}, not {self.delta:g}"
            )

    @property
    def candidates(self) -> int:
        """The number of candidates in each step."""
        return int(np.rint(2.0**self.delta))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The direction of every unit: [units, V]; unscored symbols have weight 0."""
        found = np.zeros((self.units, self.alphabet.size))
        for number in range(self.units):
            label = f"{self.name}/{self.alphabet.sha256}/{number}"
            words = self.secret.octets(label, 8 * self.alphabet.num_scored).view("<u4")
            u, v = (words.reshape(2, -1) + 0.5) * 2.0**-32
            found[number, self.alphabet.scored] = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * pi * v)
        return found

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Measure the projections of units of every size, and take the best size."""
        encoded = [self.alphabet.encode(sequence) for sequence in sequences]
        first, last = self.sizes
        sizes = range(first, last + 1)
        z = np.array([[self._z(ids, size) for size in sizes] for ids in encoded])
        best = z.reshape(-1, len(sizes)).max(axis=1)
        log_p = np.minimum(normal_log_tail(best) + log(len(sizes)), 0.0)
        scored = np.array([np.count_nonzero(self.alphabet.is_scored(ids)) for ids in encoded])
        return Judgements.of_p(log_p, scored.astype(np.int64))

    def _z(self, ids: NDArray[np.int64], size: int) -> float:
        """Return the sum of the units' projections divided by the root of their number."""
        unit = np.arange(len(ids)) // size
        counted = self.alphabet.is_scored(ids) & (unit < self.units)
        name, count = np.unique(
            unit[counted] * self.alphabet.size + ids[counted], return_counts=True
        )
        of, token = np.divmod(name, self.alphabet.size)
        along = np.bincount(of, count * self.weights[of, token])
        norm = np.sqrt(np.bincount(of, count.astype(float) ** 2))
        some = norm > 0
        return float((along[some] / norm[some]).sum() / sqrt(max(int(some.sum()), 1)))
