"""The default scheme for text: learn its coins from marked texts, block by block.

All texts of a nonce begin with the same key, unless the key has several starts. So the places of a
text are known: if a token occurs at even places of a block more often than in unmarked text, its
coin there is probably 1. Texts are short, so nearly all of them are evidence about the first block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.forge import draw
from patternmark.attacks.tokens import auc
from patternmark.core.schemes import Turns
from patternmark.errors import ParameterError
from patternmark.statistics.rates import UNMEASURED_RATES

Symbols = NDArray[np.int64]
_SMOOTHING = 100.0  # occurrences that are added to the even and the odd counts of unmarked text
_TILTS = [log(rate / (1.0 - rate)) for rate in UNMEASURED_RATES]
_FOLLOWED = 0.5  # how strongly a marked token follows its coin, from 0 to 1
_SLIP = 0.005  # probability that a slip follows a token
_AT_START = log(0.97 / 0.03)  # ln odds that the first token is in its place
_ROUNDS = 4  # alternations between learning coins and learning places


@dataclass(frozen=True, eq=False)
class TurnKnowledge:
    """What the attacker believes about each token's coin in every block."""

    log_odds: NDArray[np.float64]  # [blocks, V] that the coin is 1; 0 without evidence
    frequencies: NDArray[np.float64]  # [V] of the tokens in new texts
    block: int

    def auc(self, coins: NDArray[np.bool_]) -> float:
        """Return how well the log-odds separate coins [blocks, V] that are 1 from those that are 0.

        Coins without evidence are left out.
        """
        seen = self.log_odds != 0.0
        return auc(self.log_odds[seen], coins[seen])

    def signs(self, length: int) -> NDArray[np.float64]:
        """Return the belief that each place of a text promotes a token: [length, V], -1 to 1."""
        places = np.arange(length)
        believed = _clip(self.log_odds)[self._block(places)]
        return np.asarray(believed * _turn(places)[:, None])

    def evidence(self, text: Symbols, at: int = 0) -> float:
        """Return the evidence for the mark in a piece of text that begins at place `at`."""
        places = at + np.arange(len(text))
        believed = _clip(self.log_odds[self._block(places), text])
        return float((believed * _turn(places)).sum())

    def forge(self, length: int, rng: np.random.Generator) -> Symbols:
        """Write a text with the learned mark: tokens seen before, drawn independently."""
        law = self.frequencies * (self.signs(length) > 0)
        if not law.sum(axis=1).all():
            raise ParameterError(
                "too little was learned to forge a text: give the attack more marked texts"
            )
        return draw(law, rng)

    def _block(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(places // self.block % len(self.log_odds))


def learn_turns(
    marked: Sequence[Symbols], unmarked: Sequence[Symbols], size: int, scheme: Turns | None = None
) -> TurnKnowledge:
    """Learn the coins of `size` tokens from texts of one nonce, and from unmarked texts.

    If a text is tokenized differently than it was generated, all later tokens are off by one place.
    So two steps alternate: given the coins, estimate for each token whether it is in its place;
    given these estimates, learn the coins.
    """
    scheme = scheme or Turns()
    texts, others = _Texts.of(marked, size, scheme), _Texts.of(unmarked, size, scheme)
    if not texts.inside.any():
        raise ParameterError("there is no token to learn from")
    usual = others.counts(others.all_in_place).sum(axis=1) + _SMOOTHING  # [2, V]
    natural = np.log(usual[0] / usual[1])  # [V] ln odds of even places without a mark
    in_place = texts.all_in_place
    for _ in range(_ROUNDS):
        counts = texts.counts(in_place)
        everywhere = np.asarray(counts[:, texts.block, texts.tokens])
        rest = everywhere - texts.own_counts(in_place)  # [2, N, L] of all other texts
        believed = np.tanh(_log_odds(rest, natural[texts.tokens]) / 2.0) * _turn(texts.places)
        in_place = np.where(texts.inside, _in_place(believed * texts.inside), 0.0)
    counts = texts.counts(in_place)
    total = counts.sum(axis=(0, 1))
    return TurnKnowledge(_log_odds(counts, natural), total / total.sum(), scheme.block)


@dataclass(frozen=True, eq=False)
class _Texts:
    """Texts as rows, padded: [N, L]."""

    tokens: Symbols
    inside: NDArray[np.bool_]
    size: int
    scheme: Turns

    @classmethod
    def of(cls, texts: Sequence[Symbols], size: int, scheme: Turns) -> _Texts:
        tokens = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
        inside = np.zeros(tokens.shape, dtype=bool)
        for row, text in enumerate(texts):
            tokens[row, : len(text)], inside[row, : len(text)] = text, True
        return cls(tokens, inside, size, scheme)

    @property
    def all_in_place(self) -> NDArray[np.float64]:
        return self.inside.astype(np.float64)

    @property
    def places(self) -> NDArray[np.int64]:
        return np.arange(self.tokens.shape[1]) % self.scheme.period

    @property
    def block(self) -> NDArray[np.int64]:
        """The block of every token: [N, L]."""
        return np.broadcast_to(self.places // self.scheme.block, self.tokens.shape)

    def counts(self, in_place: NDArray[np.float64]) -> NDArray[np.float64]:
        """Count tokens at even and at odd places of every block: [2, blocks, V].

        A token that is not in its place is off by one.
        """
        blocks = self.scheme.period // self.scheme.block
        code = (self.block * self.size + self.tokens).ravel()
        return np.array(
            [
                np.bincount(code, own.ravel(), blocks * self.size).reshape(blocks, self.size)
                for own in self._at_even_and_odd(in_place)
            ]
        )

    def own_counts(self, in_place: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the text of each token itself adds to the token's counts: [2, N, L]."""
        row = np.arange(len(self.tokens))[:, None]
        code = (row * self.scheme.period + self.block) * self.size + self.tokens
        _, same = np.unique(code.ravel(), return_inverse=True)
        found = [
            np.bincount(same, own.ravel())[same].reshape(self.tokens.shape)
            for own in self._at_even_and_odd(in_place)
        ]
        return np.array(found)

    def _at_even_and_odd(
        self, in_place: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        at_even = np.where(self.places % 2 == 0, in_place, 1.0 - in_place) * self.inside
        return at_even, self.inside - at_even


def _log_odds(counts: NDArray[np.float64], natural: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln odds that a coin is 1, given counts [2, ...] and the ln odds [...] without a mark.

    Tokens follow their coins to different degrees, so the likelihood is averaged over all levels.
    """
    by_coin = []
    for sign in (1.0, -1.0):
        odds = [natural + sign * tilt for tilt in _TILTS]
        likely = [-counts[0] * np.logaddexp(0, -x) - counts[1] * np.logaddexp(0, x) for x in odds]
        by_coin.append(np.logaddexp.reduce(likely, axis=0))
    return np.asarray(by_coin[0] - by_coin[1])


def _in_place(believed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that tokens are in their place, given their agreement there: [N, L].

    This is the forward-backward algorithm for a chain of two states.
    """
    agreed = 2.0 * np.arctanh(_FOLLOWED * believed)  # ln odds from the token itself
    before, after = np.empty_like(agreed), np.zeros_like(agreed)
    length = agreed.shape[1]
    for at in range(length):
        given = before[:, at - 1] + agreed[:, at - 1] if at else None
        before[:, at] = _AT_START if given is None else _after_slip(given)
    for at in range(length - 2, -1, -1):
        after[:, at] = _after_slip(after[:, at + 1] + agreed[:, at + 1])
    return np.asarray(1.0 / (1.0 + np.exp(-(before + agreed + after))))


def _after_slip(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ln odds one token later, if a slip may occur in between."""
    tilt = (1.0 - 2.0 * _SLIP) * np.tanh(log_odds / 2.0)
    return np.asarray(2.0 * np.arctanh(tilt))


def _clip(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return beliefs from -1 to 1: odds of e or more count as certain."""
    return np.clip(log_odds, -1.0, 1.0)


def _turn(places: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(1.0 - 2.0 * (places % 2))
