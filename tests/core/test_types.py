"""The result has the type of the input: `mypy` checks what `assert_type` states here."""

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import pytest
from numpy.typing import NDArray

from patternmark import Key, Marker, Profile
from patternmark.arrays import to_device_of
from patternmark.core.promote import Promotion
from patternmark.core.secret import Secret

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

KEYS = np.array([0, 1, -1])


@pytest.fixture
def marker() -> Marker:
    return Marker(Key.of(Secret(bytes(32)), Profile()))


def test_numpy_in_numpy_out(marker: Marker) -> None:
    single: NDArray[np.float32] = np.zeros((3, 21), dtype=np.float32)
    double: NDArray[np.float64] = np.zeros((3, 21))
    promotion = marker.prepare(KEYS, 1.0)
    assert_type(promotion, Promotion[NDArray[Any]])
    assert_type(promotion.only([0]), Promotion[NDArray[Any]])
    assert_type(promotion.row_of, NDArray[Any])
    assert_type(marker.prepare(KEYS, 1.0, like=double), Promotion[NDArray[Any]])
    assert_type(promotion.add_to(single), NDArray[np.float32])
    assert_type(marker.promote(double, KEYS, temperature=1.0), NDArray[np.float64])
    assert_type(to_device_of([1, 2], double), NDArray[Any])
    assert promotion.add_to(single).dtype == np.float32
    assert isinstance(promotion.row_of, np.ndarray)


def test_torch_in_torch_out(marker: Marker) -> None:
    logits = torch.zeros(3, 21, dtype=torch.float16)
    promotion = marker.prepare(KEYS, 1.0, like=logits)
    assert_type(promotion, Promotion[torch.Tensor])
    assert_type(promotion.promoted, torch.Tensor)
    assert_type(promotion.add_to(logits), torch.Tensor)
    assert_type(marker.promote(logits, KEYS, temperature=1.0), torch.Tensor)
    assert_type(to_device_of(KEYS, logits), torch.Tensor)
    assert promotion.add_to(logits).dtype == torch.float16
    assert isinstance(promotion.row_of, torch.Tensor)


def test_a_promotion_is_moved_to_the_other_kind(marker: Marker) -> None:
    promotion, logits = marker.prepare(KEYS, 1.0), torch.zeros(3, 21)
    assert_type(promotion.to_device_of(logits), Promotion[torch.Tensor])
    assert_type(promotion.add_to(logits), torch.Tensor)
    assert isinstance(promotion.add_to(logits), torch.Tensor)


def test_what_is_no_array_is_refused(marker: Marker) -> None:
    with pytest.raises(ValueError, match="could not convert string"):
        marker.promote("ACD", KEYS, temperature=1.0)  # type: ignore[type-var]
