"""The first stage for very many keys of two parts, on a GPU.

A segment's agreement with a key is linear in its twenty counts (see `kernels`), so that all pairs
are one product of matrices: segments by keys. Products of half precision numbers are what a GPU
does fastest, and they are exact here: whatever is multiplied and added up is a whole number of at
most 2,048, or an even one of at most 4,096, all of which half precision holds; sums run in single
precision. Only the product's comparison with the limits leaves the chip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_VALUES = 2**30  # of the product at once


class GpuScreen:
    """Screens segments by keys of two parts, [20, K], at the limits of `Screen`."""

    def __init__(
        self, parts: NDArray[np.int16], limits: NDArray[np.int16], device: str = "cuda"
    ) -> None:
        import torch  # noqa: PLC0415  # heavy, and not needed on a CPU

        self._torch, self._device = torch, device
        # A CPU has no fast half precision; it serves to test this against the compiled loops.
        self._kind = torch.float16 if device == "cuda" else torch.float32
        rows = np.vstack([parts, np.ones((1, parts.shape[1]), parts.dtype)])
        self._parts = torch.tensor(rows, device=device).to(self._kind)
        self._limits = torch.tensor(limits.astype(np.int32), device=device)

    def passing(
        self,
        scored: NDArray[np.int64],
        at_odd: NDArray[np.int64],
        counts: NDArray[np.int16],
        passing: int,
        tally: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the pairs (segment, key) that pass at the level of that number: [pairs, 2]."""
        torch, keys = self._torch, self._parts.shape[1]
        at_once = max(1, _VALUES // keys)
        found = [np.zeros((0, 2), dtype=np.int64)]
        levels = torch.zeros(len(tally), dtype=torch.int64, device=self._device)
        # Twice the agreement, less what is scored: 0 where a key says nothing.
        known = np.column_stack([2 * counts.astype(np.int32), 2 * at_odd - scored])
        for first in range(0, len(scored), at_once):
            rows = slice(first, first + at_once)
            left = torch.tensor(known[rows], device=self._device).to(self._kind)
            off = (left @ self._parts).abs_()  # [rows, K]
            limits = self._limits[torch.tensor(scored[rows], device=self._device)]
            pairs = self._compare(off, limits.to(self._kind), passing, levels)
            if pairs is not None:
                found.append(pairs + np.array([first, 0]))
        tally += levels.cpu().numpy()
        return np.concatenate(found)

    def _compare(self, off: Any, limits: Any, passing: int, levels: Any) -> Any:
        """Count the pairs of each level; return those that pass."""
        found = None
        for level in range(limits.shape[1]):
            reached = off >= limits[:, level, None]
            number = reached.sum()
            levels[level] += number
            if level == passing:
                found = reached.nonzero().cpu().numpy()
            if not int(number):
                break
        return found
