"""The paper's baselines Soft, Unigram and Multikey, as far as its appendix describes them."""

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
from patternmark_lab.schemes.base import Judgements, Scheme
from patternmark_lab.schemes.layout import Layout, pairs_to_count
from patternmark_lab.schemes.lists import Lists, fair_row, list_size
from patternmark_lab.schemes.rules import AfterToken, Everywhere, Rule


@dataclass(frozen=True, eq=False)
class Soft(Scheme):
    """KGW with one token of context: promote the list of the token before.

    gamma = 1/2: each list holds exactly half of the scored symbols. If there is no left neighbour,
    or it is not decoded yet, the list of the empty token is promoted, which no detector can see.
    Detector: counts pairs of neighbours, Bin(T, K/V). Our readings of what the paper leaves open:
    "before" means the position (the paper may mean the step: see `SoftByStep`); in proteins, which
    have only 400 different pairs, every pair counts; in text each different pair counts once, as in
    KGW's own detector.
    """

    gamma: float = 0.5
    distinct: bool | None = None  # count each different pair once; None: if there are many symbols

    name: ClassVar[str] = "soft"
    rule: ClassVar[Rule] = AfterToken()

    @cached_property
    def greens(self) -> Lists:
        """The lists of all tokens as left neighbours; the last list is the empty token's."""
        alphabet, empty = self.alphabet, self.alphabet.size
        size = list_size(self.gamma, alphabet)
        has_own = np.zeros(empty + 1, dtype=bool)
        has_own[alphabet.scored] = True

        def make(token: int) -> NDArray[np.bool_]:
            row = token if has_own[token] else empty
            return fair_row(self.secret, f"soft/{alphabet.sha256}/{row}", alphabet, size)

        return Lists(empty + 1, empty, make)

    def table(self) -> NDArray[np.bool_]:
        """Return the lists of all left neighbours, and of the empty token: [V + 1, V]."""
        return self.greens.whole()

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the pairs whose right token is in the left token's list."""
        layout = Layout.of(sequences, self.alphabet)
        pairs = pairs_to_count(layout, self.alphabet, self.distinct)
        hit = self.greens.hold(pairs.left, pairs.right)
        chance = list_size(self.gamma, self.alphabet) / self.alphabet.num_scored
        return Judgements.of_count(*layout.counts(pairs, hit), chance)


@dataclass(frozen=True, eq=False)
class SoftByStep(Soft):
    """Soft with the token decoded in the step before as its context, wherever that token stands.

    The detector does not know the order and still looks at neighbours, so it finds nothing but
    chance. The paper's protein numbers look like this. Works only with decoders that settle one
    token in each step.
    """

    name: ClassVar[str] = "soft-by-step"
    rule: ClassVar[Rule] = AfterToken(by_step=True)


@dataclass(frozen=True, eq=False)
class Unigram(Scheme):
    """Zhao et al.: one list of half the scored symbols, promoted everywhere.

    Detector: counts all tokens, Bin(n, K/V), with the published z. With `distinct` each different
    symbol counts once, and p is a hypergeometric tail: valid for any text, but useless for 20
    letters. Our reading: X and special tokens are in no list and are not counted.
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

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the symbols in the list."""
        layout = Layout.of(sequences, self.alphabet)
        symbols, record = layout.scored()
        size, of = list_size(self.gamma, self.alphabet), self.alphabet.num_scored
        if self.distinct:
            name = np.unique(record * self.alphabet.size + symbols)
            record, symbols = np.divmod(name, self.alphabet.size)
        hits = layout.per_sequence(record[self.greens[symbols]])
        trials = layout.per_sequence(record)
        if self.distinct:
            return Judgements.of_p(hypergeometric_log_tail(hits, trials, size, of), trials)
        return Judgements.of_count(hits, trials, size / of)


DETECTORS = ("union", "best", "ratio")


@dataclass(frozen=True, eq=False)
class Multikey(Scheme):
    """Two fixed lists; each position promotes one of them, drawn at random.

    The paper names no detector. Here are three, each with its exact null:

    - `union`: counts symbols in either list, Bin(n, |G1 or G2| / V);
    - `best`: twice the smaller of the two lists' own p-values, Bin(n, K/V) each;
    - `ratio`: the likelihood ratio, which depends only on whether a symbol is in no list, in one
      or in both; its null is trinomial.

    All three find far more than the paper reports, in proteins and in text: none reproduces it.
    `best`, the default, comes closest in text. Our reading: a position keeps its list through all
    iterations of Mask-Predict.
    """

    gamma: float = 0.5
    detector: str = "best"

    name: ClassVar[str] = "multikey"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detector not in DETECTORS:
            raise ParameterError(
                f"unknown multikey detector {self.detector!r}: choose one of {', '.join(DETECTORS)}"
            )

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

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Count the symbols that are in each list."""
        layout = Layout.of(sequences, self.alphabet)
        symbols, record = layout.scored()
        trials = layout.per_sequence(record)
        of = self.alphabet.num_scored
        if self.detector == "best":
            size = list_size(self.gamma, self.alphabet)
            found = [layout.per_sequence(record[green[symbols]]) for green in self.greens]
            each = [Judgements.of_count(hits, trials, size / of) for hits in found]
            twice = log(2.0) + np.minimum(each[0].log_p, each[1].log_p)
            best = np.maximum(each[0].score, each[1].score)
            return Judgements(best, np.minimum(twice, 0.0), trials)
        holders = self.greens.sum(axis=0)  # [V]
        if self.detector == "union":
            hits = layout.per_sequence(record[holders[symbols] > 0])
            return Judgements.of_count(hits, trials, np.count_nonzero(holders) / of)
        return self._by_ratio(layout, record, holders[symbols], trials, holders)

    def _by_ratio(
        self,
        layout: Layout,
        record: NDArray[np.int64],
        found: NDArray[np.int64],
        trials: NDArray[np.int64],
        holders: NDArray[np.int64],
    ) -> Judgements:
        # Weights relative to a symbol in no list; a symbol in one list has ln((e^delta + 1) / 2).
        weights = (log((exp(self.delta) + 1.0) / 2.0), self.delta)
        counts = np.stack([layout.per_sequence(record[found == c]) for c in (1, 2)], axis=1)
        one, two = (np.count_nonzero(holders == c) / self.alphabet.num_scored for c in (1, 2))
        return Judgements.of_p(trinomial_log_tail(counts, trials, (one, two), weights), trials)
