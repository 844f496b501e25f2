"""Read tensors from safetensors files and check that they fit a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from patternmark.errors import PatternmarkError
from patternmark.io import bounded

_HEADER_BYTES = 2**22  # of the names and shapes in a file: more than any network has
_LARGEST_SIZE = 2**24  # of a vocabulary, a width, ...: more than any network has
_Network = TypeVar("_Network", bound=nn.Module)


class CheckpointError(PatternmarkError):
    """The files of a model are missing, damaged, or belong to another kind of model."""


def is_size(value: object) -> bool:
    """Tell whether a value of a configuration can be a size, an id or a number of layers."""
    return type(value) is int and 0 <= value < _LARGEST_SIZE


def outline(make: Callable[[], _Network]) -> _Network:
    """Return a network that has shapes but no weights, and so takes no memory."""
    with torch.device("meta"):
        return make()


def build(
    make: Callable[[], _Network],
    tensors: Mapping[str, Tensor],
    file: Path,
    name_in_file: Callable[[str], str] = lambda name: name,
) -> _Network:
    """Return a network with these tensors; its memory is taken only if all of them fit."""
    _check_fit(outline(make).state_dict(), tensors, file, name_in_file)
    model = make()
    fill(model, tensors, file, name_in_file)
    return model


def fill(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    file: Path,
    name_in_file: Callable[[str], str] = lambda name: name,
) -> None:
    """Load tensors into a network; raise an error that names those that do not fit."""
    wanted = model.state_dict()
    _check_fit(wanted, tensors, file, name_in_file)
    model.load_state_dict({name: tensors[name].to(wanted[name].dtype) for name in wanted})


def _check_fit(
    wanted: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    file: Path,
    name_in_file: Callable[[str], str],
) -> None:
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


def _name_some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    if len(names) == 1:
        return f"tensor {shown} is"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"tensors {shown}{more} are"


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read the tensors of one file. No code in the file is run."""
    from safetensors import SafetensorError  # noqa: PLC0415  # the text extra
    from safetensors.torch import load_file  # noqa: PLC0415

    try:
        with file.open("rb") as stream:
            if int.from_bytes(stream.read(8), "little") > _HEADER_BYTES:
                limit = bounded.in_mib(_HEADER_BYTES)
                raise CheckpointError(f"{file}: not safetensors: its header has more than {limit}")
        return load_file(file)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file}: cannot be read as safetensors: {error}") from None


def read_json(file: Path) -> Any:
    """Read a JSON file; raise an error that says what is wrong with it."""
    try:
        return bounded.read_json(file)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: cannot be read: {error}") from None
