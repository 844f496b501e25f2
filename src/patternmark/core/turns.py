"""The default scheme for text: halves of a vocabulary and their complements take turns.

A nonce has a schedule of keys that follow each other in a circle. Blocks of a few keys take turns
between a half of the tokens and its complement; each block has a half of its own. Tokens are paired
by a secret shuffle, and of each pair a secret bit says which one the half holds.

A mask-predict model can move a word to a position whose half holds it, so alternation itself shows
a mark in text. What one key gains from a token that is frequent anyway, the next loses.

A schedule of a vocabulary is far too large to be written out: 512 keys of 262,144 tokens. What is
asked for is derived from the packed bits: the rows of some keys (to mark), the columns of some
tokens (to detect).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.secret import Secret

_KEPT_PLACES = 2**24  # symbols times nonces whose shuffles are kept: 64 MiB


class TurnSchedule:
    """Schedules of `period` keys for each of `nonces`, derived from a secret.

    >>> tokens = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(20)], unscored=[])
    >>> schedule = TurnSchedule(Secret(bytes(32)), tokens, 8, block=4, nonces=2, starts=2)
    >>> schedule.promoted(1).sum(axis=1)  # ten of the twenty tokens
    array([10, 10, 10, 10, 10, 10, 10, 10])
    """

    def __init__(
        self, secret: Secret, alphabet: Alphabet, period: int, block: int, starts: int, nonces: int
    ) -> None:
        self._secret, self._alphabet = secret, alphabet
        self.period, self.block, self.nonces = period, block, nonces
        self.starts = np.arange(starts) * (period // starts)
        self.shares = np.array([0.5])  # of chance: every bit is a fair coin
        self._pairs = (alphabet.num_scored + 1) // 2
        self.bits = period // block * self._pairs  # secret bits of one nonce
        self._label = f"schedule/{alphabet.sha256}/{period}/{block}"
        self._known_places: dict[int, NDArray[np.int32]] = {}

    is_fair = True

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which symbols each key of a nonce promotes: [P, V]."""
        return self.promoted_to(nonce, np.arange(self._alphabet.size))

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some symbols each key of a nonce promotes: [P, len(symbols)]."""
        place = self._places(nonce)[symbols]
        blocks = np.arange(self.period // self.block)
        bit = blocks[:, None] * self._pairs + (place >> 1)  # the number of each symbol's
        bits = self._secret_bits[nonce][bit >> 3] >> (~bit & 7).astype(np.uint8)
        chosen = np.repeat((bits ^ place).astype(np.uint8) & 1, self.block, axis=0).astype(bool)
        chosen[1::2] ^= True  # every second key of a block promotes the complement
        chosen[:, place < 0] = False
        return chosen

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which symbols some keys promote: [len(keys), V]; key = nonce * period + phase."""
        keys = np.asarray(keys, dtype=np.int64)
        nonce_of = keys // self.period
        rows = np.empty((len(keys), self._alphabet.size), dtype=bool)
        for nonce in np.unique(nonce_of).tolist():
            places = self._places(nonce)
            pair = (places >> 1).astype(np.intp)  # numpy would make it so for every block
            is_second, scored = (places & 1).astype(np.uint8), places >= 0
            own = np.flatnonzero(nonce_of == nonce)
            block_of = keys[own] % self.period // self.block
            for block in np.unique(block_of).tolist():
                first = block * self._pairs
                octets = self._secret_bits[nonce][first >> 3 : (first + self._pairs + 7) >> 3]
                bits = np.unpackbits(octets)[first & 7 :]  # [pairs], and up to seven more
                half = (bits[pair] ^ is_second).view(bool) & scored
                complement = half ^ scored
                for row in own[block_of == block].tolist():
                    rows[row] = complement if keys[row] % 2 else half
        return rows

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether positions at these distances may meet one block: neighbours, or after a round.

        A round may be some positions longer or shorter, where symbols were lost or gained.
        """
        past, near = lags % self.period, 2 * self.block
        return np.asarray((past < near) | (past > self.period - near))

    @cached_property
    def _secret_bits(self) -> NDArray[np.uint8]:
        """The bits of every nonce, block by block and pair by pair, eight a byte: [R, bytes]."""
        each = -(-self.bits // 8)
        octets = self._secret.octets(self._label, self.nonces * each)
        return octets.reshape(self.nonces, each)

    def _places(self, nonce: int) -> NDArray[np.int32]:
        """Return where each symbol stands in the order of pairs, -1 where it is unscored: [V].

        Places 2i and 2i + 1 are a pair, and a bit promotes the first; an odd one out comes last.
        """
        if nonce not in self._known_places:
            label = f"{self._label}/{nonce}/pairs"
            order = self._secret.permutation(label, self._alphabet.num_scored)
            if (len(self._known_places) + 1) * self._alphabet.size > _KEPT_PLACES:
                self._known_places.clear()
            places = np.full(self._alphabet.size, -1, dtype=np.int32)
            places[self._alphabet.scored[order]] = np.arange(len(order))
            self._known_places[nonce] = places
        return self._known_places[nonce]

    def __repr__(self) -> str:
        return f"TurnSchedule({self.nonces} nonces of {self.period} keys, hidden)"
