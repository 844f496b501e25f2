"""The first stage of a scan for hardened keys of proteins: which keys a segment may be marked with.

A sequence begins at one of a few starts of one nonce's schedule, so that a key has as many ways to
agree as it has nonces and starts. The statistic of a pair of segment and key is the largest count
of agreeing residues among them, and its p-value that of one count times their number. It takes
residues for independent. Those of one block are not where letters alternate (QAQA), nor where a
sequence bears the mark of another key, least of all one that goes around the period several times:
more of them pass than chance would have it, and it is for the second stage to refuse them.

What a key promotes at a place follows from one bit of its block and pair: letters of a pair have
opposite ones, and so have neighbours in a block. Starts lie whole steps of `stride` places apart;
where blocks fit a step, a place and a letter have the same words as the block's first place and the
letter or its partner. That makes a table of 20 letters for each block of a step, and no more: one
that stays in the nearest cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from math import gcd, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import protein_pairs
from patternmark.core.key import Key
from patternmark.core.turns import TurnSchedule
from patternmark.errors import ParameterError
from patternmark.null.binomial import least_count
from patternmark.scan.reading import kernels
from patternmark.scan.screen import AMINO_ACIDS, LEVELS, LONGEST

_LANES = 64
_PAIRS = 2**16  # that may pass at once, besides those of one segment
_KEPT_BYTES = 2**27  # of tables; those of more keys are made anew for every part that is read


class FirstStage(ABC):
    """Finds the pairs of a segment and a key whose p-value is small: [pairs, 2].

    Segments stand one after the other, the s-th is letters[begins[s] : begins[s + 1]]; letters are
    their places in `AMINO_ACIDS`; what is not one, such as 20, is not scored.
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


class HardenedGroup(FirstStage):
    """Hardened keys of proteins whose schedules have the same shape."""

    def __init__(self, keys: Sequence[Key]) -> None:
        if not keys:
            raise ParameterError("there are no keys to look for")
        self.keys = list(keys)
        shape = _shape(self.keys[0])
        for key in self.keys:
            if _shape(key) != shape:
                raise ParameterError(
                    f"key {key.key_id}: its period, block, starts or nonces are not those of "
                    f"key {self.keys[0].key_id}: keys of one group are alike"
                )
            key.require_secret()
        self.period, self.block, self.starts, self.nonces = shape
        self.stride = self.period // self.starts
        self.limits = _limits(self.nonces * self.starts)
        schedule = self.keys[0].schedule
        assert isinstance(schedule, HardenedSchedule)  # noqa: S101
        self.schedule = schedule
        loops = kernels("hardened_kernels")
        self._groups = -(-self.starts // loops.ABREAST)
        self._width = self.starts + self._groups * loops.ABREAST  # of a table's row: any turn fits

    def each_passing(
        self,
        letters: NDArray[np.uint8],
        begins: NDArray[np.int64],
        passing_level: int,
        tally: NDArray[np.int64],
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the pairs that pass, some at a time."""
        check_level(passing_level, tally)
        loops = kernels("hardened_kernels")
        places, edges, scored = self._laid_out(letters, begins)
        hits = np.empty((_PAIRS + _LANES, 2), dtype=np.int64)
        for keys, tables in self._kept_tables or self._tables():
            planes, first = self._planes(), 0
            while first < len(scored):
                number, first = loops.passing_keys(
                    tables, places, edges, scored, first, self.nonces, len(keys), self.limits,
                    passing_level - 1, planes, tally, hits,
                )  # fmt: skip
                if number:
                    yield hits[:number] + np.array([0, keys.start])

    def counts(self, letters: NDArray[np.uint8], begins: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return how many residues agree, for each nonce and start: [segments, keys, R, starts].

        It is slower than `passing` by far, and for what has passed.
        """
        loops = kernels("hardened_kernels")
        places, edges, scored = self._laid_out(letters, begins)
        shape = (len(scored), len(self.keys), self.nonces, self.starts)
        result = np.zeros(shape, dtype=np.int16)
        for keys, tables in self._kept_tables or self._tables():
            some = np.zeros((len(scored), len(tables) * _LANES, self.starts), dtype=np.int16)
            loops.count(tables, places, edges, self._planes(), some)
            used = some[:, : len(keys) * self.nonces]
            result[:, keys.start : keys.stop] = used.reshape(len(scored), len(keys), *shape[2:])
        return result

    def _laid_out(
        self, letters: NDArray[np.uint8], begins: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """Return where the words of residues are in a table, segments' edges, what is scored."""
        loops = kernels("hardened_kernels")
        letters, begins, sizes = checked_segments(letters, begins)
        rows = self._rows
        kind = np.uint16 if (rows.max() + 2) * self._width <= 2**16 else np.uint32
        filled = -(-sizes // loops.CHUNK) * loops.CHUNK
        places = np.empty(filled.sum(), dtype=kind)
        edges = np.empty(len(begins), dtype=np.int64)
        scored = np.empty(len(sizes), dtype=np.int64)
        loops.lay_out(letters, begins, rows, self._width, self.starts, places, edges, scored)
        return places, edges, scored

    @cached_property
    def sub_block(self) -> int:
        """How many places in a row share words, but for taking turns: blocks, cut by starts."""
        return gcd(self.stride, self.block)

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """Which row of a table a letter has at each place of a step: [stride, 20]."""
        in_pairs = places_in_pairs()
        partner = np.argsort(in_pairs)[in_pairs ^ 1]
        place = np.arange(self.stride)[:, None]
        is_turned = place % self.sub_block % 2 == 1
        own = np.where(is_turned, partner, np.arange(len(AMINO_ACIDS)))
        return np.asarray(place // self.sub_block * len(AMINO_ACIDS) + own)

    @cached_property
    def _kept_tables(self) -> list[tuple[range, NDArray[np.uint64]]] | None:
        """The tables of all keys, where they are few enough to be kept."""
        one = next(self._tables())[1]
        per_key = one.nbytes / max(1, _LANES // self.nonces)
        return [*self._tables()] if per_key * len(self.keys) <= _KEPT_BYTES else None

    def _tables(self) -> Iterator[tuple[range, NDArray[np.uint64]]]:
        """Yield keys that share a word, or one that has several, with their tables."""
        at_once = max(1, _LANES // self.nonces)
        for at in range(0, len(self.keys), at_once):
            keys = range(at, min(at + at_once, len(self.keys)))
            bits = [self.schedule.bits_of(self.keys[k].require_secret()) for k in keys]
            yield keys, self._table(np.concatenate(bits))

    def _table(self, octets: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Lay the bits of lanes out, [lanes, bytes], as [words, rows * width]; the last row is 0.

        Lanes that are left over agree with no letter.
        """
        words = -(-len(octets) // _LANES)
        lanes = np.zeros((self.schedule.bits, words * _LANES), dtype=np.uint8)
        lanes[:, : len(octets)] = np.unpackbits(octets, axis=1, count=self.schedule.bits).T
        of_bits = np.packbits(lanes, axis=1, bitorder="little").view("<u8").T  # [words, bits]
        used = np.packbits(np.arange(words * _LANES) < len(octets), bitorder="little").view("<u8")
        in_pairs = places_in_pairs()[:, None]  # [20, 1]
        first = np.arange(0, self.stride, self.sub_block)  # places that have rows
        shift = np.arange(self._width) % self.starts * self.stride
        place = first[:, None, None] + shift  # [places, 1, width]
        bit = place // self.block * (len(AMINO_ACIDS) // 2) + in_pairs // 2
        is_other = (place + in_pairs) % 2 == 1  # the bit is what the first promotes at even places
        table = np.zeros((words, bit.size + self._width), dtype=np.uint64)
        turned = of_bits[:, bit] ^ np.where(is_other, used[:, None, None, None], np.uint64(0))
        table[:, : bit.size] = turned.reshape(words, -1)
        return table

    def _planes(self) -> NDArray[np.uint64]:
        loops = kernels("hardened_kernels")
        words = -(-self.nonces // _LANES)
        return np.zeros((words, self._groups, loops.PLANES, loops.ABREAST), dtype=np.uint64)


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


def _shape(key: Key) -> tuple[int, int, int, int]:
    """Return what the keys of a group share; refuse keys that are of another kind."""
    profile = key.profile
    if not profile.is_hardened or profile.alphabet != PROTEIN:
        raise ParameterError(f"key {key.key_id} is not a hardened key of proteins")
    return profile.period, profile.block, profile.starts, profile.nonces


@cache
def places_in_pairs() -> NDArray[np.int64]:
    """Return where each amino acid stands in the order of pairs: 2 pair, or one more: [20]."""
    order = protein_pairs().ravel().tolist()
    return np.array([order.index(symbol) for symbol in PROTEIN.encode(AMINO_ACIDS).tolist()])


@cache
def _limits(ways: int) -> NDArray[np.int64]:
    """Return the least count of each n whose tail, times the ways there are, is 10^-level."""
    n = np.arange(LONGEST + 1)
    levels = range(1, LEVELS + 1)
    return np.stack([least_count(n, -level * log(10.0), ways) for level in levels], axis=1)
