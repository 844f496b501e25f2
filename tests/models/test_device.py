import pytest
import torch

from patternmark.errors import ParameterError, PatternmarkError
from patternmark.models.device import attention_of_many_shapes, pick_device


def test_a_device_is_picked_by_what_is_there() -> None:
    has_gpu = torch.cuda.is_available()
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") == ("cuda" if has_gpu else "cpu")
    with pytest.raises(ParameterError, match="the device must be auto, cpu or cuda, not 'tpu'"):
        pick_device("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_an_error_with_its_remedy() -> None:
    with pytest.raises(
        PatternmarkError, match="torch finds no GPU on this machine: use the device cpu"
    ):
        pick_device("cuda")


def test_attention_that_plans_for_every_shape_is_off_while_decoding() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    with attention_of_many_shapes():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
