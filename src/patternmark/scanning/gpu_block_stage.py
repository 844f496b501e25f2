"""The first stage for block keys on a GPU: the counts of `block_stage` as products of matrices.

A residue adds +1 to the score of a nonce if it agrees, and -1 if it does not. So the score is twice
the number of agreeing residues, less the scored ones. The summand is the sign of the residue (the
two letters of a pair have opposite signs) times the sign of the coin for its block and pair. So a
segment at one phase is a row: the sums of its signs by block and pair. A nonce is a column: the
signs of its coins. All scores are the product of these matrices. Residues that stand before the key
sequence add one number to the row, which is the same for all keys.

Half precision is exact here. The products are whole numbers, and no sum of any of them exceeds the
number of scored residues, which is at most 2,048. Half precision represents all whole numbers up to
that, so the order and the precision of the sums do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.blocks import PROTEIN_PAIRS
from patternmark.scanning.block_stage import (
    FIRST_PHASE,
    PHASES,
    BlockGroup,
    FirstStage,
    check_level,
    check_segments,
    coins_of,
    in_order,
    letter_codes,
    letters_in_pairs,
    num_blocks,
)
from patternmark.scanning.gpu_two_part import ALIGNED, aligned, kind_of, reaching
from patternmark.scanning.keyset import LONGEST

_PAIRS = len(PROTEIN_PAIRS)
_BEFORE = ALIGNED  # entries for residues before the key sequence: their sum, then zeros
# These numbers of entries bound the memory to about 4 GiB.
_PRODUCT_ENTRIES = 2**30  # scores: segments x nonces x keys
_SIGN_ENTRIES = 2**27  # signs of coins
_SUM_ENTRIES = 2**24  # sums of segments by block and pair
_COMPARED_PAIRS = 2**27  # pairs of a segment and a key that are compared with the limits
_TILE = 128  # rows of a product are a multiple of this, which a GPU handles in parallel
_BLOCK_MULTIPLE = 16  # the blocks of a row are a multiple of this, which keeps rows aligned


class GpuBlocks(FirstStage):
    """The first stage for a group of keys on a GPU, with the same results as `BlockGroup`."""

    def __init__(self, group: BlockGroup, device: str = "cuda") -> None:
        import torch  # noqa: PLC0415  # heavy, and not needed on a CPU

        self._torch, self._device, self._kind = torch, device, kind_of(device)
        self._group = group
        self.limits = group.limits
        self._limits = torch.tensor(group.limits, device=device)
        pair, is_second = letters_in_pairs()
        # Indexed by the place in the Latin alphabet; letters that are not scored have sign 0.
        pairs, signs = np.zeros((2, letter_codes().max() + 2), dtype=np.int64)
        pairs[letter_codes()], signs[letter_codes()] = pair, np.where(is_second, -1, 1)
        self._pair_of = torch.tensor(pairs, device=device)
        self._sign_of = torch.tensor(signs, dtype=torch.float32, device=device)

    def each_passing(
        self,
        letters: NDArray[np.uint8],
        begins: NDArray[np.int64],
        passing_level: int,
        tally: NDArray[np.int64],
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the pairs that pass, for some keys at a time."""
        check_level(passing_level, tally)
        letters, begins, sizes = check_segments(letters, begins)
        torch = self._torch
        text = torch.tensor(letters, device=self._device)
        # Segments of similar size share a product, as it is as wide as the longest of them.
        order = np.argsort(sizes, kind="stable")
        for keys in self._keys_at_once():
            signs, found = self._signs(keys), []
            levels = torch.zeros(len(tally), dtype=torch.int64, device=self._device)
            for own in np.split(order, self._edges(len(order), len(keys))):
                best, scored = self._best(text, begins[own], sizes[own], signs)
                limits = 2 * self._limits[scored] - scored[:, None]
                best = best[:, : len(keys)]
                pairs = reaching(best, limits.to(self._kind), passing_level - 1, levels)
                found.append(np.column_stack([own[pairs[:, 0]], keys.start + pairs[:, 1]]))
            tally += levels.cpu().numpy()
            yield in_order(found)

    def _keys_at_once(self) -> Iterator[range]:
        """Yield the numbers of keys whose columns fit into _SIGN_ENTRIES."""
        number = len(self._group.keys)
        columns = _SIGN_ENTRIES // self._height(LONGEST)
        at_once = aligned(max(1, columns // self._group.nonces))
        for first in range(0, number, at_once):
            yield range(first, min(first + at_once, number))

    def _edges(self, segments: int, keys: int) -> range:
        """Return where to split segments, so that their rows and comparisons fit into memory."""
        at_once = max(1, min(_SUM_ENTRIES // self._height(LONGEST), _COMPARED_PAIRS // keys))
        return range(at_once, segments, at_once)

    def _height(self, longest: int) -> int:
        """Return how many entries the row of a segment has."""
        blocks = num_blocks(longest, self._group.block)
        return _BEFORE + -(-blocks // _BLOCK_MULTIPLE) * _BLOCK_MULTIPLE * _PAIRS

    def _signs(self, keys: range) -> Any:
        """Return the signs of coins, by nonces and then keys: [height, R K].

        The number of keys is rounded up, so that products are aligned.
        """
        torch, group, coins = self._torch, self._group, self._coins
        blocks = (self._height(LONGEST) - _BEFORE) // _PAIRS
        words = torch.zeros(
            (blocks, group.nonces, aligned(len(keys))), dtype=torch.int16, device=self._device
        )
        some = torch.tensor(coins[keys.start : keys.stop].view(np.int16), device=self._device)
        words[: some.shape[1], :, : len(keys)] = some.permute(1, 2, 0)
        pair = torch.arange(_PAIRS, dtype=torch.int16, device=self._device)[:, None]
        bits = words.flatten(1)[:, None].bitwise_right_shift(pair).bitwise_and_(1).flatten(0, 1)
        signs = torch.zeros(
            (_BEFORE + len(bits), bits.shape[1]), dtype=self._kind, device=self._device
        )
        signs[0] = 1
        signs[_BEFORE:] = bits
        signs[_BEFORE:].mul_(2).sub_(1)
        return signs

    @cached_property
    def _coins(self) -> NDArray[np.uint16]:
        """The coins of all keys: [K, blocks, R]. They are derived once, as this is slow."""
        blocks = num_blocks(LONGEST, self._group.block)
        return np.stack([coins_of(key).words(0, blocks) for key in self._group.keys])

    def _best(
        self, text: Any, begins: NDArray[np.int64], sizes: NDArray[np.int64], signs: Any
    ) -> tuple[Any, Any]:
        """Return the best score of each segment and key, [rows, K], and scored residues: [rows].

        It is the best over all phases and nonces. The loop never waits for the GPU, so products are
        queued without gaps.
        """
        torch, nonces = self._torch, self._group.nonces
        rows, residues = len(sizes), int(sizes.sum())
        begin = torch.tensor(begins, device=self._device)
        size = torch.tensor(sizes, device=self._device)
        # For each residue: the number of its segment, its place there, and its letter.
        row = torch.repeat_interleave(size, output_size=residues)
        place = torch.arange(residues, device=self._device) - (size.cumsum(0) - size)[row]
        letter = text[begin[row] + place].long()
        scored = torch.zeros(rows, dtype=torch.int64, device=self._device)
        scored.index_add_(0, row, self._sign_of[letter].abs().long())
        lowest = -float(2 * LONGEST)
        best = signs.new_full((rows, signs.shape[1] // nonces), lowest)
        height = self._height(int(sizes.max(initial=0)))
        at_once = max(1, _PRODUCT_ENTRIES // signs.shape[1])
        at_once -= at_once % _TILE if at_once > _TILE else 0
        for phase in range(FIRST_PHASE, FIRST_PHASE + PHASES):
            sums = self._sums(row, place + phase, letter, (rows, height))
            for first in range(0, rows, at_once):
                own = slice(first, first + at_once)
                product = sums[own] @ signs[:height]
                most = product.view(len(product), nonces, -1).amax(dim=1)
                torch.maximum(best[own], most, out=best[own])
        return best, scored

    def _sums(self, row: Any, position: Any, letter: Any, shape: tuple[int, int]) -> Any:
        """Return the sums of the signs of each segment by block and pair, at one phase."""
        torch = self._torch
        is_before = position < 0
        column = _BEFORE + position // self._group.block * _PAIRS + self._pair_of[letter]
        # Every second residue before the key sequence counts as if it agreed.
        own = self._sign_of[letter]
        sign = torch.where(is_before, (1 - 2 * (position % 2)) * own.abs(), own)
        sums = torch.zeros(shape[0] * shape[1], dtype=torch.float32, device=self._device)
        sums.index_add_(0, row * shape[1] + torch.where(is_before, 0, column), sign)
        return sums.view(shape).to(self._kind)
