"""The first stage for many two-part keys, on a GPU.

The agreement of a segment with a key is linear in the twenty counts of the segment (see
`record_loops`), so all pairs are one product of matrices: segments by keys. A GPU multiplies
fastest in half precision, which is exact here: all factors and sums are whole numbers of at most
2,048, or even ones of at most 4,096, and half precision represents all of these. Sums run in single
precision. Only the result of the comparison with the limits is copied from the GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TORCH_ON_CPU = "cpu:0"  # a device name; "cpu" alone means the compiled loops, without torch
ALIGNED = 8  # products in half precision are fast if the sides of matrices are multiples of this
_PRODUCT_ENTRIES = 2**27  # segments x keys that are multiplied at once
_COUNTED_LEVELS = 3  # levels that are only counted: at least one pair in a thousand reaches them
_LISTED_PAIRS = 2**23  # pairs that are compared with all other levels at once


class GpuScreen:
    """The first stage for two-part keys, [20, K], with the limits of a `KeySet`."""

    def __init__(
        self, parts: NDArray[np.int16], limits: NDArray[np.int16], device: str = "cuda"
    ) -> None:
        import torch  # noqa: PLC0415  # heavy, and not needed on a CPU

        self._torch, self._device, self._kind = torch, device, kind_of(device)
        letters, self._keys = parts.shape
        rows = np.zeros((aligned(letters + 1), aligned(self._keys)), dtype=np.int16)
        rows[:letters, : self._keys] = parts
        rows[letters] = 1
        self._parts = torch.tensor(rows, device=device).to(self._kind)
        self._limits = torch.tensor(limits.astype(np.int32), device=device).to(self._kind)

    def passing(
        self,
        scored: NDArray[np.int64],
        at_odd: NDArray[np.int64],
        counts: NDArray[np.int16],
        passing: int,
        tally: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the pairs (segment, key) that reach level number `passing`: [pairs, 2]."""
        torch, width = self._torch, self._parts.shape[0]
        at_once = max(1, _PRODUCT_ENTRIES // self._parts.shape[1])
        found = [np.zeros((0, 2), dtype=np.int64)]
        levels = torch.zeros(len(tally), dtype=torch.int64, device=self._device)
        known = torch.tensor(scored, device=self._device)
        # The product is twice the agreeing residues less the scored ones: 0 for an unused key.
        left = torch.zeros((len(scored), width), dtype=self._kind, device=self._device)
        left[:, : counts.shape[1]] = 2 * torch.tensor(counts, device=self._device)
        left[:, counts.shape[1]] = 2 * torch.tensor(at_odd, device=self._device) - known
        for first in range(0, len(scored), at_once):
            rows = slice(first, first + at_once)
            off = (left[rows] @ self._parts).abs_()[:, : self._keys]  # [rows, K]
            pairs = reaching(off, self._limits[known[rows]], passing, levels)
            found.append(pairs + np.array([first, 0]))
        tally += levels.cpu().numpy()
        return np.concatenate(found)


def reaching(off: Any, limits: Any, level: int, tally: Any) -> NDArray[np.int64]:
    """Add the pairs that reach each level to `tally`; return those that reach `level`: [pairs, 2].

    `off` is segments by keys, `limits` is segments by levels. A pair that reaches a level reaches
    all lower ones. Many pairs reach the lowest levels, so these are counted without a list. Only
    the few that remain are listed and compared with the other levels.
    """
    counted = min(level, _COUNTED_LEVELS)
    for number in range(counted):
        tally[number] += (off >= limits[:, number, None]).sum()
    found = []
    for at in (off >= limits[:, counted, None]).nonzero().split(_LISTED_PAIRS):
        segment, key = at.T
        reached = off[segment, key, None] >= limits[segment, counted:]  # [few, levels]
        tally[counted:] += reached.sum(dim=0)
        found.append(np.asarray(at[reached[:, level - counted]].cpu()))
    return np.concatenate(found)


def kind_of(device: str) -> Any:
    """Return the number type for products on a device.

    A CPU has no fast half precision. It is used only to test this module.
    """
    import torch  # noqa: PLC0415

    return torch.float16 if torch.device(device).type == "cuda" else torch.float32


def aligned(size: int) -> int:
    """Round a size up to a multiple of ALIGNED."""
    return -(-size // ALIGNED) * ALIGNED
