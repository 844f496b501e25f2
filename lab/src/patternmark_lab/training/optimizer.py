"""Optimizers: Muon for the matrices inside a network, Adam for all other parameters.

Muon (Jordan et al., 2024) replaces a matrix's momentum by the nearest matrix whose singular values
are all one, found by a few steps of a polynomial iteration. Networks that are trained for minutes
rather than days get better with it. Matrices of one shape are updated together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

_MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # they bring singular values near one in five steps
_STEPS = 5  # of the iteration
_SCALE = 0.2  # times the root of the longer side: makes steps as large as Adam's


class Muon(torch.optim.Optimizer):
    """Steps of equal size in every direction of a matrix."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(list(parameters), {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the matrices that have a gradient."""
        del closure
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for alike in by_shape.values():
                self._update(alike, group["lr"], group["weight_decay"])

    def _update(self, parameters: list[Tensor], lr: float, weight_decay: float) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        momenta = []
        for parameter in parameters:
            state = self.state[parameter]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(parameter)
            momenta.append(state["momentum"])
        torch._foreach_lerp_(momenta, gradients, 1.0 - _MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, _MOMENTUM)
        steps = orthogonalize(torch.stack(list(ahead)))
        size = _SCALE * max(parameters[0].shape) ** 0.5
        torch._foreach_mul_(parameters, 1.0 - lr * weight_decay)
        torch._foreach_add_(parameters, list(steps.to(parameters[0].dtype)), alpha=-lr * size)


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return matrices [n, rows, columns] with singular values near one and the same directions."""
    a, b, c = _COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x  # keeps the products below small
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        square = x @ x.mT
        x = a * x + (b * square + c * (square @ square)) @ x
    found: Tensor = x.mT if is_tall else x
    return found


def optimizers(
    network: nn.Module, lr: float, weight_decay: float
) -> tuple[Muon, torch.optim.AdamW]:
    """Return the optimizers of the layers' matrices and of embeddings, norms and biases."""
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for name, parameter in network.named_parameters():
        is_matrix = parameter.ndim == 2 and "embedding" not in name and "positions" not in name
        (matrices if is_matrix else others).append(parameter)
    adam = torch.optim.AdamW(
        others, lr=lr, betas=(0.9, 0.98), weight_decay=0.0, fused=others[0].is_cuda
    )
    return Muon(matrices, lr, weight_decay), adam
