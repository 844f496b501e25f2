"""Import torch for the hooks; if it is missing, say what to install."""

from patternmark.errors import PatternmarkError

try:
    import torch
    from torch import Tensor
except ImportError:
    raise PatternmarkError("hooks need torch: pip install 'patternmark[text]'") from None

__all__ = ["Tensor", "torch"]
