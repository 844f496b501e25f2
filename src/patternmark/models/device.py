"""Choose the device of a network: CPU or GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from patternmark.errors import ParameterError, PatternmarkError


def pick_device(name: str) -> str:
    """Return `cpu` or `cuda` for `auto`, `cpu` or `cuda`; `auto` takes a GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise ParameterError(f"the device must be auto, cpu or cuda, not {name!r}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise PatternmarkError("torch finds no GPU on this machine: use the device cpu")
    return "cuda" if has_gpu and name != "cpu" else "cpu"


def attention_of_many_shapes() -> AbstractContextManager[None]:
    """Return a context without cuDNN's attention, which prepares a plan for every new shape.

    Each batch and step of decoding has a new shape, so decoding took twenty times as long with it.
    """
    others = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return cast("AbstractContextManager[None]", sdpa_kernel(others))


def device_name(device: str | torch.device) -> str:
    """Return the name of a device, for results that state where they were made."""
    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
