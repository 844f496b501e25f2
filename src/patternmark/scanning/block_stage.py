"""The first stage of a scan for block keys: which keys a segment may be marked with.

A mark begins with the first block of the stream of chain 0, under one of R nonces. The statistic of
a pair of segment and key is the largest count of residues that agree with a nonce. A residue put in
front of a design, or lost there, moves all that follow, so that the count is taken at several
*phases*: at phase f, residue i stands at position i + f of the stream. Few phases are nearly free,
because eight words fill a vector. The p-value is that of one count times the number of nonces and
phases. It takes residues for independent. Those of one block are not where a letter repeats, so
that more of such sequences pass than by chance; the second stage refuses them.

Residues before the stream begins say nothing. They would only dilute the count, so every second of
them counts as if it agreed. A fixed half in place of coins makes a large count rarer, not likelier.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from math import log
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import PROTEIN_PAIRS, pair_of_letter, side_of_letter
from patternmark.core.key import Key
from patternmark.core.schemes import Blocks
from patternmark.errors import ParameterError
from patternmark.null.binomial import least_count
from patternmark.scanning.keyset import AMINO_ACIDS, LEVELS, LONGEST
from patternmark.scanning.segments import kernels
from patternmark.statistics.block_ratio import BlockCoins

FIRST_PHASE, PHASES = -4, 8  # phases are FIRST_PHASE to FIRST_PHASE + PHASES - 1
SCHEMES = (Blocks.name,)  # whose keys have such streams
_LANES = 64
_LAST = 26  # of the Latin alphabet
_ROWS = 1 + _LAST  # of a table: one for each letter, and an empty one
_PAIRS = 2**16  # that may pass at once, besides those of one segment
_KEPT_BYTES = 2**27  # of tables; those of more keys are made again for every part that is read


class FirstStage(ABC):
    """Finds the pairs of a segment and a key whose p-value is small: [pairs, 2].

    Segments stand one after the other, the s-th is letters[begins[s] : begins[s + 1]]. Letters are
    their places in the Latin alphabet, 1 to 26; what is no amino acid, such as 0, is not scored.
    """

    limits: NDArray[np.int64]  # the least count of each p-value of the tally: [n + 1, LEVELS]

    @abstractmethod
    def each_passing(
        self,
        letters: NDArray[np.uint8],
        begins: NDArray[np.int64],
        passing_level: int,
        tally: NDArray[np.int64],
    ) -> Iterator[NDArray[np.int64]]:
        """Yield pairs of at most 10^-passing_level, some at a time, of a key by their segments.

        To `tally` it adds how many pairs are at most 10^-1, 10^-2 and so on: [LEVELS].
        """

    def passing(self, *given: Any) -> NDArray[np.int64]:
        """Return all of these pairs, sorted by segments and then by keys."""
        return in_order([*self.each_passing(*given)])


class BlockGroup(FirstStage):
    """Block keys of one shape: the same block and as many nonces."""

    def __init__(self, keys: Sequence[Key]) -> None:
        if not keys:
            raise ParameterError("there are no keys to look for")
        self.keys = list(keys)
        shape = _shape(self.keys[0])
        for key in self.keys:
            if _shape(key) != shape:
                raise ParameterError(
                    f"key {key.key_id}: its block or nonces are not those of key "
                    f"{self.keys[0].key_id}: keys of one group are alike"
                )
            key.require_secret()
        coins = coins_of(self.keys[0])
        self.block, self.nonces = coins.block, coins.nonces
        self.limits = _limits(self.nonces * PHASES)

    def each_passing(
        self,
        letters: NDArray[np.uint8],
        begins: NDArray[np.int64],
        passing_level: int,
        tally: NDArray[np.int64],
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the pairs that pass, some at a time."""
        check_level(passing_level, tally)
        loops = kernels("block_loops")
        places, edges, scored, longest = self._laid_out(letters, begins)
        hits = np.empty((_PAIRS + _LANES, 2), dtype=np.int64)
        for keys, tables in self._tables(longest):
            planes, first = self._planes(), 0
            while first < len(scored):
                number, first = loops.passing_keys(
                    tables, places, edges, scored, first, self.nonces, len(keys), self.limits,
                    passing_level - 1, planes, tally, hits,
                )  # fmt: skip
                if number:
                    yield hits[:number] + np.array([0, keys.start])

    def counts(self, letters: NDArray[np.uint8], begins: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return how many residues agree, for each nonce and phase: [segments, keys, R, PHASES].

        It is far slower than `passing`.
        """
        loops = kernels("block_loops")
        places, edges, scored, longest = self._laid_out(letters, begins)
        shape = (len(scored), len(self.keys), self.nonces, PHASES)
        result = np.zeros(shape, dtype=np.int16)
        for keys, tables in self._tables(longest):
            some = np.zeros((len(scored), len(tables) * _LANES, PHASES), dtype=np.int16)
            loops.count(tables, places, edges, self._planes(), some)
            used = some[:, : len(keys) * self.nonces]
            result[:, keys.start : keys.stop] = used.reshape(len(scored), len(keys), *shape[2:])
        return result

    def _laid_out(
        self, letters: NDArray[np.uint8], begins: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.int64], int]:
        """Return where words of residues are in a table, segments' edges, what is scored.

        And for how long a segment the tables are to be.
        """
        loops = kernels("block_loops")
        letters, begins, sizes = checked_segments(letters, begins)
        longest = LONGEST if self._is_kept else int(sizes.max(initial=0))
        filled = -(-sizes // loops.CHUNK) * loops.CHUNK
        places = np.empty(filled.sum(), dtype=np.uint16)  # _ROWS (LONGEST + PHASES) < 2^16
        edges = np.empty(len(begins), dtype=np.int64)
        scored = np.empty(len(sizes), dtype=np.int64)
        padded = np.append(letters, np.zeros(loops.CHUNK, dtype=np.uint8))
        known = sum(1 << code for code in letter_codes().tolist())
        loops.lay_out(padded, begins, known, longest + PHASES, places, edges, scored)
        return places, edges, scored, longest

    @property
    def _at_once(self) -> int:
        """How many keys share a word."""
        return max(1, _LANES // self.nonces)

    @cached_property
    def _is_kept(self) -> bool:
        """Whether the tables of all keys are few enough to be kept."""
        words = -(-self.nonces // _LANES) * -(-len(self.keys) // self._at_once)
        return words * _ROWS * (LONGEST + PHASES) * 8 <= _KEPT_BYTES

    @cached_property
    def _kept(self) -> list[tuple[range, NDArray[np.uint64]]]:
        return [*self._made(LONGEST)]

    def _tables(self, longest: int) -> Iterator[tuple[range, NDArray[np.uint64]]]:
        """Yield keys that share a word, or one that has several, with their tables."""
        yield from self._kept if self._is_kept else self._made(longest)

    def _made(self, longest: int) -> Iterator[tuple[range, NDArray[np.uint64]]]:
        blocks = num_blocks(longest, self.block)
        for at in range(0, len(self.keys), self._at_once):
            keys = range(at, min(at + self._at_once, len(self.keys)))
            coins = [coins_of(self.keys[k]).words(0, blocks) for k in keys]
            yield keys, self._table(np.concatenate(coins, axis=1), longest)

    def _table(self, coins: NDArray[np.uint16], longest: int) -> NDArray[np.uint64]:
        """Lay the coins of lanes out, [blocks, lanes], as [words, _ROWS * width], by letters.

        Column c of a row is position c + FIRST_PHASE of the stream. Lanes that are left over agree
        with no letter.
        """
        blocks, lanes = coins.shape
        words = -(-lanes // _LANES)
        bits = np.zeros((blocks, len(PROTEIN_PAIRS), words * _LANES), dtype=np.uint8)
        pairs = np.arange(len(PROTEIN_PAIRS), dtype=np.uint16)[:, None]
        bits[:, :, :lanes] = (coins[:, None, :] >> pairs) & np.uint16(1)
        packed = np.packbits(bits, axis=2, bitorder="little").view("<u8")  # [blocks, pairs, words]
        used = np.packbits(np.arange(words * _LANES) < lanes, bitorder="little").view("<u8")
        pair, is_second = letters_in_pairs()
        of_letters = packed[:, pair] ^ np.where(is_second[:, None], used, np.uint64(0))
        position = np.arange(longest + PHASES) + FIRST_PHASE
        rows = np.zeros((words, len(AMINO_ACIDS), len(position)), dtype=np.uint64)
        inside = position >= 0
        rows[:, :, inside] = of_letters[position[inside] // self.block].transpose(2, 1, 0)
        rows[:, :, ~inside & (position % 2 == 0)] = used[:, None, None]
        table = np.zeros((words, _ROWS, len(position)), dtype=np.uint64)
        table[:, letter_codes()] = rows
        return table.reshape(words, -1)

    def _planes(self) -> NDArray[np.uint64]:
        loops = kernels("block_loops")
        words = -(-self.nonces // _LANES)
        shape = (words, PHASES // loops.WORDS_PER_VECTOR, loops.PLANES, loops.WORDS_PER_VECTOR)
        return np.zeros(shape, dtype=np.uint64)


def num_blocks(longest: int, block: int) -> int:
    """Return how many blocks of the stream a segment may meet, at any phase."""
    return -(-(longest + PHASES + FIRST_PHASE) // block)


def coins_of(key: Key) -> BlockCoins:
    """Return where the coins of a key's blocks come from."""
    return cast("BlockCoins", key.schedule)


def check_level(passing_level: int, tally: NDArray[np.int64]) -> None:
    """Refuse a level that there is not, and a tally that has other ones."""
    if not 1 <= passing_level <= LEVELS:
        raise ParameterError(f"a level is from 1 to {LEVELS}, not {passing_level}")
    if tally.shape != (LEVELS,) or tally.dtype != np.int64:
        raise ParameterError(f"a tally has {LEVELS} numbers of 64 bits")


def checked_segments(
    letters: NDArray[np.uint8], begins: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return letters, where segments begin, and their sizes, or refuse them.

    What reads them looks at memory as it is: nothing but arrays of these kinds may get there.
    """
    letters = np.ascontiguousarray(letters, dtype=np.uint8)
    if letters.max(initial=0) > _LAST:
        raise ParameterError(f"letters are numbers from 0 to {_LAST}, not {letters.max()}")
    begins = np.ascontiguousarray(begins, dtype=np.int64)
    sizes = np.diff(begins)
    if len(begins) < 1 or begins[0] < 0 or begins[-1] > len(letters) or np.any(sizes < 0):
        raise ParameterError("segments do not lie in their letters one after the other")
    if sizes.max(initial=0) > LONGEST:
        raise ParameterError(f"a segment has up to {LONGEST} residues, not {sizes.max()}")
    return letters, begins, sizes


def in_order(found: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Put pairs (segment, key) together, sorted by segments and then by keys: [pairs, 2]."""
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *found])
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _shape(key: Key) -> str:
    """Return what the keys of a group share; refuse keys that are of another kind."""
    if key.profile.scheme.name not in SCHEMES:
        raise ParameterError(f"key {key.key_id} is not a block key")
    return key.profile.scheme.signature


@cache
def letter_codes() -> NDArray[np.int64]:
    """Return the place of each amino acid in the Latin alphabet: [20], 1 to 26."""
    return np.array([ord(letter) - ord("A") + 1 for letter in AMINO_ACIDS])


@cache
def letters_in_pairs() -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the pair of each amino acid, and whether it is the second letter of it: [20] each."""
    symbols = PROTEIN.encode(AMINO_ACIDS)
    return pair_of_letter()[symbols], side_of_letter()[symbols] < 0


@cache
def _limits(ways: int) -> NDArray[np.int64]:
    """Return the least count of each n whose tail, times the ways there are, is 10^-level."""
    n = np.arange(LONGEST + 1)
    levels = range(1, LEVELS + 1)
    return np.stack([least_count(n, -level * log(10.0), ways) for level in levels], axis=1)
