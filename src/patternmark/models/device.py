"""Where a network runs: on a CPU or a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from patternmark.errors import ParameterError, PatternmarkError


def pick_device(name: str) -> str:
    """Return `cpu` or `cuda` for `auto`, `cpu` or `cuda`; `auto` takes a GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise ParameterError(f"the device must be auto, cpu or cuda, not {name!r}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise PatternmarkError("torch sees no GPU here: use the device cpu")
    return "cuda" if has_gpu and name != "cpu" else "cpu"


def attention_of_many_shapes() -> AbstractContextManager[None]:
    """Do without cuDNN's attention, which makes a plan for every new shape.

    Each batch and step of decoding has another shape: with it, decoding took twenty times as long.
    """
    others = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return cast("AbstractContextManager[None]", sdpa_kernel(others))


def device_name(device: str | torch.device) -> str:
    """Return what a device is called where results say on what they were made."""
    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
