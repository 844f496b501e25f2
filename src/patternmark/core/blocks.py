"""The default scheme for proteins: each block promotes one half of the amino acids by its coins.

A block is a few neighbouring positions that promote the same half; the next block has a half of
its own. The letters form public pairs, and for each pair a secret coin of the block says which of
the two it promotes. So a lost or inserted residue only moves the border of a block.

Only this module knows which secret bit belongs to which block and pair. Each chain of a record has
a stream of its own, and a nonce selects one of R independent schedules in it:

    word number j R + r of the stream of a chain  =  the coins of block j under nonce r

A word is two bytes, big-endian. Its bit p (the lowest is bit 0) is 1 where the block promotes the
first letter of pair p. The stream never repeats, so a longer chain uses new coins.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError

# The matching of the 20 amino acids that makes marks easiest to find: `patternmark bench exchanges`
# measures for each pair how much a letter tells about its coin in designs of ProteinMPNN.
PROTEIN_PAIRS = ("AE", "CQ", "DN", "FY", "GP", "HW", "IV", "KR", "LM", "ST")
MAX_BLOCKS = 2**20  # in a chain
MAX_CHAINS = 2**16  # in a record
_WORD_BYTES = 2


@cache
def pair_of_letter() -> NDArray[np.int64]:
    """Return the number of each letter's pair, or -1 if it has none: [V]."""
    return _by_letter([(number, number) for number in range(len(PROTEIN_PAIRS))], other=-1)


@cache
def side_of_letter() -> NDArray[np.int64]:
    """Return +1 for the first letter of a pair, -1 for the second, 0 for others: [V]."""
    return _by_letter([(1, -1)] * len(PROTEIN_PAIRS), other=0)


def _by_letter(values: list[tuple[int, int]], other: int) -> NDArray[np.int64]:
    table = np.full(PROTEIN.size, other, dtype=np.int64)
    table[PROTEIN.encode("".join(PROTEIN_PAIRS))] = np.ravel(values)
    table.setflags(write=False)  # shared by all callers
    return table


class BlockSchedule:
    """Which letters the blocks of each nonce promote, derived from a secret.

    >>> schedule = BlockSchedule(Secret(bytes(32)), block=3, nonces=2)
    >>> halves = schedule.halves(chain=0, blocks=4)
    >>> halves.shape, int((halves[1, 3] > 0).sum())  # ten of the twenty amino acids
    ((2, 4, 21), 10)
    >>> bool((schedule.promoted_rows(schedule.keys(0, 1, 12))[11] == (halves[1, 3] > 0)).all())
    True
    """

    def __init__(self, secret: Secret, *, block: int, nonces: int) -> None:
        self._secret = secret
        self.block, self.nonces = block, nonces

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain, ten bits in each word: [blocks, R]."""
        if not 0 <= chain < MAX_CHAINS:
            raise ParameterError(f"a record has up to {MAX_CHAINS} chains, not {chain + 1}")
        label = f"blocks/{PROTEIN.sha256}/{self.block}/{self.nonces}/{chain}"
        octets = self._secret.octets(label, blocks * self.nonces * _WORD_BYTES)
        return octets.view(">u2").astype(np.uint16).reshape(blocks, self.nonces)

    def halves(self, chain: int, blocks: int) -> NDArray[np.int8]:
        """Return +1 for letters that a block promotes, -1 for others, 0 for X: [R, blocks, V]."""
        return halves_of(self.words(chain, blocks)).transpose(1, 0, 2)

    def keys(self, chain: int, nonce: int | NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """Return the position keys of a chain: [length]; for nonces [n, 1]: [n, length]."""
        first = (chain * self.nonces + nonce) * MAX_BLOCKS
        return np.asarray(first + np.arange(length) // self.block)

    def promoted_rows(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which letters some keys promote: [len(keys), V]."""
        keys = np.asarray(keys, dtype=np.int64)
        stream, block_of = np.divmod(keys, MAX_BLOCKS)
        chain_of, nonce_of = np.divmod(stream, self.nonces)
        rows = np.zeros((len(keys), PROTEIN.size), dtype=bool)
        for chain in np.unique(chain_of).tolist():
            own = np.flatnonzero(chain_of == chain)
            words = self.words(chain, int(block_of[own].max()) + 1)
            rows[own] = halves_of(words[block_of[own], nonce_of[own]]) > 0
        return rows

    def __repr__(self) -> str:
        return f"BlockSchedule(blocks of {self.block}, {self.nonces} nonces, hidden)"


def halves_of(words: NDArray[np.uint16]) -> NDArray[np.int8]:
    """Return +1 for letters that the coins promote, -1 for others, 0 for X: [...] -> [..., V]."""
    pair, side = pair_of_letter(), side_of_letter()
    coins = (words[..., None] >> np.maximum(pair, 0).astype(np.uint16)) & np.uint16(1)
    return np.asarray((2 * coins.astype(np.int8) - 1) * side.astype(np.int8))
