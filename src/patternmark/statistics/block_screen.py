"""Find the few nonces of a block mark for which the exact ratio is computed, in whole numbers.

The exact ratio (`block_paths`) costs some 30 microseconds for a nonce and a component. A key has
tens of nonces, and a list of keys has many thousands. Terms that are left out make the e-value
smaller and keep it valid, so a screen may choose freely. It uses two scores:

- `anchored`: the best path from the start of the schedule, letter by letter, with lost and doubled
  letters. It finds whole designs, damaged or not. If far more letters were lost than doubled, or
  the other way round, the path runs along the schedule at another pace.
- `loose`: the best stretch that may begin anywhere, in segments of 32 letters in which agreeing
  letters are counted. It finds pieces that were cut out and designs inside other chains.

A machine word has one bit for each of 64 lanes, and a lane is a nonce of a key: the bit says
whether the nonce promotes a letter in a block. All lanes of a word are scored together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil, log2
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.blocks import PROTEIN_PAIRS, pair_of_letter, side_of_letter
from patternmark.fast.compiled import kernels
from patternmark.statistics.block_paths import (
    FIRST_POSITIONS,
    BlockChain,
    Component,
    Floats,
    Look,
    log_ratios,
)

LANES = 64
_WORDS_AT_ONCE = 8  # words that are packed together: few enough for the processor's cache
SEGMENT = 32  # letters that are counted together
_BLOCKS_PER_GROUP = 8  # blocks of shifts that are scored together
_MAX_STRAY = SEGMENT  # positions by which a path may differ from the place its pace predicts
_MIN_PACE = 0.7  # smallest average number of letters per position
_STEPS_PER_NAT = 8  # steps of a score in one unit of log-odds
_PATH_COST = 24  # of a lost or doubled letter
_EDITED_COST = 18  # ... at another pace, where such letters are common
_MIN_WEIGHT = 2  # letters with a smaller weight are not counted in segments
_MIN_AGREEMENT = 0.58  # share of agreeing letters above which a segment adds to a stretch
_STRETCH_COST = 2  # of a shift that moves by one between segments
_MAX_SCORE, _MIN_SCORE, _UNREACHED = 32767, -32768, -16384  # scores of paths have 16 bits
_MAX_STRETCH_SCORE = 255  # scores of stretches have 8 bits
_MAX_STRETCH_LENGTH = 60_000  # letters of a chain; shifts have 16 bits
_SECOND_PATH_MARGIN = 32  # the second best nonce is computed too if its score is this close

Integers = NDArray[np.int64]


class Packed(NamedTuple):
    """Which letters many nonces promote, as bits: [words, letters + 1, width].

    Block j has index j + front. No bits are set before the first block and after the last, nor in
    the last row, which is for letters that are not scored.
    """

    words: NDArray[np.uint64]
    lanes: int
    block: int
    longest: int  # length of the longest chain that can be scored

    @property
    def front(self) -> int:
        return _front(self.block)


class Scores(NamedTuple):
    """The scores of each lane; `shift` is the last shift of the best stretch."""

    anchored: Integers
    loose: Integers
    shift: Integers


def _front(block: int) -> int:
    return -(-SEGMENT // block) + 1 + _BLOCKS_PER_GROUP


def pack(coins: NDArray[np.uint16], block: int, longest: int) -> Packed:
    """Pack the coins of nonces [J, lanes] for chains of at most `longest` letters."""
    return pack_planes(coin_planes(coins), coins.shape[1], block, longest)


def coin_planes(coins: NDArray[np.uint16]) -> NDArray[np.uint64]:
    """Return one bit for each lane, pair of letters and block: [J, lanes] -> [words, pairs, J].

    Several keys share words by putting their nonces one after the other.
    """
    blocks, lanes = coins.shape
    pairs = len(PROTEIN_PAIRS)
    planes = np.empty((-(-lanes // LANES), pairs, blocks, LANES // 8), dtype=np.uint8)
    for first in range(0, len(planes), _WORDS_AT_ONCE):
        words = planes[first : first + _WORDS_AT_ONCE]
        some = coins[:, first * LANES : (first + len(words)) * LANES]
        octets = np.zeros((blocks, len(words) * LANES), dtype=np.uint8)
        for low in range(0, pairs, 8):
            octets[:, : some.shape[1]] = some >> np.uint16(low) & np.uint16(0xFF)
            bits = _transpose_bits(octets.view("<u8")).view(np.uint8)
            bits = bits.reshape(blocks, len(words), LANES // 8, 8)
            own = words[:, low : low + 8]
            own[:] = bits[..., : own.shape[1]].transpose(1, 3, 0, 2)
    return planes.view("<u8")[..., 0]


def _transpose_bits(squares: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Transpose squares of 8 x 8 bits: bit j of byte i becomes bit i of byte j."""
    squares = squares.copy()
    for distance, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0xF0F0F0F0)):
        differ = squares >> np.uint64(distance)
        differ ^= squares
        differ &= np.uint64(mask)
        squares ^= differ
        differ <<= np.uint64(distance)
        squares ^= differ
    return squares


def blocks_reached(block: int, longest: int, *, loose: bool = True) -> int:
    """Return how many blocks matter for chains of at most `longest` letters.

    Without `loose`, only paths from the start of the schedule count.
    """
    positions = ceil(longest / _MIN_PACE)
    if loose:
        positions = max(FIRST_POSITIONS + longest, positions)
    return (positions + 2 * SEGMENT) // block + 1


def pack_planes(planes: NDArray[np.uint64], lanes: int, block: int, longest: int) -> Packed:
    """Return a row of bits for each letter; the second letter of a pair has the opposite bits."""
    num_words, _, blocks = planes.shape
    front = _front(block)
    width = front + max(blocks_reached(block, longest) + 2 * _BLOCKS_PER_GROUP, blocks) + 1
    words = np.zeros((num_words, PROTEIN.size + 1, width), dtype=np.uint64)
    for letter, (pair, side) in enumerate(zip(pair_of_letter(), side_of_letter(), strict=True)):
        if side:
            own = words[:, letter, front : front + blocks]
            own[:] = planes[:, pair] if side > 0 else ~planes[:, pair]
    return Packed(words, lanes, block, longest)


class _ScreenInput(NamedTuple):
    """What the screen needs of a chain."""

    whole: Integers  # the whole number that each letter adds to a score
    rows: Integers  # each letter's row of a packed table; the last row for letters that add nothing
    log_mean: float  # ln of the mean of the letters' ratio over their coins


@lru_cache(64)  # a chain is scored under many keys, chain numbers and paces
def _screen_input(chain: BlockChain) -> _ScreenInput:
    middle = chain.weights.mean(axis=0)  # weights for a mark of medium strength
    whole = np.rint(_STEPS_PER_NAT * middle).astype(np.int64)
    rows = np.where(whole == 0, PROTEIN.size, chain.letters)
    return _ScreenInput(whole, rows, float(np.log(np.cosh(middle / 2.0)).sum()))


class _Course(NamedTuple):
    """Where each letter is expected in the schedule, and how far from there it may be."""

    expected: Integers
    strays: Integers


@lru_cache(256)
def _course(length: int, pace: float) -> _Course:
    along = np.arange(length)
    strays = np.minimum(4 + (1.4 * np.sqrt(along)).astype(np.int64), _MAX_STRAY)
    return _Course((along / pace).astype(np.int64), strays)


def score(chain: BlockChain, packed: Packed, *, pace: float = 1.0, loose: bool = True) -> Scores:
    """Score all lanes for one chain; without `loose`, stretches are not scored."""
    nothing = np.zeros(packed.lanes, dtype=np.int64)
    stretches = best_stretches(chain, packed) if loose else (nothing, nothing)
    return Scores(best_paths(chain, packed, pace), *stretches)


def log_ratio_of_path(chain: BlockChain, packed: Packed, pace: float = 1.0) -> Floats:
    """Estimate ln of the ratio of a chain that begins at the start, from its best path: [lanes].

    Every letter counts by itself, as if a block never had two letters of one pair, and slips are
    cheap. So the estimate is seldom too low: of 798 chains of 60 to 1,000 letters with 0 to 3 %
    lost, for which the sum over all paths with slip 0.02 is 6 or more, three estimates were too low
    by more than 1 (2.7 at most).
    """
    best = best_paths(chain, packed, pace)
    found: Floats = best / (2.0 * _STEPS_PER_NAT) - _screen_input(chain).log_mean
    return found


def best_paths(chain: BlockChain, packed: Packed, pace: float = 1.0) -> Integers:
    """Return the score of the best path of every lane from the start of the schedule.

    On the path, a position becomes `pace` letters on average.
    """
    _check_length(chain, packed)
    if pace < _MIN_PACE:
        raise ValueError(f"tables are packed for a pace of at least {_MIN_PACE}, not {pace}")
    if chain.length == 0:
        return np.zeros(packed.lanes, dtype=np.int64)
    weights, rows, _ = _screen_input(chain)
    expected, strays = _course(chain.length, pace)
    loops = _loops(chain, packed)
    find = _best_paths if loops is None else loops.best_paths
    narrow = packed.lanes <= LANES // 2
    found = find(
        packed.words, rows, weights, expected, strays, packed.block, packed.front,
        _PATH_COST if pace == 1.0 else _EDITED_COST, narrow,
    )  # fmt: skip
    return np.asarray(found.reshape(-1)[: packed.lanes])


def best_stretches(chain: BlockChain, packed: Packed) -> tuple[Integers, Integers]:
    """Return the score of the best stretch of every lane, and the shift at which it ends."""
    _check_length(chain, packed)
    n, block = chain.length, packed.block
    if n == 0 or n > _MAX_STRETCH_LENGTH:
        nothing = np.zeros(packed.lanes, dtype=np.int64)
        return nothing, nothing
    counted = _screen_input(chain).whole >= _MIN_WEIGHT
    rows = np.where(counted, chain.letters, packed.words.shape[1] - 1)
    per_segment = np.add.reduceat(counted, np.arange(0, n, SEGMENT), dtype=np.int64)
    bias = np.rint(per_segment * _MIN_AGREEMENT)
    first = -((n - 1) // SEGMENT * SEGMENT // block) - (packed.front - _BLOCKS_PER_GROUP)
    groups = -(-(FIRST_POSITIONS // block - first) // _BLOCKS_PER_GROUP)
    loops = _loops(chain, packed)
    find = _best_stretches if loops is None else loops.best_stretches
    found, place = find(
        packed.words, rows, bias.astype(np.int64), _STRETCH_COST, block, packed.front, first, groups
    )
    best, index = (x.reshape(-1)[: packed.lanes].astype(np.int64) for x in (found, place))
    return best, first * block + index


def _check_length(chain: BlockChain, packed: Packed) -> None:
    if chain.length > packed.longest:
        most = f"at most {packed.longest} letters"
        raise ValueError(f"the table is packed for {most}, but the chain has {chain.length}")


def work(letters: int, lanes: int) -> tuple[int, int]:
    """Return how many additions and calls numpy needs to score so many letters, about."""
    return 1000 * lanes * letters, 10 * letters


def _loops(chain: BlockChain, packed: Packed) -> ModuleType | None:
    needed = work(chain.length, packed.lanes)
    return kernels(*needed, "patternmark.statistics.block_screen_loops")


def log_ratios_many(
    chains: Iterable[BlockChain],
    halves: NDArray[np.int8],
    packed: Packed,
    components: Sequence[Component],
) -> Iterator[Floats]:
    """Yield `block_paths.log_ratios` of each chain, -inf for terms that the screen leaves out.

    `packed` has the coins of these `halves`, packed for the longest chain.
    """
    for chain in chains:
        chosen = looks(score(chain, packed), chain.length, components)
        yield log_ratios(chain, halves, packed.block, components, chosen)


def looks(scores: Scores, length: int, components: Sequence[Component]) -> list[Look]:
    """Return which terms of one key to add up for a chain of this length.

    Measured on synthetic marks of 300 to 500 letters and 32 nonces whose largest term alone gives
    an E of 100 or more: that term was included for all of 510 whole designs (intact, substituted, 1
    to 20 % indels) and all of 63 pieces (windows of 100, 150 letters inside 450).
    """
    order = np.argsort(-scores.anchored, kind="stable")[:2]
    paths = order[scores.anchored[order] >= scores.anchored[order[0]] - _SECOND_PATH_MARGIN]
    stretch = int(scores.loose.argmax())
    is_likely = scores.loose[stretch] >= min_stretch_score(length)
    found = []
    for number, component in enumerate(components):
        if component.begins == "start":
            found.append(Look(number, paths))
        elif is_likely:
            found.append(Look(number, np.array([stretch]), int(scores.shift[stretch])))
    return found


def min_stretch_score(length: int) -> float:
    """Return the smallest score of a stretch for which its components are added up.

    The best score of an unmarked chain grows with the logarithm of its length; the score of a
    marked piece does not depend on the letters around it.
    """
    return min(9.0 + 2.8 * log2(max(length, SEGMENT) / SEGMENT), 20.0)


def _bits(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return the bits of words [words, letters, width] lane by lane: [letters, width, lanes]."""
    octets = np.ascontiguousarray(words.transpose(1, 2, 0)).astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little").astype(bool)


def _best_paths(
    words: NDArray[np.uint64],
    letters: Integers,
    weights: Integers,
    expected: Integers,
    strays: Integers,
    block: int,
    front: int,
    cost: int,
    narrow: bool,
) -> Integers:
    """Return the score of the best path of every lane."""
    del narrow  # numpy scores all lanes
    bits, drift = _bits(words), int(strays[-1])
    state = np.full((2 * drift + 3, bits.shape[2]), _UNREACHED)
    state[drift + 1] = 0
    shifts = np.arange(-drift, drift + 1)
    for letter, weight, position, most in zip(letters, weights, expected, strays, strict=True):
        agree = bits[letter, (position + shifts + front * block) // block]
        moved = np.maximum(np.maximum(state[2:], state[:-2]) - cost, _MIN_SCORE)
        scores = np.maximum(state[1:-1], moved) + np.where(agree, weight, -weight)
        state[1:-1] = np.clip(scores, _MIN_SCORE, _MAX_SCORE)
        state[1:-1][np.abs(shifts) > most] = _UNREACHED
    best: Integers = state[1:-1].max(axis=0)
    return best


def _best_stretches(
    words: NDArray[np.uint64],
    letters: Integers,
    bias: Integers,
    cost: int,
    block: int,
    front: int,
    first: int,
    groups: int,
) -> tuple[Integers, Integers]:
    """Return the score of the best stretch of every lane, and the index of its last shift."""
    bits = _bits(words)
    index = np.arange(groups * _BLOCKS_PER_GROUP * block)
    shifts = first * block + index
    best = np.zeros(bits.shape[2], dtype=np.int64)
    place = np.zeros(bits.shape[2], dtype=np.int64)
    state = np.zeros((len(shifts) + 2, bits.shape[2]), dtype=np.int64)
    for segment, less in enumerate(bias):
        counts = np.zeros((len(shifts), bits.shape[2]), dtype=np.int64)
        for i in range(segment * SEGMENT, min(len(letters), (segment + 1) * SEGMENT)):
            counts += bits[letters[i], np.maximum((i + shifts) // block + front, 0)]
        moved = np.maximum(np.maximum(state[2:], state[:-2]) - cost, 0)
        scores = np.minimum(np.maximum(state[1:-1], moved) + counts, _MAX_STRETCH_SCORE)
        state[1:-1] = np.maximum(scores - less, 0)
        for rest in range(block):  # shifts in the same order as in the compiled loops
            here = state[1:-1][rest::block]
            at = here.argmax(axis=0)
            highest = here.max(axis=0)
            place = np.where(highest > best, index[rest::block][at], place)
            best = np.maximum(best, highest)
    return best, place
