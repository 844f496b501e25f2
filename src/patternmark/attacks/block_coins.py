"""Block marks: find which sequences share a nonce, and pool their votes on every secret coin.

A coin is one secret bit of a nonce: a block of the schedule and a pair of letters. A residue votes
for the first or the second letter of its pair, by its log-odds of agreement. If the votes for a
coin add up to L, its expected sign is tanh(L / 2). Every chain begins at the first block, so there
is nothing to align: only which sequences share a nonce is unknown.

The coins are fair, so votes that add up to L have the likelihood cosh(L / 2). A sequence with votes
S joins a nonce with votes L with the likelihood ratio, against a nonce of its own,

    product over coins of  cosh((L + S) / 2) / (cosh(L / 2) cosh(S / 2))  =  1 + tanh(L/2) tanh(S/2)

We draw from the posterior by collapsed Gibbs sampling: take a sequence out, draw its nonce again
(one in use, or one that nobody has used), put it back. The last sweeps take the likeliest nonce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.seen import Seen
from patternmark.core.alphabet import UNREAD
from patternmark.core.blocks import PROTEIN_PAIRS, pair_of_letter, side_of_letter

PAIRS = len(PROTEIN_PAIRS)
_SWEEPS, _SWEEPS_OF_MANY = 24, 8
_MANY = 1000  # sequences
_SETTLING = 3  # sweeps
_SUREST = 0.9999  # expected signs stay below 1, so that no likelihood is 0
_AT_ONCE = 16  # factors that are multiplied before the logarithm is taken


@dataclass(frozen=True, eq=False)
class CoinKnowledge:
    """The pooled log-odds of every coin of every nonce that was found."""

    odds: NDArray[np.float64]  # [C, coins]
    nonce_of: NDArray[np.int64]  # [N] which of them each sequence seems to have
    best: int  # the nonce most is known of
    block: int

    def best_signs(self, length: int) -> NDArray[np.float64]:
        """Return the expected signs along a new sequence: [length, V]."""
        return self._signs(self.best, length)

    def signs_of(self, number: int, length: int) -> NDArray[np.float64]:
        """Return the expected signs along a seen sequence: [length, V]."""
        return self._signs(int(self.nonce_of[number]), length)

    def _signs(self, nonce: int, length: int) -> NDArray[np.float64]:
        by_block = np.tanh(self.odds[nonce].reshape(-1, PAIRS) / 2.0)
        known = np.zeros((length, PAIRS))  # nothing is known beyond what was seen
        along = np.repeat(by_block, self.block, axis=0)[:length]
        known[: len(along)] = along
        return np.asarray(known[:, pair_of_letter()] * side_of_letter())

    @property
    def num_nonces(self) -> int:
        """How many nonces are believed to be in use."""
        return len(self.odds)

    @property
    def num_coins(self) -> int:
        """How many coins sequences of these lengths have."""
        return int(self.odds.shape[1])

    @property
    def largest(self) -> int:
        """How many sequences the best known nonce has."""
        return int(np.count_nonzero(self.nonce_of == self.best))

    @property
    def bits_learned(self) -> float:
        """What the attacker believes to know of the best nonce, if its sequences do share it."""
        odds = np.minimum(np.abs(self.odds[self.best]), 30.0)  # p stays below 1
        p = 1.0 / (1.0 + np.exp(-odds))
        return float((1.0 + p * np.log2(p) + (1.0 - p) * np.log2(1.0 - p)).sum())


def learn_coins(
    seen: Sequence[Seen],
    block: int,
    nonces: int,
    rng: np.random.Generator,
    *,
    most_of_one: int | None = None,
    sweeps: int | None = None,
    settle: int = _SETTLING,
) -> CoinKnowledge:
    """Pool what sequences of one key say of its coins.

    `most_of_one` is how many sequences can share a nonce, if that is known: a key that uses its
    nonces in turn gives each to as many. Many sequences need few `sweeps`, if none are given. The
    last `settle` of them take the likeliest nonce.
    """
    places = _Places(_Votes(seen, block), nonces, most_of_one)
    if sweeps is None:
        sweeps = _SWEEPS if len(seen) <= _MANY else _SWEEPS_OF_MANY
    if len(seen) == 1 or most_of_one == 1:
        sweeps = 1  # each has a nonce of its own
    for sweep in range(sweeps):
        for row in rng.permutation(len(seen)).tolist():
            places.renew(row, rng if sweep < sweeps - settle else None)
    return places.knowledge(block)


class _Votes:
    """The coins that each sequence votes on, and the votes: few of all coins."""

    def __init__(self, seen: Sequence[Seen], block: int) -> None:
        longest = max(len(one.symbols) for one in seen)
        self.size = -(-longest // block) * PAIRS
        found = [_votes_of(one, block) for one in seen]
        width = -(-max(len(coins) for coins, _ in found) // _AT_ONCE) * _AT_ONCE
        # Votes of 0 on one coin more fill up the rows.
        self.coins = np.full((len(seen), width), self.size)
        self.votes = np.zeros(self.coins.shape)
        for row, (coins, votes) in enumerate(found):
            self.coins[row, : len(coins)] = coins
            self.votes[row, : len(votes)] = votes


def _votes_of(one: Seen, block: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the coins that a sequence meets, each once, and the votes for them."""
    sides = np.where(one.symbols == UNREAD, 0, side_of_letter()[one.symbols])
    place = np.flatnonzero(sides)  # X has no pair
    letters = one.symbols[place]
    coin = place // block * PAIRS + pair_of_letter()[letters]
    coins, which = np.unique(coin, return_inverse=True)
    signed = sides[place] * one.log_odds[place]
    votes = np.zeros(len(coins))
    np.add.at(votes, which, signed)
    return coins, votes


class _Places:
    """Which nonce every sequence has for now, and the votes pooled accordingly."""

    def __init__(self, votes: _Votes, nonces: int, most_of_one: int | None) -> None:
        self._votes, self._nonces, self._most = votes, nonces, most_of_one
        number = len(votes.coins)
        most = min(nonces, number)
        self._odds = np.zeros((most, votes.size + 1))  # [C, coins + 1]
        self._signs = np.zeros(self._odds.shape, dtype=np.float32)  # tanh of their halves
        self._own = np.tanh(votes.votes / 2.0).astype(np.float32)
        self._members = np.zeros(most, dtype=np.int64)
        self._nonce = np.full(number, -1)
        self._trust = np.ones(number)  # [N] how likely its nonce was when it was taken

    def renew(self, row: int, rng: np.random.Generator | None) -> None:
        """Take a sequence out and place it again: at random, or (without rng) at the best."""
        if self._nonce[row] >= 0:
            self._move(row, -1)
        used = np.flatnonzero(self._members)
        scores = self._scores(row, used)  # [used + 1], a nonce of its own is last
        drawn = scores if rng is None else scores + rng.gumbel(size=scores.shape)
        choice = int(drawn.argmax())
        highest = scores.max()
        self._trust[row] = np.exp(scores[choice] - highest) / np.exp(scores - highest).sum()
        is_known = choice < len(used)
        self._nonce[row] = used[choice] if is_known else np.flatnonzero(self._members == 0)[0]
        self._move(row, 1)

    def _move(self, row: int, sign: int) -> None:
        nonce, coins = self._nonce[row], self._votes.coins[row]
        self._odds[nonce, coins] += sign * self._votes.votes[row]  # no coin comes twice
        self._members[nonce] += sign
        if self._members[nonce] == 0:
            self._odds[nonce] = 0.0  # no rounding is left behind
        signs = np.tanh(self._odds[nonce, coins] / 2.0)
        self._signs[nonce, coins] = np.clip(signs, -_SUREST, _SUREST)

    def _scores(self, row: int, used: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln of prior times likelihood of each nonce in use, and of a new one."""
        factors = 1.0 + self._signs[used[:, None], self._votes.coins[row]] * self._own[row]
        products = factors.reshape(len(used), factors.shape[1] // _AT_ONCE, _AT_ONCE).prod(axis=2)
        free = self._nonces - len(used)
        room = np.ones(len(used))
        if self._most is not None:  # the fuller a nonce is, the less room it has
            room = np.maximum(self._most - self._members[used], 0) / self._most
        with np.errstate(divide="ignore"):
            known = np.log(products.astype(np.float64)).sum(axis=1) + np.log(room)
            return np.append(known, np.log(free))

    def knowledge(self, block: int) -> CoinKnowledge:
        """Return what was learned.

        Much may be "known" of a nonce whose sequences only chance put together. So knowledge is
        weighed by how surely they belong together; if they do not, one of them is still right.
        """
        used, nonce = np.unique(self._nonce, return_inverse=True)
        members = np.bincount(nonce)
        trust = np.bincount(nonce, weights=self._trust) / members
        trust += (1.0 - trust) / members
        odds = self._odds[used, :-1]
        value = trust * np.abs(np.tanh(odds / 2.0)).sum(axis=1)
        return CoinKnowledge(odds, nonce.astype(np.int64), int(value.argmax()), block)
