"""Products with weights that stay as they are, laid out once for many.

On a CPU PyTorch multiplies float32 with MKL, which does without AVX-512 on AMD's processors. oneDNN
has it everywhere, and takes weights that lie as it reads them: together that is twice as fast on
AMD from ten rows on. PyTorch has both as operations of its compiler; where they are missing or
fail, products are made as ever.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

_MULTIPLE = 8  # oneDNN writes code for each number of rows: a few numbers only


class PackedWeights:
    """Weights [out, in] to multiply rows with. They are held twice where oneDNN takes them."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight, self._bias = weight.detach(), None if bias is None else bias.detach()
        self._packed = _packed(self._weight)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copy of a network is not packed: its weights may change."""

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x [..., in] times the weights, and a bias: the one that is given, or the own."""
        bias = self._bias if bias is None else bias
        rows = x.shape[:-1].numel()
        # One row is a matter of reading the weights, at which MKL is faster.
        if self._packed is None or rows <= 1 or torch.is_grad_enabled():
            return functional.linear(x, self._weight, bias)
        flat = x.reshape(rows, x.shape[-1])
        if rows % _MULTIPLE:
            flat = functional.pad(flat, (0, 0, 0, -rows % _MULTIPLE))
        found = _multiply(flat, self._packed, bias)
        return found[:rows].view(*x.shape[:-1], found.shape[1])


class Product(nn.Linear):
    """A linear layer that may be packed, for inference alone."""

    packed: PackedWeights | None = None

    def pack(self) -> None:
        self.packed = PackedWeights(self.weight, self.bias)

    def unpack(self) -> None:
        self.packed = None

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.packed is None else self.packed(x)


def _packed(weight: Tensor) -> Tensor | None:
    """Return weights as oneDNN likes them, or None where it is not to be used."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    try:
        packed = cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight, _MULTIPLE))
        # Some builds have the operation and cannot do it.
        _multiply(weight.new_zeros(_MULTIPLE, weight.shape[1]), packed, None)
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
    return packed


def _multiply(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], ""))
