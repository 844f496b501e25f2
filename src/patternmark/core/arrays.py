"""Numpy arrays and torch tensors through the same lines; torch is never imported from here.

Both libraries name most operations alike. Where a function is needed, `library_of` returns the
library that an array is of: a tensor exists only where torch has been imported already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_tensor(array: Any) -> bool:
    """Tell whether it is a torch tensor."""
    return hasattr(array, "new_tensor")


def library_of(array: Any) -> Any:
    """Return numpy, or torch where `array` is a tensor."""
    return sys.modules["torch"] if is_tensor(array) else np


def beside(array: Any, like: Any) -> Any:
    """Return an array as one of the kind of `like`, on its device; without a like, in numpy."""
    if is_tensor(like):
        return sys.modules["torch"].as_tensor(array, device=like.device)
    return np.asarray(array)
