"""A fixed split of a large vocabulary: what marked texts betray of it, and texts forged with that.

No trial finds such a split, but the tokens in use are few and frequent ones tell. Three attacks,
none of which needs a model:

    frequencies  tokens more frequent than in unmarked text: finds a part promoted everywhere
                 (Unigram); keys that alternate promote all tokens equally often and hide from it
    pairs        tokens that follow each other more often than in unmarked text: finds keys that
                 depend on neighbours, and keys that alternate
    phases       tokens that prefer even places or odd ones: finds keys that alternate, the phase
                 of each text being found with them; the strongest against the paper's scheme
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
_MOST_ROUNDS = 100
_MOST_STARTS = 8
_SURE = 3.0  # sigmas: beyond, a token counts no more


@dataclass(frozen=True, eq=False)
class TokenKnowledge:
    """What is believed of each token: above 0 for one part, below for the other, in sigmas."""

    scores: NDArray[np.float64]  # [V]
    frequencies: NDArray[np.float64]  # [V] of what new texts are made
    alternates: bool  # whether the two parts take turns, or the first is promoted everywhere

    def auc(self, promoted: NDArray[np.bool_]) -> float:
        """Return how well scores tell the tokens of a part [V] from the others.

        Tokens that were never seen are left out. Where parts take turns, which is the first is not
        known and does not matter.
        """
        seen = self.frequencies > 0
        found = auc(self.scores[seen], promoted[seen])
        return max(found, 1.0 - found) if self.alternates else found

    def forge(self, length: int, rng: np.random.Generator, strength: float = np.inf) -> Symbols:
        """Write a text with the mark one believes in; e^-strength of the wrong tokens are left."""
        turns = np.array([1.0, -1.0 if self.alternates else 1.0])
        wrong = np.exp(-strength)
        laws = self.frequencies * np.where(self.scores * turns[:, None] > 0, 1.0, wrong)  # [2, V]
        if not laws.sum(axis=1).all():
            raise ParameterError("too little was learned to forge a text: show the attack more")
        return draw(laws[np.arange(length) % 2], rng)

    def signs(self, length: int) -> NDArray[np.float64]:
        """Return how surely each place of a text promotes a token: [length, V], from -1 to 1."""
        first = np.clip(self.scores, -1.0, 1.0)
        both = np.stack([first, -first if self.alternates else first])
        return np.asarray(both[np.arange(length) % 2])

    def evidence(self, text: Symbols, at: int = 0) -> float:
        """Return how much a piece of text that begins at a place speaks for the mark."""
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
    """Learn which tokens stand at even places where others stand at odd ones.

    A text may begin with either key. Given a split, its phase is the likelier one; given the
    phases, a token belongs where it stands most often. We go back and forth until nothing changes,
    once from each of the texts that tell most, and keep the split that explains most.
    """
    used, tokens = np.unique(np.concatenate(list(marked)), return_inverse=True)
    parity = np.concatenate([1.0 - 2.0 * (np.arange(len(text)) % 2) for text in marked])
    row = np.repeat(np.arange(len(marked)), [len(text) for text in marked])
    differences = np.zeros((len(marked), len(used)))  # [N, used] even places minus odd ones
    np.add.at(differences, (row, tokens), parity)
    counts = np.bincount(tokens, minlength=len(used)).astype(float)
    differences /= np.sqrt(counts)  # what frequent tokens do by chance must not decide
    starts = np.argsort(-np.abs(differences).sum(axis=1), kind="stable")[:_MOST_STARTS]
    best = max((_settled(differences, differences[start]) for start in starts), key=_explained)
    scores = np.zeros(size)
    scores[used] = best
    frequencies = np.zeros(size)
    frequencies[used] = counts / counts.sum()
    return TokenKnowledge(scores, frequencies, alternates=True)


def _settled(differences: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    phases = np.zeros(len(differences))
    for _ in range(_MOST_ROUNDS):
        found = np.where(differences @ np.clip(scores, -_SURE, _SURE) < 0, -1.0, 1.0)
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

    pairs: NDArray[np.int64]  # [pairs, 2] those seen in marked texts, sorted
    excess: NDArray[np.float64]  # [pairs]
    lag: int

    def auc(self, favoured: Callable[[Symbols, Symbols], NDArray[np.bool_]]) -> float:
        """Return how well excess tells the pairs the scheme favours from the others seen."""
        return auc(self.excess, favoured(self.pairs[:, 0], self.pairs[:, 1]))

    def forge(self, length: int, rng: np.random.Generator) -> Symbols:
        """Chain pairs that are more frequent than they should be into a text."""
        good = self.excess > 0
        pairs, weight = self.pairs[good], self.excess[good]
        if not len(pairs):
            raise ParameterError("no pair is more frequent than in unmarked text: show it more")
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
        """Return how many pairs of a text are too frequent, less those that are too rare."""
        del at  # pairs are the same everywhere
        base, known = self._codes
        first, second = text[: -self.lag], text[self.lag :]
        codes = np.where(second < base, first * base + second, -1)
        place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return float(np.where(known[place] == codes, np.sign(self.excess[place]), 0.0).sum())

    @cached_property
    def _codes(self) -> tuple[int, NDArray[np.int64]]:
        """One number for each pair, and the factor of its first token."""
        base = int(self.pairs.max()) + 1
        return base, self.pairs[:, 0] * base + self.pairs[:, 1]


def learn_pairs(
    marked: Sequence[Symbols], unmarked: Sequence[Symbols], size: int, lag: int = 1
) -> PairKnowledge:
    """Learn which pairs of tokens are more frequent in marked texts than in unmarked ones."""
    if lag < 1:
        raise ParameterError(f"a lag is 1 or more, not {lag}")
    ours, others = _pair_codes(marked, size, lag), _pair_codes(unmarked, size, lag)
    codes, counts = np.unique(ours, return_counts=True)
    known, usual = np.unique(others, return_counts=True)
    at = np.minimum(np.searchsorted(known, codes), max(len(known) - 1, 0))
    is_known = known[at] == codes if len(known) else np.zeros(len(codes), dtype=bool)
    expected = np.where(is_known, usual[at] if len(known) else 0, 0)
    excess = counts / len(ours) - expected / max(len(others), 1)
    return PairKnowledge(np.stack(np.divmod(codes, size), axis=1), excess, lag)


def auc(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the probability that a positive scores above a negative; ties count half.

    >>> auc(np.array([1.0, 2.0, 3.0, 3.0]), np.array([False, True, False, True]))
    0.625
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2.0)[place]  # equals share their mean rank
    hits = int(np.count_nonzero(positive))
    if hits in (0, len(scores)):
        raise ParameterError("an AUC needs positives and negatives")
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
