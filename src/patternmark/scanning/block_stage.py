"""The first stage of a scan for block keys: find the keys that may have marked a segment.

A mark begins with the first block of the key sequence of chain 0, under one of R nonces. The
statistic of a segment and a key is the largest number of residues that agree with one nonce. A
residue that is added or lost in front of a design moves all later ones. So the agreeing residues
are counted at eight *phases*: at phase f, residue i stands at position i + f of the key sequence.
Eight phases cost little more than one, because eight words fill a vector. The p-value is that of
one count times the number of nonces and phases. It assumes independent residues. If a letter occurs
twice in a block, this is wrong, and more such sequences pass than by chance; the second stage
rejects them.

Residues that stand before the key sequence have no coin. They would dilute the count, so every
second of them counts as if it agreed. A fixed half makes a large count rarer than coins would.
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
SCHEMES = (Blocks.name,)  # the schemes of keys that this stage can count
_LANES = 64  # bits of a word, each of which belongs to one nonce of a key
_LATIN_LETTERS = 26
_TABLE_ROWS = 1 + _LATIN_LETTERS  # row 0 is empty, for letters that are not scored
_HITS_AT_ONCE = 2**16  # pairs that are returned at once, besides those of one segment
_CACHED_BYTES = 2**27  # tables up to this size are cached; larger ones are made for every batch


class FirstStage(ABC):
    """Finds the pairs of a segment and a key whose p-value is small: [pairs, 2].

    Segment s is letters[begins[s] : begins[s + 1]]. A letter is its place in the Latin alphabet, 1
    to 26. Numbers that are not an amino acid, such as 0, are not scored.
    """

    limits: NDArray[np.int64]  # the least count for each p-value of the tally: [n + 1, LEVELS]

    @abstractmethod
    def each_passing(
        self,
        letters: NDArray[np.uint8],
        begins: NDArray[np.int64],
        passing_level: int,
        tally: NDArray[np.int64],
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the pairs with a p-value of at most 10^-passing_level, some at a time.

        For each key, pairs come in the order of segments. `tally` is increased by the number of
        pairs whose p-value is at most 10^-1, 10^-2 and so on: [LEVELS].
        """

    def passing(self, *given: Any) -> NDArray[np.int64]:
        """Return the pairs of `each_passing`, sorted by segments and then by keys."""
        return in_order([*self.each_passing(*given)])


class BlockGroup(FirstStage):
    """Block keys with the same block size and the same number of nonces."""

    def __init__(self, keys: Sequence[Key]) -> None:
        if not keys:
            raise ParameterError("there are no keys to look for: give at least one")
        self.keys = list(keys)
        shape = _shape(self.keys[0])
        for key in self.keys:
            if _shape(key) != shape:
                raise ParameterError(
                    f"key {key.key_id}: its block or nonces differ from those of key "
                    f"{self.keys[0].key_id}: all keys of a group must be alike"
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
        places, edges, scored, longest = self._locate_words(letters, begins)
        hits = np.empty((_HITS_AT_ONCE + _LANES, 2), dtype=np.int64)
        for keys, tables in self._tables(longest):
            planes, first = self._empty_planes(), 0
            while first < len(scored):
                number, first = loops.passing_keys(
                    tables, places, edges, scored, first, self.nonces, len(keys), self.limits,
                    passing_level - 1, planes, tally, hits,
                )  # fmt: skip
                if number:
                    yield hits[:number] + np.array([0, keys.start])

    def counts(self, letters: NDArray[np.uint8], begins: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return how many residues agree, for each nonce and phase: [segments, keys, R, PHASES].

        This is far slower than `passing`.
        """
        loops = kernels("block_loops")
        places, edges, scored, longest = self._locate_words(letters, begins)
        shape = (len(scored), len(self.keys), self.nonces, PHASES)
        result = np.zeros(shape, dtype=np.int16)
        for keys, tables in self._tables(longest):
            some = np.zeros((len(scored), len(tables) * _LANES, PHASES), dtype=np.int16)
            loops.count(tables, places, edges, self._empty_planes(), some)
            used = some[:, : len(keys) * self.nonces]
            result[:, keys.start : keys.stop] = used.reshape(len(scored), len(keys), *shape[2:])
        return result

    def _locate_words(
        self, letters: NDArray[np.uint8], begins: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.int64], int]:
        """Return where the words of residues are in a table, and the edges of segments there.

        Also the number of scored residues of each segment, and the longest segment that the table
        must allow.
        """
        loops = kernels("block_loops")
        letters, begins, sizes = check_segments(letters, begins)
        longest = LONGEST if self._is_cached else int(sizes.max(initial=0))
        filled = -(-sizes // loops.CHUNK) * loops.CHUNK
        places = np.empty(filled.sum(), dtype=np.uint16)  # _TABLE_ROWS (LONGEST + PHASES) < 2^16
        edges = np.empty(len(begins), dtype=np.int64)
        scored = np.empty(len(sizes), dtype=np.int64)
        padded = np.append(letters, np.zeros(loops.CHUNK, dtype=np.uint8))
        known = sum(1 << code for code in letter_codes().tolist())
        loops.lay_out(padded, begins, known, longest + PHASES, places, edges, scored)
        return places, edges, scored, longest

    @property
    def _keys_per_word(self) -> int:
        """How many keys share a word."""
        return max(1, _LANES // self.nonces)

    @cached_property
    def _is_cached(self) -> bool:
        """Whether the tables of all keys are small enough to be cached."""
        words = -(-self.nonces // _LANES) * -(-len(self.keys) // self._keys_per_word)
        return words * _TABLE_ROWS * (LONGEST + PHASES) * 8 <= _CACHED_BYTES

    @cached_property
    def _cached_tables(self) -> list[tuple[range, NDArray[np.uint64]]]:
        return [*self._make_tables(LONGEST)]

    def _tables(self, longest: int) -> Iterator[tuple[range, NDArray[np.uint64]]]:
        """Yield keys that share a word, or one key with several words, and their tables."""
        yield from self._cached_tables if self._is_cached else self._make_tables(longest)

    def _make_tables(self, longest: int) -> Iterator[tuple[range, NDArray[np.uint64]]]:
        blocks = num_blocks(longest, self.block)
        for at in range(0, len(self.keys), self._keys_per_word):
            keys = range(at, min(at + self._keys_per_word, len(self.keys)))
            coins = [coins_of(self.keys[k]).words(0, blocks) for k in keys]
            yield keys, self._make_table(np.concatenate(coins, axis=1), longest)

    def _make_table(self, coins: NDArray[np.uint16], longest: int) -> NDArray[np.uint64]:
        """Turn the coins of lanes, [blocks, lanes], into a table of letters, [words, rows * width].

        Column c of a row is position c + FIRST_PHASE of the key sequence. Unused lanes agree with
        no letter.
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
        table = np.zeros((words, _TABLE_ROWS, len(position)), dtype=np.uint64)
        table[:, letter_codes()] = rows
        return table.reshape(words, -1)

    def _empty_planes(self) -> NDArray[np.uint64]:
        loops = kernels("block_loops")
        words = -(-self.nonces // _LANES)
        shape = (words, PHASES // loops.WORDS_PER_VECTOR, loops.PLANES, loops.WORDS_PER_VECTOR)
        return np.zeros(shape, dtype=np.uint64)


def num_blocks(longest: int, block: int) -> int:
    """Return how many blocks of the key sequence a segment can meet at any phase."""
    return -(-(longest + PHASES + FIRST_PHASE) // block)


def coins_of(key: Key) -> BlockCoins:
    """Return the source of the coins of a key."""
    return cast("BlockCoins", key.schedule)


def check_level(passing_level: int, tally: NDArray[np.int64]) -> None:
    """Raise an error if the level is out of range or the tally has the wrong shape or type."""
    if not 1 <= passing_level <= LEVELS:
        raise ParameterError(f"passing_level must be from 1 to {LEVELS}, not {passing_level}")
    if tally.shape != (LEVELS,) or tally.dtype != np.int64:
        raise ParameterError(
            f"tally must be {LEVELS} numbers of 64 bits, not {tally.shape} of {tally.dtype}"
        )


def check_segments(
    letters: NDArray[np.uint8], begins: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return letters, where segments begin, and their sizes, after checking them.

    The compiled loops do not check indices, so all arrays must be valid.
    """
    letters = np.ascontiguousarray(letters, dtype=np.uint8)
    if letters.max(initial=0) > _LATIN_LETTERS:
        raise ParameterError(
            f"letters must be numbers from 0 to {_LATIN_LETTERS}, not {letters.max()}"
        )
    begins = np.ascontiguousarray(begins, dtype=np.int64)
    sizes = np.diff(begins)
    if len(begins) < 1 or begins[0] < 0 or begins[-1] > len(letters) or np.any(sizes < 0):
        raise ParameterError("begins must be non-decreasing and end within the letters")
    if sizes.max(initial=0) > LONGEST:
        raise ParameterError(
            f"a segment has {sizes.max()} residues, but only up to {LONGEST} are allowed"
        )
    return letters, begins, sizes


def in_order(found: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Join pairs (segment, key), sorted by segments and then by keys: [pairs, 2]."""
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *found])
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _shape(key: Key) -> str:
    """Return the signature that all keys of a group share; raise an error for other schemes."""
    if key.profile.scheme.name not in SCHEMES:
        raise ParameterError(f"key {key.key_id} is not a block key: only block keys are allowed")
    return key.profile.scheme.signature


@cache
def letter_codes() -> NDArray[np.int64]:
    """Return the place of each amino acid in the Latin alphabet: [20], 1 to 26."""
    return np.array([ord(letter) - ord("A") + 1 for letter in AMINO_ACIDS])


@cache
def letters_in_pairs() -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the pair of each amino acid, and whether it is the second of the pair: [20] each."""
    symbols = PROTEIN.encode(AMINO_ACIDS)
    return pair_of_letter()[symbols], side_of_letter()[symbols] < 0


@cache
def _limits(ways: int) -> NDArray[np.int64]:
    """Return the least count for each n whose tail, times `ways`, is at most 10^-level."""
    n = np.arange(LONGEST + 1)
    levels = range(1, LEVELS + 1)
    return np.stack([least_count(n, -level * log(10.0), ways) for level in levels], axis=1)
