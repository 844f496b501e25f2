"""The first stage for very many keys of two parts, on a GPU.

A segment's agreement with a key is linear in its twenty counts (see `record_loops`), so all pairs
are one product of matrices: segments by keys. Products of half precision numbers are what a GPU
does fastest, and they are exact here: whatever is multiplied and added up is a whole number of at
most 2,048, or an even one of at most 4,096, all of which half precision holds; sums run in single
precision. Only the product's comparison with the limits leaves the chip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TORCH_ON_CPU = "cpu:0"  # as a device: "cpu" alone means the compiled loops, without torch
ALIGNED = 8  # products of half precision are fast where sides are multiples of it
_VALUES = 2**27  # of the product at once
_COUNTED = 3  # levels that one pair in a thousand reaches
_FEW = 2**23  # pairs that are compared with all levels at once


class GpuScreen:
    """Screens segments by keys of two parts, [20, K], at the limits of `Screen`."""

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
        """Return the pairs (segment, key) that pass at the level of that number: [pairs, 2]."""
        torch, width = self._torch, self._parts.shape[0]
        at_once = max(1, _VALUES // self._parts.shape[1])
        found = [np.zeros((0, 2), dtype=np.int64)]
        levels = torch.zeros(len(tally), dtype=torch.int64, device=self._device)
        known = torch.tensor(scored, device=self._device)
        # Twice the agreement, less what is scored: 0 where a key says nothing.
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
    """Count the pairs that reach each level; return those that reach a certain one: [pairs, 2].

    `off` has segments by keys, `limits` segments by levels. What reaches a level reaches all before
    it. So many pairs reach the first ones that it is faster to count them than to list them; then
    few are left to look at.
    """
    counted = min(level, _COUNTED)
    for number in range(counted):
        tally[number] += (off >= limits[:, number, None]).sum()
    found = []
    for at in (off >= limits[:, counted, None]).nonzero().split(_FEW):
        segment, key = at.T
        reached = off[segment, key, None] >= limits[segment, counted:]  # [few, levels]
        tally[counted:] += reached.sum(dim=0)
        found.append(np.asarray(at[reached[:, level - counted]].cpu()))
    return np.concatenate(found)


def kind_of(device: str) -> Any:
    """Return the numbers to multiply on a device.

    A CPU has no fast half precision; it serves to test all this against the compiled loops.
    """
    import torch  # noqa: PLC0415

    return torch.float16 if torch.device(device).type == "cuda" else torch.float32


def aligned(size: int) -> int:
    """Return a size, or the next that products are fast with."""
    return -(-size // ALIGNED) * ALIGNED
