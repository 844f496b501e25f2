"""Block marks: find which sequences share a nonce, and pool their votes on every secret coin.

A coin is one secret bit of a nonce, for a block of the schedule and a pair of letters. A residue
votes for the first or the second letter of its pair with its log-odds of agreement. If the votes
for a coin add up to L, its expected sign is tanh(L / 2). Every chain begins at the first block, so
no alignment is needed: it is only unknown which sequences share a nonce.

The coins are fair, so votes that add up to L have the likelihood cosh(L / 2). The likelihood ratio
of a sequence with votes S, for joining a nonce with votes L against having a nonce of its own, is

    product over coins of  cosh((L + S) / 2) / (cosh(L / 2) cosh(S / 2))  =  1 + tanh(L/2) tanh(S/2)

We draw from the posterior by collapsed Gibbs sampling: take a sequence out, draw its nonce again
(one in use, or a new one), put it back. The last sweeps take the likeliest nonce instead.
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
_FULL_SWEEPS_UP_TO = 1000  # sequences; for more of them there are fewer sweeps
_LAST_SWEEPS = 3  # sweeps that take the likeliest nonce
_MAX_SIGN = 0.9999  # expected signs stay below 1, so that no likelihood is 0
_FACTORS_PER_LOG = 16  # factors that are multiplied before the logarithm is taken


@dataclass(frozen=True, eq=False)
class CoinKnowledge:
    """The pooled log-odds of every coin, for every nonce that was found."""

    odds: NDArray[np.float64]  # [C, coins]
    nonce_of: NDArray[np.int64]  # [N] the nonce that each sequence seems to have
    best: int  # the nonce that is known best
    block: int

    def best_signs(self, length: int) -> NDArray[np.float64]:
        """Return the expected signs along a new sequence: [length, V]."""
        return self._signs(self.best, length)

    def signs_of(self, number: int, length: int) -> NDArray[np.float64]:
        """Return the expected signs along a seen sequence: [length, V]."""
        return self._signs(int(self.nonce_of[number]), length)

    def _signs(self, nonce: int, length: int) -> NDArray[np.float64]:
        by_block = np.tanh(self.odds[nonce].reshape(-1, PAIRS) / 2.0)
        known = np.zeros((length, PAIRS))  # 0 beyond the longest sequence seen
        along = np.repeat(by_block, self.block, axis=0)[:length]
        known[: len(along)] = along
        return np.asarray(known[:, pair_of_letter()] * side_of_letter())

    @property
    def num_nonces(self) -> int:
        """The number of nonces that seem to be in use."""
        return len(self.odds)

    @property
    def num_coins(self) -> int:
        """The number of coins of the longest sequence seen."""
        return int(self.odds.shape[1])

    @property
    def largest(self) -> int:
        """The number of sequences that seem to have the best known nonce."""
        return int(np.count_nonzero(self.nonce_of == self.best))

    @property
    def bits_learned(self) -> float:
        """Information about the best nonce in bits, if its sequences really share it."""
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
    settle: int = _LAST_SWEEPS,
) -> CoinKnowledge:
    """Pool what sequences of one key tell about its coins.

    `most_of_one` is the largest number of sequences that can share a nonce, if that is known: a key
    that uses its nonces in turn gives each nonce to equally many. The default number of `sweeps` is
    smaller for many sequences. The last `settle` sweeps take the likeliest nonce.
    """
    places = _Places(_Votes(seen, block), nonces, most_of_one)
    if sweeps is None:
        sweeps = _SWEEPS if len(seen) <= _FULL_SWEEPS_UP_TO else _SWEEPS_OF_MANY
    if len(seen) == 1 or most_of_one == 1:
        sweeps = 1  # each sequence has its own nonce
    for sweep in range(sweeps):
        for row in rng.permutation(len(seen)).tolist():
            places.renew(row, rng if sweep < sweeps - settle else None)
    return places.knowledge(block)


class _Votes:
    """The coins that each sequence votes on, and its votes; these are few of all coins."""

    def __init__(self, seen: Sequence[Seen], block: int) -> None:
        longest = max(len(one.symbols) for one in seen)
        self.size = -(-longest // block) * PAIRS
        found = [_votes_of(one, block) for one in seen]
        width = -(-max(len(coins) for coins, _ in found) // _FACTORS_PER_LOG) * _FACTORS_PER_LOG
        # Rows are padded with votes of 0 on an extra coin.
        self.coins = np.full((len(seen), width), self.size)
        self.votes = np.zeros(self.coins.shape)
        for row, (coins, votes) in enumerate(found):
            self.coins[row, : len(coins)] = coins
            self.votes[row, : len(votes)] = votes


def _votes_of(one: Seen, block: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the coins that a sequence votes on, each once, and its votes."""
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
    """The current nonce of every sequence, and the votes pooled by nonce."""

    def __init__(self, votes: _Votes, nonces: int, most_of_one: int | None) -> None:
        self._votes, self._nonces, self._most = votes, nonces, most_of_one
        number = len(votes.coins)
        most = min(nonces, number)
        self._odds = np.zeros((most, votes.size + 1))  # [C, coins + 1]
        self._signs = np.zeros(self._odds.shape, dtype=np.float32)  # tanh of their halves
        self._own = np.tanh(votes.votes / 2.0).astype(np.float32)
        self._members = np.zeros(most, dtype=np.int64)
        self._nonce = np.full(number, -1)
        self._trust = np.ones(number)  # [N] probability of the nonce when it was chosen

    def renew(self, row: int, rng: np.random.Generator | None) -> None:
        """Take a sequence out and choose its nonce again: at random, or the best without `rng`."""
        if self._nonce[row] >= 0:
            self._move(row, -1)
        used = np.flatnonzero(self._members)
        scores = self._scores(row, used)  # [used + 1], the last for a new nonce
        drawn = scores if rng is None else scores + rng.gumbel(size=scores.shape)
        choice = int(drawn.argmax())
        highest = scores.max()
        self._trust[row] = np.exp(scores[choice] - highest) / np.exp(scores - highest).sum()
        is_known = choice < len(used)
        self._nonce[row] = used[choice] if is_known else np.flatnonzero(self._members == 0)[0]
        self._move(row, 1)

    def _move(self, row: int, sign: int) -> None:
        nonce, coins = self._nonce[row], self._votes.coins[row]
        self._odds[nonce, coins] += sign * self._votes.votes[row]  # each coin occurs once
        self._members[nonce] += sign
        if self._members[nonce] == 0:
            self._odds[nonce] = 0.0  # removes rounding errors
        signs = np.tanh(self._odds[nonce, coins] / 2.0)
        self._signs[nonce, coins] = np.clip(signs, -_MAX_SIGN, _MAX_SIGN)

    def _scores(self, row: int, used: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln of prior times likelihood of each nonce in use, and of a new one."""
        factors = 1.0 + self._signs[used[:, None], self._votes.coins[row]] * self._own[row]
        products = factors.reshape(
            len(used), factors.shape[1] // _FACTORS_PER_LOG, _FACTORS_PER_LOG
        ).prod(axis=2)
        free = self._nonces - len(used)
        room = np.ones(len(used))
        if self._most is not None:  # a nonce with more sequences has less room for another
            room = np.maximum(self._most - self._members[used], 0) / self._most
        with np.errstate(divide="ignore"):
            known = np.log(products.astype(np.float64)).sum(axis=1) + np.log(room)
            return np.append(known, np.log(free))

    def knowledge(self, block: int) -> CoinKnowledge:
        """Return what was learned.

        A nonce may seem well known although its sequences were put together only by chance. So its
        value is weighted by the probability that they belong together; if they do not, one of them
        is still right.
        """
        used, nonce = np.unique(self._nonce, return_inverse=True)
        members = np.bincount(nonce)
        trust = np.bincount(nonce, weights=self._trust) / members
        trust += (1.0 - trust) / members
        odds = self._odds[used, :-1]
        value = trust * np.abs(np.tanh(odds / 2.0)).sum(axis=1)
        return CoinKnowledge(odds, nonce.astype(np.int64), int(value.argmax()), block)
