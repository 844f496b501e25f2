"""Arrays of numpy and tensors of torch, handled alike. Torch is never imported from here."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray


class AnyArray(Protocol):
    """What numpy arrays and torch tensors have in common, for type checkers."""

    @property
    def shape(self) -> Any:
        """The sizes of all dimensions."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return some of the entries."""


Array = TypeVar("Array", bound=AnyArray)  # a numpy array or a torch tensor
Logits = TypeVar("Logits", bound=AnyArray)  # of the other kind, it may be


def is_tensor(array: Any) -> bool:
    """Return whether this is a torch tensor."""
    return hasattr(array, "new_tensor")


@overload
def to_device_of(array: Any, like: NDArray[Any] | None) -> NDArray[Any]: ...
@overload
def to_device_of(array: Any, like: Array) -> Array: ...
def to_device_of(array: Any, like: Any) -> Any:
    """Return an array as a tensor on the device of `like`; as a numpy array if `like` is none."""
    if is_tensor(like):
        return sys.modules["torch"].as_tensor(array, device=like.device)
    return np.asarray(array)
