"""Learn a fixed split of a large vocabulary from marked texts, and forge texts with it.

Nobody can try all such splits, but few tokens are in use, and frequent ones reveal their part.
There are three attacks, none of which needs a model:

    frequencies  tokens more frequent than in unmarked text: finds a part promoted everywhere
                 (Unigram); it cannot find alternating keys, which promote all tokens equally often
    pairs        tokens that follow each other more often than in unmarked text: finds keys that
                 depend on neighbours, and alternating keys
    phases       tokens that prefer even or odd places: finds alternating keys, together with the
                 phase of each text; the strongest attack on the paper's scheme
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.forge import draw
from patternmark.errors import ParameterError

Symbols = NDArray[np.int64]
_MAX_ROUNDS = 100  # of alternation between phases and scores
_MAX_STARTS = 8  # texts from which the alternation starts
_MAX_SIGMAS = 3.0  # scores are clipped to this


@dataclass(frozen=True, eq=False)
class TokenKnowledge:
    """A score for each token in sigmas: positive for one part, negative for the other."""

    scores: NDArray[np.float64]  # [V]
    frequencies: NDArray[np.float64]  # [V] of the tokens in new texts
    alternates: bool  # True if the two parts alternate, False if the first is promoted everywhere

    def auc(self, promoted: NDArray[np.bool_]) -> float:
        """Return how well scores separate the tokens of a part [V] from the others.

        Tokens that were never seen are left out. If parts alternate, it is unknown which one is the
        first, and it does not matter.
        """
        seen = self.frequencies > 0
        found = auc(self.scores[seen], promoted[seen])
        return max(found, 1.0 - found) if self.alternates else found

    def forge(self, length: int, rng: np.random.Generator, strength: float = np.inf) -> Symbols:
        """Write a text with the learned mark; the law of wrong tokens is scaled by e^-strength."""
        turns = np.array([1.0, -1.0 if self.alternates else 1.0])
        wrong = np.exp(-strength)
        laws = self.frequencies * np.where(self.scores * turns[:, None] > 0, 1.0, wrong)  # [2, V]
        if not laws.sum(axis=1).all():
            raise ParameterError(
                "too little was learned to forge a text: give the attack more marked texts"
            )
        return draw(laws[np.arange(length) % 2], rng)

    def signs(self, length: int) -> NDArray[np.float64]:
        """Return the belief that each place of a text promotes a token: [length, V], -1 to 1."""
        first = np.clip(self.scores, -1.0, 1.0)
        both = np.stack([first, -first if self.alternates else first])
        return np.asarray(both[np.arange(length) % 2])

    def evidence(self, text: Symbols, at: int = 0) -> float:
        """Return the evidence for the mark in a piece of text that begins at place `at`."""
        turns = 1.0 - 2.0 * ((at + np.arange(len(text))) % 2) if self.alternates else 1.0
        return float((np.clip(self.scores[text], -1.0, 1.0) * turns).sum())


def learn_frequencies(
    marked: Sequence[Symbols], unmarked: Sequence[Symbols], size: int
) -> TokenKnowledge:
    """Learn which of `size` tokens are more frequent in marked texts than in unmarked ones."""
    ours, others = _counts(marked, size), _counts(unmarked, size)
    rate = (ours + others) / (ours.sum() + others.sum())
    spread = np.sqrt(rate * (1.0 / ours.sum() + 1.0 / others.sum()))
    difference = ours / ours.sum() - others / others.sum()
    scores = np.divide(difference, spread, out=np.zeros(size), where=spread > 0)
    return TokenKnowledge(scores, rate, alternates=False)


def learn_phases(marked: Sequence[Symbols], size: int) -> TokenKnowledge:
    """Learn which tokens prefer even places in texts where others prefer odd places.

    A text may begin with either key. Given a split, each text gets its likelier phase; given the
    phases, a token belongs to the part at whose places it occurs most. The two steps alternate
    until nothing changes, once from each of the most informative texts, and the split that explains
    most is kept.
    """
    used, tokens = np.unique(np.concatenate(list(marked)), return_inverse=True)
    parity = np.concatenate([1.0 - 2.0 * (np.arange(len(text)) % 2) for text in marked])
    row = np.repeat(np.arange(len(marked)), [len(text) for text in marked])
    differences = np.zeros((len(marked), len(used)))  # [N, used] even places minus odd ones
    np.add.at(differences, (row, tokens), parity)
    counts = np.bincount(tokens, minlength=len(used)).astype(float)
    differences /= np.sqrt(counts)  # so that chance differences of frequent tokens do not decide
    starts = np.argsort(-np.abs(differences).sum(axis=1), kind="stable")[:_MAX_STARTS]
    best = max((_alternate(differences, differences[start]) for start in starts), key=_explained)
    scores = np.zeros(size)
    scores[used] = best
    frequencies = np.zeros(size)
    frequencies[used] = counts / counts.sum()
    return TokenKnowledge(scores, frequencies, alternates=True)


def _alternate(
    differences: NDArray[np.float64], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Learn phases from scores and scores from phases until the phases stay the same: [used]."""
    phases = np.zeros(len(differences))
    for _ in range(_MAX_ROUNDS):
        clipped = np.clip(scores, -_MAX_SIGMAS, _MAX_SIGMAS)
        found = np.where(differences @ clipped < 0, -1.0, 1.0)
        if np.array_equal(found, phases):
            break
        phases = found
        scores = phases @ differences
    return scores


def _explained(scores: NDArray[np.float64]) -> float:
    return float(np.square(scores).sum())


@dataclass(frozen=True, eq=False)
class PairKnowledge:
    """Which ordered pairs of tokens, `lag` apart, are more frequent than in unmarked text."""

    pairs: NDArray[np.int64]  # [pairs, 2] seen in marked texts, sorted
    excess: NDArray[np.float64]  # [pairs]
    lag: int

    def auc(self, favoured: Callable[[Symbols, Symbols], NDArray[np.bool_]]) -> float:
        """Return how well the excess separates pairs that the scheme favours from other pairs."""
        return auc(self.excess, favoured(self.pairs[:, 0], self.pairs[:, 1]))

    def forge(self, length: int, rng: np.random.Generator) -> Symbols:
        """Write a text by chaining pairs that are more frequent than in unmarked text."""
        good = self.excess > 0
        pairs, weight = self.pairs[good], self.excess[good]
        if not len(pairs):
            raise ParameterError(
                "no pair is more frequent than in unmarked text: give the attack more marked texts"
            )
        total = np.append(0.0, np.cumsum(weight))
        text = np.empty(length, dtype=np.int64)
        for at in range(length):
            low, high, column = 0, len(pairs), 0  # any pair's first token
            if at >= self.lag:
                before = text[at - self.lag]
                first, last = np.searchsorted(pairs[:, 0], [before, before + 1])
                if last > first:
                    low, high, column = int(first), int(last), 1
            drawn = total[low] + rng.random() * (total[high] - total[low])
            chosen = np.clip(np.searchsorted(total, drawn, "right") - 1, low, high - 1)
            text[at] = pairs[chosen, column]
        return text

    def evidence(self, text: Symbols, at: int = 0) -> float:
        """Return the number of too frequent pairs in a text minus that of too rare pairs."""
        del at  # pairs do not depend on the place
        base, known = self._codes
        first, second = text[: -self.lag], text[self.lag :]
        codes = np.where(second < base, first * base + second, -1)
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return float(np.where(known[place] == codes, np.sign(self.excess[place]), 0.0).sum())

    @cached_property
    def _codes(self) -> tuple[int, NDArray[np.int64]]:
        """The factor of a pair's first token in its code, and the code of each pair."""
        base = int(self.pairs.max()) + 1
        return base, self.pairs[:, 0] * base + self.pairs[:, 1]


def learn_pairs(
    marked: Sequence[Symbols], unmarked: Sequence[Symbols], size: int, lag: int = 1
) -> PairKnowledge:
    """Learn which pairs of tokens are more frequent in marked texts than in unmarked ones."""
    if lag < 1:
        raise ParameterError(f"a lag must be 1 or more, not {lag}")
    ours, others = _pair_codes(marked, size, lag), _pair_codes(unmarked, size, lag)
    codes, counts = np.unique(ours, return_counts=True)
    known, usual = np.unique(others, return_counts=True)
    at = np.minimum(np.searchsorted(known, codes), max(len(known) - 1, 0))
    is_known = known[at] == codes if len(known) else np.zeros(len(codes), dtype=bool)
    expected = np.where(is_known, usual[at] if len(known) else 0, 0)
    excess = counts / len(ours) - expected / max(len(others), 1)
    return PairKnowledge(np.stack(np.divmod(codes, size), axis=1), excess, lag)


def auc(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the probability that a positive has a higher score than a negative; ties count half.

    >>> auc(np.array([1.0, 2.0, 3.0, 3.0]), np.array([False, True, False, True]))
    0.625
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2.0)[place]  # equal scores share their mean rank
    hits = int(np.count_nonzero(positive))
    if hits in (0, len(scores)):
        raise ParameterError("an AUC needs at least one positive and one negative")
    above = rank[positive].sum() - hits * (hits + 1) / 2.0
    return float(above / (hits * (len(scores) - hits)))


def _counts(texts: Sequence[Symbols], size: int) -> NDArray[np.float64]:
    tokens = np.concatenate(list(texts)) if len(texts) else np.zeros(0, dtype=np.int64)
    if not len(tokens):
        raise ParameterError("there is no token to learn from")
    return np.bincount(tokens, minlength=size).astype(float)


def _pair_codes(texts: Sequence[Symbols], size: int, lag: int) -> NDArray[np.int64]:
    found = [text[:-lag] * size + text[lag:] for text in texts if len(text) > lag]
    if not found:
        raise ParameterError(f"no text is longer than {lag}: there is no pair to learn from")
    return np.concatenate(found)
