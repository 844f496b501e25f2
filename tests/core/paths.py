"""All ways a short chain may lie on its blocks, one by one: an oracle for the forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import ceil, exp, prod, sqrt
from typing import NamedTuple

import numpy as np

from patternmark.statistics import block_paths
from patternmark.statistics.block_paths import BlockChain, Component

PAIRS = 2  # letters 0 and 1 are a pair, 2 and 3 another; letter 4 belongs to none
NEGLIGIBLE = 1e-5


class Piece(NamedTuple):
    """What one block sees of a chain."""

    block: int
    first: int
    last: int


class Path(NamedTuple):
    share: float  # its probability under the prior
    pieces: tuple[Piece, ...]


def small_chain(letters: Sequence[int], weights: np.ndarray) -> BlockChain:
    """Return a chain of an alphabet of two pairs and a letter that says nothing."""
    ids = np.array(letters, dtype=np.int64)
    scored = ids < 2 * PAIRS
    pair = np.where(scored, ids // 2, -1)
    side = np.where(scored, 1 - 2 * (ids % 2), 0)
    return BlockChain(ids, np.where(scored, weights, 0.0), pair, side)


def every_key(blocks: int) -> np.ndarray:
    """Return all keys of so many blocks of two pairs, as nonces: halves [2^(2 J), J, 5]."""
    coins = np.array(list(product((1, -1), repeat=PAIRS * blocks)), dtype=np.int8)
    coins = coins.reshape(-1, blocks, PAIRS)
    nothing = np.zeros_like(coins[..., :1])
    first, second = coins[..., :1], coins[..., 1:]
    return np.concatenate([first, -first, second, -second, nothing], axis=2)


def length_law(component: Component, positions: int) -> dict[int, float]:
    """Return how likely each length of a piece is, by the fate of each position of a block."""
    law: dict[int, float] = {}
    doubled = (component.slip + component.growth) / 2
    fates = {0: component.slip - doubled, 1: 1.0 - component.slip, 2: doubled}  # 0: lost
    for lengths in product(fates, repeat=positions):
        share = prod(fates[length] for length in lengths)
        law[sum(lengths)] = law.get(sum(lengths), 0.0) + share
    return law


def every_path(n: int, block: int, component: Component, blocks: int) -> list[Path]:
    """Return all paths that the forward pass follows, with their probabilities."""
    first_blocks = block_paths.FIRST_POSITIONS // block
    paths: list[Path] = []
    if component.begins == "start":
        paths += _from(n, block, component, blocks, 0, 0, is_rest=False)
    elif component.begins == "anywhere":
        for j in range(min(first_blocks, blocks)):
            paths += _scaled(
                _from(n, block, component, blocks, j, 0, is_rest=True), 1.0 / first_blocks
            )
    else:
        enter, at_start = block_paths.ENTER, block_paths.AT_START
        paths.append(Path((1.0 - enter) ** n, ()))
        for i in range(n):
            here = enter * (1.0 - enter) ** i
            whole = _from(n, block, component, blocks, 0, i, is_rest=False)
            paths += _scaled(whole, here * at_start)
            for j in range(min(first_blocks, blocks)):
                rest = _from(n, block, component, blocks, j, i, is_rest=True)
                paths += _scaled(rest, here * (1.0 - at_start) / first_blocks)
    return paths


def _scaled(paths: Iterator[Path], share: float) -> list[Path]:
    return [Path(share * path.share, path.pieces) for path in paths]


def _from(
    n: int, block: int, component: Component, blocks: int, j: int, i: int, *, is_rest: bool
) -> Iterator[Path]:
    """Yield the paths whose next piece is that of block j and begins at position i."""
    if j == blocks:
        return
    leave = block_paths.LEAVE if component.begins == "inside" and not is_rest else 0.0
    if leave:
        yield Path(leave, ())
    low, high = _band(n, block, component, j)
    if i < low:
        return
    whole, rest, longest = _laws(block, component)
    for length in range(min(longest, high - i) + 1):
        law = rest if is_rest else whole
        piece = Piece(j, i, i + length)
        if i + length == n:  # the chain ends in this block, which would have gone on
            tail = sum(share for size, share in law.items() if size >= length)
            yield Path((1.0 - leave) * tail, (piece,))
            continue
        share = law[length] if law[length] > NEGLIGIBLE else 0.0
        if share == 0.0 or (is_rest and length == 0):
            continue
        for path in _from(n, block, component, blocks, j + 1, i + length, is_rest=False):
            yield Path((1.0 - leave) * share * path.share, (piece, *path.pieces))


@cache
def _laws(block: int, component: Component) -> tuple[dict[int, float], dict[int, float], int]:
    """Return the laws of a whole block and of one from a random place on, and the longest piece."""
    whole = length_law(component, block)
    rest = dict.fromkeys(range(2 * block + 1), 0.0)
    for positions in range(1, block + 1):
        for length, share in length_law(component, positions).items():
            rest[length] += share / block
    return whole, rest, max(size for size, share in whole.items() if share > NEGLIGIBLE)


def _band(n: int, block: int, component: Component, j: int) -> tuple[int, int]:
    """Return where pieces of a block may begin at the earliest, and end at the latest."""
    if component.begins != "start":
        return 0, n
    pace = 1.0 + component.growth
    drift = block + ceil(5.0 * sqrt((component.slip - component.growth**2) * n / pace))
    longest = _laws(block, component)[2]
    expected = int(j * (block * pace))
    return expected - drift, min(n, expected + drift + longest)


def piece_ratio(chain: BlockChain, level: int, piece: Piece, row: np.ndarray) -> float:
    """Return the likelihood of a piece under its coins, over the mean over all coins."""

    def likelihood(coins: Sequence[int]) -> float:
        result = 1.0
        for i in range(piece.first, piece.last):
            if chain.pair[i] >= 0:
                agrees = coins[chain.pair[i]] == chain.side[i]
                rate = 1.0 / (1.0 + exp(-chain.weights[level, i]))
                result *= rate if agrees else 1.0 - rate
        return result

    every = [likelihood(coins) for coins in product((1, -1), repeat=PAIRS)]
    return likelihood([int(row[0]), int(row[2])]) / (sum(every) / len(every))


def ratio(chain: BlockChain, level: int, paths: list[Path], halves: np.ndarray) -> float:
    """Return E of one key [J, 5]: the mean over paths of the product over their pieces."""
    return sum(
        path.share * prod(piece_ratio(chain, level, p, halves[p.block]) for p in path.pieces)
        for path in paths
    )
