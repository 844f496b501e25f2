"""Packed weights multiply as plain ones do, and are dropped where those may change."""

from copy import deepcopy

import pytest
import torch

from patternmark.models.cmlm import CMLM
from patternmark.models.head import choose
from patternmark.models.products import PackedWeights, Product
from tests.translation.small import config

torch.set_num_threads(1)


@pytest.mark.parametrize(
    "shape", [(0, 24), (1, 24), (2, 24), (8, 24), (3, 7, 24), (2, 0, 24)], ids=str
)
@torch.inference_mode()
def test_products_are_the_same_packed(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    layer = Product(24, 56)
    x, other = torch.randn(shape), torch.randn(56)
    plain = layer(x)
    layer.pack()
    torch.testing.assert_close(layer(x), plain)
    found = PackedWeights(layer.weight)(x, other)
    torch.testing.assert_close(found, plain - layer.bias + other, atol=1e-5, rtol=1e-5)


def test_where_there_is_no_other_library_products_are_made_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    layer, x = Product(24, 56), torch.randn(9, 24)
    with torch.inference_mode():
        plain = layer(x)
        layer.pack()
        assert torch.equal(layer(x), plain)


def test_packed_weights_have_gradients_as_plain_ones() -> None:
    layer, x = Product(24, 56), torch.randn(9, 24, requires_grad=True)
    layer.pack()
    layer(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, layer.weight.sum(dim=0).expand(9, -1))


def states(model: CMLM) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([[7, 8, 9]]), torch.tensor([[3, 6, 3, 3]]))[0]


@pytest.mark.parametrize("way", ["train", "load_state_dict", "to"])
def test_who_changes_weights_unpacks_them(way: str) -> None:
    torch.manual_seed(2)
    model, other = CMLM(config()).eval().pack(), CMLM(config()).eval()
    before = states(model)
    if way == "train":
        model.train()
        model.load_state_dict(other.state_dict())
        model.eval()
    elif way == "load_state_dict":
        model.load_state_dict(other.state_dict())
    else:
        model.to(torch.float64)
        assert torch.allclose(states(model).float(), before, atol=1e-5)
        return
    assert not torch.allclose(states(model), before, atol=1e-3)
    torch.testing.assert_close(states(model), states(other))


def test_a_copy_is_not_packed_and_names_of_weights_stay() -> None:
    model = CMLM(config()).eval()
    names = list(model.state_dict())
    copied = deepcopy(model.pack())
    assert list(model.state_dict()) == names
    assert copied.table is None
    assert copied.decoder[0].own.both is None
    torch.testing.assert_close(states(copied), states(model))


@pytest.mark.parametrize("width", [64, 640, 700])
def test_the_first_of_equal_tokens_is_chosen(width: int) -> None:
    logits = torch.randint(4, (50, width), generator=torch.Generator().manual_seed(3)).float()
    chosen, log_p = choose(logits, 0.0, None)
    wanted = logits.log_softmax(dim=1)
    assert torch.equal(chosen, wanted.argmax(dim=1))
    assert torch.equal(log_p, wanted.amax(dim=1))
