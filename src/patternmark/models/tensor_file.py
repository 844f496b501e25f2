"""Read tensors from safetensors files and check that they fit a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from patternmark.errors import PatternmarkError


class CheckpointError(PatternmarkError):
    """The files of a model are missing, damaged, or belong to another kind of model."""


def fill(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    file: Path,
    name_in_file: Callable[[str], str] = lambda name: name,
) -> None:
    """Load tensors into a network; raise an error that names those that do not fit."""
    wanted = model.state_dict()
    missing = sorted(name_in_file(name) for name in set(wanted) - set(tensors))
    if missing:
        raise CheckpointError(
            f"{file}: {_name_some(missing)} missing: the file is incomplete or of another model"
        )
    unknown = sorted(set(tensors) - set(wanted))
    if unknown:
        raise CheckpointError(
            f"{file}: {_name_some(unknown)} not part of this model: the file is of another model"
        )
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            shapes = f"{tuple(tensor.shape)}, not {tuple(wanted[name].shape)}"
            shown = name_in_file(name)
            raise CheckpointError(
                f"{file}: tensor {shown!r} has the shape {shapes}: the file is of another model"
            )
    model.load_state_dict({name: tensors[name].to(wanted[name].dtype) for name in wanted})


def _name_some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    if len(names) == 1:
        return f"tensor {shown} is"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"tensors {shown}{more} are"


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read the tensors of one file. No code in the file is run."""
    try:
        return load_file(file)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file}: cannot be read as safetensors: {error}") from None


def read_json(file: Path) -> Any:
    """Read a JSON file; raise an error that says what is wrong with it."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: cannot be read: {error}") from None
