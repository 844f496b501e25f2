"""The first stage for hardened keys on a GPU: what `hardened` does, as products of matrices.

Let a residue say +1 to a start of a nonce where it agrees, and -1 where it does not: their sum is
twice the count, less what is scored. Which it says is its own sign (letters of a pair have opposite
ones, and so have neighbours in a block) times that of the key's bit for its block and pair. So a
segment is a row of sums of its own signs by block and pair, a nonce is a column of the signs of its
bits, and all sums are the product of such matrices.

A start turns the circle of blocks, and no more: the same rows meet the columns from another block
on. Columns therefore go around twice, and a start is a window of them. It is only as long as the
segments, for a segment that does not go around has zeros beyond its end.

Half precision is exact here. Whole numbers are multiplied by signs, and whichever of the products
are added first, in single precision or in half: no sum of some is more than the residues that are
scored, which are 2,048 at most. Half precision holds all whole numbers up to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.scan.gpu import aligned, kind_of, reaching
from patternmark.scan.hardened import (
    FirstStage,
    HardenedGroup,
    check_level,
    checked_segments,
    in_order,
    places_in_pairs,
)
from patternmark.scan.screen import AMINO_ACIDS

_UNKNOWN = len(AMINO_ACIDS)
_PAIRS = len(AMINO_ACIDS) // 2  # of letters
# How many numbers there are at once: they bound the memory, to some 4 GiB.
_PRODUCT = 2**30  # of segments, starts, nonces and keys
_SIGNS = 2**27  # of columns
_SUMS = 2**24  # of rows
_COMPARED = 2**27  # pairs of a segment and a key
_TILE = 128  # rows of a product are multiples of so many: a GPU does as many side by side
_WHOLE_BLOCKS = 16  # windows are multiples of so many blocks, which keeps them aligned


class GpuHardened(FirstStage):
    """Screens segments by the keys of a group, with the results of `HardenedGroup`."""

    def __init__(self, group: HardenedGroup, device: str = "cuda") -> None:
        import torch  # noqa: PLC0415  # heavy, and not needed on a CPU

        self._torch, self._device, self._kind = torch, device, kind_of(device)
        self._group = group
        self.limits = group.limits
        self._limits = torch.tensor(group.limits, device=device)
        self._blocks = group.period // group.sub_block
        in_pairs = places_in_pairs()
        # Of each letter; what is unknown has no sign and changes nothing.
        self._pair_of = torch.tensor([*(in_pairs // 2), 0], device=device)
        signs = [*(1 - 2 * (in_pairs % 2)), 0]
        self._sign_of = torch.tensor(signs, dtype=torch.float32, device=device)

    def each_passing(
        self,
        letters: NDArray[np.uint8],
        begins: NDArray[np.int64],
        passing_level: int,
        tally: NDArray[np.int64],
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the pairs that pass, those of some keys at a time."""
        check_level(passing_level, tally)
        letters, begins, sizes = checked_segments(letters, begins)
        torch = self._torch
        text = torch.tensor(letters, device=self._device)
        # Segments of about one size share a window, which is as long as the longest of them.
        order = np.argsort(sizes, kind="stable")
        for keys in self._keys_at_once():
            signs, found = self._signs(keys), []
            levels = torch.zeros(len(tally), dtype=torch.int64, device=self._device)
            for own in np.split(order, self._edges(len(order), len(keys))):
                sums, scored = self._sums(text, begins[own], sizes[own])
                best = self._best(sums, signs, sizes[own])[:, : len(keys)]
                limits = 2 * self._limits[scored] - scored[:, None]
                pairs = reaching(best, limits.to(self._kind), passing_level - 1, levels)
                found.append(np.column_stack([own[pairs[:, 0]], keys.start + pairs[:, 1]]))
            tally += levels.cpu().numpy()
            yield in_order(found)

    def _keys_at_once(self) -> Iterator[range]:
        """Yield the numbers of keys whose columns fit."""
        number = len(self._group.keys)
        columns = _SIGNS // (2 * self._blocks * _PAIRS)
        at_once = aligned(max(1, columns // self._group.nonces))
        for first in range(0, number, at_once):
            yield range(first, min(first + at_once, number))

    def _edges(self, segments: int, keys: int) -> range:
        """Return where to split segments, so that their rows fit and are compared together."""
        at_once = max(1, min(_SUMS // (self._blocks * _PAIRS), _COMPARED // keys))
        return range(at_once, segments, at_once)

    def _signs(self, keys: range) -> Any:
        """Return the signs of bits, blocks twice around, by nonces and then keys: [2 B P, R K].

        There are a few keys more than asked for, so that products are aligned.
        """
        torch, group, octets = self._torch, self._group, self._octets
        packed = torch.zeros(
            (octets.shape[2], group.nonces, aligned(len(keys))),
            dtype=torch.uint8,
            device=self._device,
        )
        some = torch.tensor(octets[keys.start : keys.stop], device=self._device)
        packed[:, :, : len(keys)] = some.permute(2, 1, 0)
        place = torch.arange(2 * self._blocks, device=self._device) % self._blocks * group.sub_block
        pair = torch.arange(_PAIRS, device=self._device)
        bit = (place[:, None] // group.block * _PAIRS + pair).ravel()  # the number of each row's
        # Where starts cut blocks in parts of odd size, every second part begins at an odd place.
        turned = (place % 2).repeat_interleave(_PAIRS).to(torch.uint8)[:, None]
        shift = (7 - bit % 8).to(torch.uint8)[:, None]
        bits = packed.flatten(1)[bit // 8].bitwise_right_shift_(shift).bitwise_xor_(turned)
        return bits.bitwise_and_(1).to(self._kind).mul_(2).sub_(1)

    @cached_property
    def _octets(self) -> NDArray[np.uint8]:
        """The bits of all keys, eight a byte: [K, R, bytes]. Deriving them takes time: once."""
        bits_of = self._group.schedule.bits_of
        return np.stack([bits_of(key.require_secret()) for key in self._group.keys])

    def _sums(
        self, text: Any, begins: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[Any, Any]:
        """Return the sums of segments by block and pair, [rows, window], and what is scored."""
        torch, sub_block = self._torch, self._group.sub_block
        rows, window, residues = len(sizes), self._window(sizes), int(sizes.sum())
        begin = torch.tensor(begins, device=self._device)
        size = torch.tensor(sizes, device=self._device)
        # Of residues, one after the other: their segments, and their places in these.
        row = torch.repeat_interleave(size, output_size=residues)
        place = torch.arange(residues, device=self._device) - (size.cumsum(0) - size)[row]
        letter = text[begin[row] + place].clamp_(max=_UNKNOWN).long()
        sign = self._sign_of[letter] * (1 - 2 * (place % sub_block % 2))
        column = place // sub_block % self._blocks * _PAIRS + self._pair_of[letter]
        sums = torch.zeros(rows * window, dtype=sign.dtype, device=self._device)
        sums.index_add_(0, row * window + column, sign)
        scored = torch.zeros(rows, dtype=torch.int64, device=self._device)
        scored.index_add_(0, row, (letter < _UNKNOWN).long())
        return sums.view(rows, window).to(self._kind), scored

    def _window(self, sizes: NDArray[np.int64]) -> int:
        """Return how long a window segments need: blocks times pairs."""
        longest = int(sizes.max(initial=1))
        whole = -(-longest // (self._group.sub_block * _WHOLE_BLOCKS)) * _WHOLE_BLOCKS
        return min(whole, self._blocks) * _PAIRS

    def _best(self, sums: Any, signs: Any, sizes: NDArray[np.int64]) -> Any:
        """Return the largest product of each segment and key, of all nonces and starts: [rows, K].

        Nobody waits for a product before the next is asked for.
        """
        torch, group, columns = self._torch, self._group, signs.shape[1]
        step = group.stride // group.sub_block * _PAIRS  # from a start to the next
        best = sums.new_empty(len(sums), columns // group.nonces)
        at_once = max(1, _PRODUCT // (group.starts * columns))
        at_once -= at_once % _TILE if at_once > _TILE else 0
        for first in range(0, len(sums), at_once):
            own = slice(first, first + at_once)
            window = self._window(sizes[own])
            rows = sums[own, :window].expand(group.starts, -1, -1)
            # Windows overlap: they are views, and nothing is copied.
            shape, strides = (group.starts, window, columns), (step * columns, columns, 1)
            product = torch.bmm(rows, signs.as_strided(shape, strides))
            by_nonce = product.view(group.starts, rows.shape[1], group.nonces, -1)
            torch.amax(by_nonce, dim=(0, 2), out=best[own])
        return best
