"""Muon's steps are orthogonal, and it trains the matrices inside a network alone."""

import pytest
import torch

from patternmark.models.cmlm import CMLM
from patternmark_lab.training.optimizer import Muon, optimizers, orthogonalize
from tests.translation.small import config


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 16, 40), (2, 40, 16)])
def test_singular_values_become_near_one_and_directions_stay(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found = orthogonalize(matrices)
    values = torch.linalg.svdvals(found)
    assert found.shape == matrices.shape
    assert values.min() > 0.6
    assert values.max() < 1.3
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    # U' X V of the nearest orthogonal matrix is the unit matrix.
    inner = u.mT @ found @ vh.mT
    off = inner - torch.diag_embed(inner.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-4


def test_a_step_has_the_size_of_its_rate_whatever_the_gradient() -> None:
    moved = []
    for scale in (1e-3, 1e3):
        parameter = torch.nn.Parameter(torch.zeros(20, 20))
        generator = torch.Generator().manual_seed(2)
        parameter.grad = scale * torch.randn(20, 20, generator=generator)
        Muon([parameter], lr=0.1, weight_decay=0.0).step()
        moved.append(parameter.detach().clone())
    assert torch.allclose(moved[0], moved[1], atol=1e-4)
    root_mean_square = moved[0].square().mean().sqrt()
    assert 0.01 < root_mean_square < 0.03  # a rate of 0.1 times 0.2


def test_matrices_go_to_muon_and_all_else_to_adam() -> None:
    network = CMLM(config())
    muon, adam = optimizers(network, 1e-3, 0.0)
    name_of = {parameter: name for name, parameter in network.named_parameters()}
    names = [
        {name_of[p] for group in optimizer.param_groups for p in group["params"]}
        for optimizer in (muon, adam)
    ]
    assert names[0] | names[1] == set(name_of.values())
    assert not names[0] & names[1]
    assert "decoder.0.cross.key.weight" in names[0]
    assert {"embedding.weight", "length_embedding.weight", "encoder.0.up.bias"} <= names[1]
