"""Types and conversions for numpy arrays and torch tensors. This module never imports torch."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray


class AnyArray(Protocol):
    """The methods that numpy arrays and torch tensors share, for type checkers."""

    @property
    def shape(self) -> Any:
        """The sizes of all dimensions."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return the entries at an index."""


Array = TypeVar("Array", bound=AnyArray)  # a numpy array or a torch tensor
Logits = TypeVar(
    "Logits", bound=AnyArray
)  # independent of `Array`: one may be numpy, the other torch


def is_tensor(array: Any) -> bool:
    """Return whether an array is a torch tensor."""
    return hasattr(array, "new_tensor")


@overload
def to_device_of(array: Any, like: NDArray[Any] | None) -> NDArray[Any]: ...
@overload
def to_device_of(array: Any, like: Array) -> Array: ...
def to_device_of(array: Any, like: Any) -> Any:
    """Return an array as a tensor on the device of `like`, else as a numpy array."""
    if is_tensor(like):
        return sys.modules["torch"].as_tensor(array, device=like.device)
    return np.asarray(array)
