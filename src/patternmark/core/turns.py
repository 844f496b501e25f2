"""The default scheme for text: halves of a vocabulary and their complements take turns.

The keys of a nonce follow each other in a circle. In every block of keys each token has a secret
fair coin. The coins of a block select a half of the tokens, and the keys of the block alternate
between this half and its complement. So a mask-predict model can move a word to a position that
promotes it, and a frequent token that helps one key hurts the next. Blocks are long, so that a
detector that is off by a few tokens still looks at the right block.

The coins of a nonce are those of nonce 0, and each bit of the nonce that is 1 flips them by a set
of coins of its own. So many nonces can be tested quickly, and any two are still independent.

A schedule is far too large to be written out: 512 keys of 262,144 tokens. Only what is asked for is
derived from packed coins: rows of some keys (to mark), or columns of some tokens (to detect).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import Alphabet
from patternmark.core.secret import Secret


class TurnSchedule:
    """Schedules of `period` keys for each of `nonces`, derived from a secret.

    >>> tokens = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(20)], unscored=[])
    >>> schedule = TurnSchedule(Secret(bytes(32)), tokens, 8, block=4, nonces=2, starts=2)
    >>> schedule.promoted(1)[:4].sum(axis=1)  # a half of some of the twenty tokens, and the others
    array([ 9, 11,  9, 11])
    """

    def __init__(
        self, secret: Secret, alphabet: Alphabet, period: int, block: int, starts: int, nonces: int
    ) -> None:
        self._secret, self._alphabet = secret, alphabet
        self.period, self.block, self.nonces = period, block, nonces
        self.starts = np.arange(starts) * (period // starts)
        self.shares = np.array([0.5])  # agreement by chance: every coin is fair
        self.num_blocks = period // block
        self.nonce_bits = (nonces - 1).bit_length()
        self.bits = self.num_blocks * alphabet.num_scored  # secret coins of one nonce
        self._label = f"turns/{alphabet.sha256}/{period}/{block}"
        self._known_coins: dict[int | None, NDArray[np.uint8]] = {}

    is_fair = True

    def promoted(self, nonce: int) -> NDArray[np.bool_]:
        """Which symbols each key of a nonce promotes: [P, V]."""
        return self.promoted_to(nonce, np.arange(self._alphabet.size))

    def promoted_to(self, nonce: int, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some symbols each key of a nonce promotes: [P, len(symbols)]."""
        chosen = np.repeat(self._coins_of(self._of_nonce(nonce), symbols), self.block, axis=0)
        chosen[1::2] ^= True  # every second key of a block promotes the complement
        chosen[:, ~self._alphabet.is_scored(symbols)] = False
        return chosen

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which symbols some keys promote: [len(keys), V]; key = nonce * period + phase."""
        keys = np.asarray(keys, dtype=np.int64)
        scored, each = self._alphabet.scored, self._alphabet.num_scored
        rows = np.zeros((len(keys), self._alphabet.size), dtype=bool)
        # If the scored symbols have consecutive ids, writing to a slice is much faster.
        together = each > 0 and scored[-1] - scored[0] + 1 == each
        where = slice(scored[0], scored[-1] + 1) if together else scored
        half_of = keys // self.block  # blocks, nonce by nonce
        for number in np.unique(half_of).tolist():
            nonce, block = divmod(number, self.num_blocks)
            first = block * each
            octets = self._of_nonce(nonce)[first >> 3 : (first + each + 7) >> 3]
            half = np.unpackbits(octets)[first & 7 :][:each].astype(bool)
            for row in np.flatnonzero(half_of == number).tolist():
                rows[row, where] = ~half if keys[row] % 2 else half
        return rows

    def base_coins(self, symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The coins of nonce 0 for some scored symbols: [blocks, len(symbols)]."""
        return self._coins_of(self._set(None), symbols)

    def turning_coins(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which bits of a nonce flip the coins of some scored symbols: [blocks, len(symbols)]."""
        turns = np.zeros((self.num_blocks, len(symbols)), dtype=np.int64)
        for bit in range(self.nonce_bits):
            turns |= self._coins_of(self._set(bit), symbols).astype(np.int64) << bit
        return turns

    def reuses(self, lags: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether positions at these distances may share a block, in this circle or a later one."""
        past, near = lags % self.period, 2 * self.block
        return np.asarray((past < near) | (past > self.period - near))

    def _coins_of(self, packed: NDArray[np.uint8], symbols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Unpack the coins of some symbols: [blocks, len(symbols)]."""
        blocks = np.arange(self.num_blocks)[:, None]
        place = np.searchsorted(self._alphabet.scored, symbols, side="right") - 1
        number = blocks * self._alphabet.num_scored + place
        return np.asarray(packed[number >> 3] >> (~number & 7).astype(np.uint8) & 1, dtype=bool)

    def _of_nonce(self, nonce: int) -> NDArray[np.uint8]:
        """Return the coins of a nonce, block by block, eight in each byte: [bytes]."""
        coins = self._set(None)
        for bit in range(self.nonce_bits):
            if nonce >> bit & 1:
                coins = coins ^ self._set(bit)
        return coins

    def _set(self, bit: int | None) -> NDArray[np.uint8]:
        """Return the coins of nonce 0, or those by which a bit of a nonce flips them: [bytes]."""
        if bit not in self._known_coins:
            label = self._label if bit is None else f"{self._label}/bit {bit}"
            self._known_coins[bit] = self._secret.octets(label, -(-self.bits // 8))
        return self._known_coins[bit]

    def __repr__(self) -> str:
        return f"TurnSchedule({self.nonces} nonces of {self.period} keys, hidden)"
