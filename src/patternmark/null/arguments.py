"""Check the arguments of nulls: whole numbers of any shape, and parameters in their range."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError


def whole_numbers(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both as integers of one shape; floats raise an error, they are not truncated."""
    first, second = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    return (
        first.astype(np.int64, casting="same_kind"),
        second.astype(np.int64, casting="same_kind"),
    )


def check_phases(phases: int) -> None:
    if phases < 2:
        raise ParameterError(f"a schedule has at least 2 phases, not {phases}")


def check_cost(cost: int) -> None:
    if cost < 1:
        raise ParameterError(f"the cost of a slip must be a whole number from 1 up, not {cost}")
