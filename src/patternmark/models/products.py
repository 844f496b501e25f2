"""Matrix products with constant weights, which are reordered once for many products.

On a CPU PyTorch multiplies float32 with MKL, which does not use AVX-512 on AMD's processors. oneDNN
uses it everywhere, and it accepts weights in the order in which it reads them. On AMD both together
are twice as fast from ten rows on. PyTorch offers this only as internal operations of its compiler.
If these are missing or fail, the usual product is used.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

_ROW_MULTIPLE = 8  # rows are padded to this: oneDNN compiles code for each number of rows


class PackedWeights:
    """Weights [out, in] to multiply rows with. If oneDNN is used, a second copy is kept for it."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight, self._bias = weight.detach(), None if bias is None else bias.detach()
        self._packed = _pack(self._weight)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: a copy of a network is not packed, as its weights may change."""

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x [..., in] times the weights, plus `bias` or, if None, the layer's own bias."""
        bias = self._bias if bias is None else bias
        rows = x.shape[:-1].numel()
        # For one row, reading the weights takes the time, and MKL does it faster.
        if self._packed is None or rows <= 1 or torch.is_grad_enabled():
            return functional.linear(x, self._weight, bias)
        flat = x.reshape(rows, x.shape[-1])
        if rows % _ROW_MULTIPLE:
            flat = functional.pad(flat, (0, 0, 0, -rows % _ROW_MULTIPLE))
        found = _multiply(flat, self._packed, bias)
        return found[:rows].view(*x.shape[:-1], found.shape[1])


class Product(nn.Linear):
    """A linear layer that can be packed, for inference only."""

    packed: PackedWeights | None = None

    def pack(self) -> None:
        self.packed = PackedWeights(self.weight, self.bias)

    def unpack(self) -> None:
        self.packed = None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.packed is None else self.packed(x)


def _pack(weight: Tensor) -> Tensor | None:
    """Return weights in the order of oneDNN, or None if oneDNN cannot be used."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    try:
        packed = cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight, _ROW_MULTIPLE))
        # In some builds the operation exists but fails.
        _multiply(weight.new_zeros(_ROW_MULTIPLE, weight.shape[1]), packed, None)
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
    return packed


def _multiply(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], ""))
