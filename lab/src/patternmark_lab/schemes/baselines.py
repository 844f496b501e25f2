"""The paper's baselines: Soft, Unigram and Multikey, as far as its appendix describes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.null.binomial import hypergeometric_log_tail, trinomial_log_tail
from patternmark_lab.schemes.base import Judged, Scheme
from patternmark_lab.schemes.laid import Laid, counted_pairs
from patternmark_lab.schemes.lists import Lists, fair_row, list_size
from patternmark_lab.schemes.rules import AfterToken, Everywhere, Rule


@dataclass(frozen=True, eq=False)
class Soft(Scheme):
    """KGW with one token of context: the list of the token before is promoted.

    gamma = 1/2, each list exactly half of the scored symbols. Where the neighbour to the left is
    not decoded yet, or is none, the empty token has a list of its own, which no detector can see
    again. Detector: pairs of neighbours, Bin(T, K/V). Readings: "before" is by position (the paper
    may have meant the step: see `SoftByStep`); every pair counts with proteins, where there are
    but 400, and each once with text, as KGW's own detector has it.
    """

    gamma: float = 0.5
    distinct: bool | None = None  # None: where the alphabet has many symbols

    name: ClassVar[str] = "soft"
    rule: ClassVar[Rule] = AfterToken()

    @cached_property
    def greens(self) -> Lists:
        """The lists of all tokens as neighbours, and last of the empty one."""
        alphabet, empty = self.alphabet, self.alphabet.size
        size = list_size(self.gamma, alphabet)
        has_own = np.zeros(empty + 1, dtype=bool)
        has_own[alphabet.scored] = True

        def make(token: int) -> NDArray[np.bool_]:
            row = token if has_own[token] else empty
            return fair_row(self.secret, f"soft/{alphabet.sha256}/{row}", alphabet, size)

        return Lists(empty + 1, empty, make)

    def table(self) -> NDArray[np.bool_]:
        """Return the list of each token before, and of the empty one: [V + 1, V]."""
        return self.greens.whole()

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the neighbours that follow their list."""
        laid = Laid.out(sequences, self.alphabet)
        pairs = counted_pairs(laid, self.alphabet, self.distinct)
        hit = self.greens.hold(pairs.left, pairs.right)
        chance = list_size(self.gamma, self.alphabet) / self.alphabet.num_scored
        return Judged.of_count(*laid.counts(pairs, hit), chance)


@dataclass(frozen=True, eq=False)
class SoftByStep(Soft):
    """Soft whose context is the token of the step before, wherever that stands.

    The detector, which knows no order, still looks at neighbours: what it finds is chance. The
    paper's protein numbers look like this. For decoders that settle one token a step alone.
    """

    name: ClassVar[str] = "soft-by-step"
    rule: ClassVar[Rule] = AfterToken(by_step=True)


@dataclass(frozen=True, eq=False)
class Unigram(Scheme):
    """Zhao et al.: one list of half the scored symbols, promoted everywhere.

    Detector: all tokens, Bin(n, K/V), whose z is the published one. With `distinct` each symbol
    counts once, by the hypergeometric tail: valid for any text, and of no use for 20 letters.
    Readings: X and special tokens are in no list and not counted.
    """

    gamma: float = 0.5
    distinct: bool = False

    name: ClassVar[str] = "unigram"
    rule: ClassVar[Rule] = Everywhere()

    @cached_property
    def greens(self) -> NDArray[np.bool_]:
        """The promoted symbols: [V]."""
        label = f"unigram/{self.alphabet.sha256}"
        return fair_row(self.secret, label, self.alphabet, list_size(self.gamma, self.alphabet))

    def table(self) -> NDArray[np.bool_]:
        """Return the list: [1, V]."""
        return self.greens[None]

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the symbols in the list."""
        laid = Laid.out(sequences, self.alphabet)
        symbols, record = laid.scored()
        size, of = list_size(self.gamma, self.alphabet), self.alphabet.num_scored
        if self.distinct:
            name = np.unique(record * self.alphabet.size + symbols)
            record, symbols = np.divmod(name, self.alphabet.size)
        hits, trials = laid.per_sequence(record[self.greens[symbols]]), laid.per_sequence(record)
        if self.distinct:
            return Judged.of_p(hypergeometric_log_tail(hits, trials, size, of), trials)
        return Judged.of_count(hits, trials, size / of)


DETECTORS = ("union", "best", "ratio")


@dataclass(frozen=True, eq=False)
class Multikey(Scheme):
    """Two fixed lists; at each position one of them, drawn at random, is promoted.

    The paper names no detector. Three are here, each with its exact null:

    - `union`: symbols in either list, Bin(n, |G1 or G2| / V);
    - `best`: twice the smaller of the two lists' own p-values, Bin(n, K/V) each;
    - `ratio`: the likelihood ratio, which sees only whether a symbol is in none, one or both
      lists; its null is trinomial.

    All of them find far more than the paper does, in proteins and in text: none reproduces it.
    `best`, the default, is the nearest in text. Reading: a position keeps its draw through all
    iterations of Mask-Predict.
    """

    gamma: float = 0.5
    detector: str = "best"

    name: ClassVar[str] = "multikey"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detector not in DETECTORS:
            raise ParameterError(f"multikey detects by {', '.join(DETECTORS)}: no {self.detector}")

    @cached_property
    def greens(self) -> NDArray[np.bool_]:
        """The two lists: [2, V]."""
        size = list_size(self.gamma, self.alphabet)
        labels = [f"multikey/{self.alphabet.sha256}/{number}" for number in (1, 2)]
        return np.stack([fair_row(self.secret, label, self.alphabet, size) for label in labels])

    def table(self) -> NDArray[np.bool_]:
        """Return both lists: [2, V]."""
        return self.greens

    def keys(self, length: int, seed: int | str, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Draw a list for every position: [N, length]."""
        labels = [f"multikey draw/{seed}/{number}" for number in numbers]
        drawn = [self.secret.octets(label, length) & 1 for label in labels]
        return np.array(drawn, dtype=np.int64).reshape(len(labels), length)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Count the symbols by the lists that hold them."""
        laid = Laid.out(sequences, self.alphabet)
        symbols, record = laid.scored()
        trials = laid.per_sequence(record)
        of = self.alphabet.num_scored
        if self.detector == "best":
            size = list_size(self.gamma, self.alphabet)
            found = [laid.per_sequence(record[green[symbols]]) for green in self.greens]
            each = [Judged.of_count(hits, trials, size / of) for hits in found]
            twice = log(2.0) + np.minimum(each[0].log_p, each[1].log_p)
            best = np.maximum(each[0].score, each[1].score)
            return Judged(best, np.minimum(twice, 0.0), trials)
        holders = self.greens.sum(axis=0)  # [V]
        if self.detector == "union":
            hits = laid.per_sequence(record[holders[symbols] > 0])
            return Judged.of_count(hits, trials, np.count_nonzero(holders) / of)
        return self._by_ratio(laid, record, holders[symbols], trials, holders)

    def _by_ratio(
        self,
        laid: Laid,
        record: NDArray[np.int64],
        found: NDArray[np.int64],
        trials: NDArray[np.int64],
        holders: NDArray[np.int64],
    ) -> Judged:
        # In terms of a symbol in neither list: one of one list weighs ln((e^delta + 1) / 2).
        weights = (log((exp(self.delta) + 1.0) / 2.0), self.delta)
        counts = np.stack([laid.per_sequence(record[found == c]) for c in (1, 2)], axis=1)
        one, two = (np.count_nonzero(holders == c) / self.alphabet.num_scored for c in (1, 2))
        return Judged.of_p(trinomial_log_tail(counts, trials, (one, two), weights), trials)
