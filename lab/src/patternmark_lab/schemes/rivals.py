"""Two rivals of 2026 for diffusion language models: UMR, and DenMark without its encoder.

As far as they can be had: docs/schemes.md says what could not.
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
from patternmark_lab.schemes.base import Judged, Scheme
from patternmark_lab.schemes.laid import Laid
from patternmark_lab.schemes.normal import normal_log_tail
from patternmark_lab.schemes.peers import Matrix
from patternmark_lab.schemes.rules import Rule, ShiftedSides

_TIE = "?"
_MOST_DELTA = 10


@dataclass(frozen=True, eq=False)
class UMR(Matrix):
    """UMR (Yang et al., ACL 2026): unbiased, and a message in the lists, for diffusion models.

    One matrix of fair bits; every left neighbour carries one bit of the message, drawn by the key,
    and where that is 0 its row is turned round. Probability moves to the lists of neighbours that
    are settled (see `shift`), so that up to delta = 1 the law of a token, in the mean over keys, is
    the model's own. Detector, as published: all pairs of neighbours, z against n/2 hits; here p is
    Bin(n, 1/2), of the message that is looked for. That rests on the secret alone: on pairs that
    are all different, whoever wrote them. Pairs that come again count again, and make p too small:
    `distinct` counts each once. Readings: a context is stable when it is settled; what counts is
    left to right, what is promoted follows both sides; Mask-Predict masks again by confidence, and
    nothing is regretted besides.
    """

    message: str = "10"
    distinct: bool = False

    name: ClassVar[str] = "umr"
    rule: ClassVar[Rule] = ShiftedSides()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.message or set(self.message) - set("01"):
            raise ParameterError(f"a message is made of 0 and 1, not {self.message!r}")

    @cached_property
    def bit_of(self) -> NDArray[np.int64]:
        """Which bit of the message each left neighbour carries: [V]."""
        label = f"umr bits/{self.alphabet.sha256}"
        words = self.secret.octets(label, 4 * self.alphabet.size).view("<u4")
        return np.asarray(words % len(self.message), dtype=np.int64)

    @property
    def _bits(self) -> NDArray[np.bool_]:
        return np.array([bit == "1" for bit in self.message])

    def row(self, token: int) -> NDArray[np.bool_]:
        """Draw the row of a scored token, turned round where its bit is 0: [V]."""
        drawn = super().row(token)
        if self._bits[self.bit_of[token]]:
            return drawn
        return self.alphabet.is_scored(np.arange(self.alphabet.size)) & ~drawn

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the pairs that follow the message."""
        return self.judge_pairs(sequences, self.distinct)

    def read(self, sequences: Iterable[str | ArrayLike]) -> list[str]:
        """Read the message of each sequence: every bit by the vote of its pairs, ? for a tie."""
        laid = Laid.out(sequences, self.alphabet)
        pairs = laid.pairs(1)
        which = self.bit_of[pairs.left]
        says_one = self.greens.hold(pairs.left, pairs.right) == self._bits[which]
        votes = np.zeros((laid.count, len(self.message)), dtype=np.int64)
        np.add.at(votes, (pairs.record, which), np.where(says_one, 1, -1))
        return ["".join(_TIE if v == 0 else "01"[v > 0] for v in row) for row in votes.tolist()]


@dataclass(frozen=True, eq=False)
class DenMarkLexical(Scheme):
    """DenMark's way (arXiv 2609.14257) with counts of tokens where it has a sentence encoder.

    Not DenMark: that one embeds what a unit *means*, to survive paraphrase; this one sees words.
    Units of 25 tokens; at each step candidates settle one token each, rollouts complete the unit,
    and the candidate is taken whose units point furthest along a secret direction of that unit
    (`models.rollouts`). Their number is 2^delta: delta = 4 are its 16. A unit is its counts of
    scored tokens, of length 1; a direction has a normal weight for each token. (The mean of its two
    signed channels is again one such direction.) Detector: units of every size of 12 to 37, at
    most 12 of them; the mean of their projections; the least p of all sizes times their number.
    DenMark takes each p from a pool of clean texts, so that 10,000 of them tell no less than
    26 / 10,001; here each is a normal tail, exact for any text whoever wrote it, as a unit of
    length 1 has a normal projection and every unit has its own direction. Text that is translated
    in pieces begins again with each.
    """

    unit: int = 25
    units: int = 12
    sizes: tuple[int, int] = (12, 37)

    name: ClassVar[str] = "denmark-lexical"
    by_bias: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta > _MOST_DELTA:
            raise ParameterError(
                f"{self.name} has 2^delta candidates for every token: delta is at most "
                f"{_MOST_DELTA}, not {self.delta:g}"
            )

    @property
    def candidates(self) -> int:
        """How many candidates each step has."""
        return int(np.rint(2.0**self.delta))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The direction of every unit: [units, V]; unscored symbols have no weight."""
        found = np.zeros((self.units, self.alphabet.size))
        for number in range(self.units):
            label = f"{self.name}/{self.alphabet.sha256}/{number}"
            words = self.secret.octets(label, 8 * self.alphabet.num_scored).view("<u4")
            u, v = (words.reshape(2, -1) + 0.5) * 2.0**-32
            found[number, self.alphabet.scored] = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * pi * v)
        return found

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Look for the directions in units of every size."""
        encoded = [self.alphabet.encode(sequence) for sequence in sequences]
        first, last = self.sizes
        sizes = range(first, last + 1)
        z = np.array([[self._z(ids, size) for size in sizes] for ids in encoded])
        best = z.reshape(-1, len(sizes)).max(axis=1)
        log_p = np.minimum(normal_log_tail(best) + log(len(sizes)), 0.0)
        scored = np.array([np.count_nonzero(self.alphabet.is_scored(ids)) for ids in encoded])
        return Judged.of_p(log_p, scored.astype(np.int64))

    def _z(self, ids: NDArray[np.int64], size: int) -> float:
        """Return the sum of the units' projections over the root of their number."""
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
