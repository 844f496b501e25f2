"""A model's folder: config.json, tokenizer.json, weights, and what a training goes on from.

Weights are safetensors, in one file or in shards of a given size with an index, named as the
transformers library names them. Files are put in place whole: a stop leaves the old ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark.models.cmlm import CMLM, Config

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = "model.safetensors"
_TINY = 1024  # bytes left for a shard's header


class CheckpointError(PatternmarkError):
    """A model's files are missing, damaged, or of another kind of model."""


def save_model(folder: Path, model: CMLM, *, shard_bytes: int | None = None) -> None:
    """Write a network's configuration and its weights in half precision."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, asdict(model.config))
    halves = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    save_tensors(folder / WEIGHTS, halves, shard_bytes=shard_bytes)


def load_model(folder: Path, device: str | torch.device = "cpu") -> CMLM:
    """Read a network that `save_model` wrote."""
    model = CMLM(read_config(folder / CONFIG))
    tensors = load_tensors(folder / WEIGHTS)
    fill(model, tensors, folder / WEIGHTS)
    return model.to(device).eval()


def fill(
    model: CMLM,
    tensors: dict[str, Tensor],
    file: Path,
    name_in_file: Callable[[str], str] = lambda name: name,
) -> None:
    """Put tensors into a network, or say which of them do not fit."""
    wanted = model.state_dict()
    missing = sorted(name_in_file(name) for name in set(wanted) - set(tensors))
    if missing:
        raise CheckpointError(
            f"{file}: {_some(missing)} missing: the file is incomplete or of another model"
        )
    unknown = sorted(set(tensors) - set(wanted))
    if unknown:
        raise CheckpointError(f"{file}: {_some(unknown)} not part of this model")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            shapes = f"{tuple(tensor.shape)}, not {tuple(wanted[name].shape)}"
            shown = name_in_file(name)
            raise CheckpointError(f"{file}: tensor {shown!r} has the shape {shapes}")
    model.load_state_dict({name: tensors[name].to(wanted[name].dtype) for name in wanted})


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    if len(names) == 1:
        return f"tensor {shown} is"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"tensors {shown}{more} are"


def read_config(file: Path) -> Config:
    """Read a network's configuration."""
    content = read_json(file)
    known = {field.name for field in fields(Config)}
    if not isinstance(content, dict) or "vocab" not in content or set(content) - known:
        raise CheckpointError(f"{file}: not the configuration of a CMLM of this version")
    if "never" in content:
        content["never"] = tuple(content["never"])
    return Config(**content)


def save_tensors(file: Path, tensors: dict[str, Tensor], *, shard_bytes: int | None = None) -> None:
    """Write tensors into one file, or into shards of so many bytes at most beside an index."""
    from safetensors.torch import save_file

    if shard_bytes is None:
        _in_place(file, lambda path: save_file(tensors, path))
        return
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size() + _TINY
        if size > shard_bytes:
            raise ParameterError(
                f"tensor {name!r} alone has {size / 2**20:.1f} MiB: shards must be larger"
            )
        if filled + size > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += size
    names = [
        f"{file.stem}-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))
    ]
    for name, shard in zip(names, shards, strict=True):
        _in_place(file.with_name(name), lambda path, shard=shard: save_file(shard, path))  # type: ignore[misc]
    places = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
    write_json(_index(file), {"weight_map": places})


def load_tensors(file: Path) -> dict[str, Tensor]:
    """Read tensors from a file or from its shards; nothing in them is run."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    index = _index(file)
    if file.exists() or not index.exists():
        places = [file]
    else:
        content = read_json(index)
        names = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(names, dict) or any(Path(str(n)).name != n for n in names.values()):
            raise CheckpointError(f"{index}: not an index of shards")
        places = [file.with_name(name) for name in sorted(set(names.values()))]
    found: dict[str, Tensor] = {}
    for place in places:
        try:
            found |= load_file(place)
        except FileNotFoundError:
            raise CheckpointError(f"{place}: the file is missing") from None
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{place}: cannot be read as safetensors: {error}") from None
    return found


def _index(file: Path) -> Path:
    return file.with_name(f"{file.name}.index.json")


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write JSON in place of what stands there."""
    text = json.dumps(content, indent=1) + "\n"
    _in_place(file, lambda path: Path(path).write_text(text, encoding="utf-8"))


def read_json(file: Path) -> Any:
    """Read JSON, or say what is wrong with the file."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: cannot be read: {error}") from None


def _in_place(file: Path, write: Callable[[str], object]) -> None:
    unfinished = f"{file}.unfinished"
    try:
        write(unfinished)
        os.replace(unfinished, file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None
