"""Where a network runs: on a CPU or a GPU."""

from __future__ import annotations

import torch

from patternmark.errors import ParameterError, PatternmarkError


def pick_device(name: str) -> str:
    """Return `cpu` or `cuda` for what --device says; `auto` takes a GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise ParameterError(f"--device is auto, cpu or cuda, not {name!r}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise PatternmarkError("--device cuda: torch sees no GPU here; use --device cpu")
    place = "cuda" if has_gpu and name != "cpu" else "cpu"
    if place == "cuda":
        # cuDNN's attention plans anew for every shape, and each batch and step of decoding has
        # another: with it, decoding took twenty times as long.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return place


def device_name(device: str | torch.device) -> str:
    """Return what a device is called where results say on what they were made."""
    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
