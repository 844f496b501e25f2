"""A model's folder: config.json, tokenizer.json, and the weights.

Weights are safetensors, in one file or in shards of a given size with an index, named as the
transformers library names them; the index also holds the SHA-256 of every shard, so that a damaged
one, or one of another save, is noticed. Files are put in place whole: a stop leaves the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from patternmark.errors import ParameterError, PatternmarkError
from patternmark.models.cmlm import CMLM, Config
from patternmark.models.weights import file_sha256
from patternmark.translation.files import make_folder, put_in_place, write_json
from patternmark.translation.tokenizer import TextCodec

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = "model.safetensors"
_HEADER = 1024  # bytes of a shard's header for each tensor, at most


class CheckpointError(PatternmarkError):
    """A model's files are missing, damaged, or of another kind of model."""


def save_model(folder: Path, model: CMLM, *, shard_bytes: int | None = None) -> None:
    """Write a network's configuration and its weights in half precision."""
    make_folder(folder)
    write_json(folder / CONFIG, asdict(model.config))
    halves = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    save_tensors(folder / WEIGHTS, halves, shard_bytes=shard_bytes)


def load_model(folder: Path, device: str | torch.device = "cpu") -> CMLM:
    """Read a network that `save_model` wrote."""
    model = CMLM(read_config(folder / CONFIG))
    fill(model, load_tensors(folder / WEIGHTS), folder / WEIGHTS)
    return model.to(device).eval()


def load_both(folder: Path, device: str | torch.device = "cpu") -> tuple[CMLM, TextCodec]:
    """Read a network and its tokenizer."""
    config, codec = read_config(folder / CONFIG), TextCodec.load(folder / TOKENIZER)
    if codec.size != config.vocab:
        raise CheckpointError(
            f"{folder / TOKENIZER}: has {codec.size} entries, and the model {config.vocab}: put "
            "the tokenizer there that the model was trained with"
        )
    return load_model(folder, device), codec


def fill(
    model: CMLM,
    tensors: Mapping[str, Tensor],
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


def save_tensors(
    file: Path, tensors: Mapping[str, Tensor], *, shard_bytes: int | None = None
) -> None:
    """Write tensors into one file, or into shards of so many bytes at most beside an index.

    What an earlier save in the other form left is removed.
    """
    if shard_bytes is None:
        _put_tensors(file, tensors)
        _index(file).unlink(missing_ok=True)
        _remove_shards(file, keep=())
        return
    shards = _shards(tensors, shard_bytes)
    total = len(shards)
    names = [f"{file.stem}-{i + 1:05d}-of-{total:05d}{file.suffix}" for i in range(total)]
    hashes = {}
    for name, shard in zip(names, shards, strict=True):
        _put_tensors(file.with_name(name), shard)
        hashes[name] = file_sha256(file.with_name(name))
    places = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
    size = sum(_size(tensor) for tensor in tensors.values())
    content = {"metadata": {"total_size": size, "sha256": hashes}, "weight_map": places}
    write_json(_index(file), content)
    file.unlink(missing_ok=True)
    _remove_shards(file, keep=names)


def _shards(tensors: Mapping[str, Tensor], shard_bytes: int) -> list[dict[str, Tensor]]:
    """Divide tensors, in their order, so that no shard is larger than it may be."""
    check_shards(tensors, shard_bytes)
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        size = _size(tensor) + _HEADER
        if filled + size > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += size
    return shards


def check_shards(tensors: Mapping[str, Tensor], shard_bytes: int | None) -> None:
    """Refuse shards that cannot hold the largest tensor."""
    name, largest = max(tensors.items(), key=lambda item: _size(item[1]))
    if shard_bytes is not None and _size(largest) + _HEADER > shard_bytes:
        raise ParameterError(
            f"tensor {name!r} alone has {(_size(largest) + _HEADER) / 2**20:.2f} MiB: shards "
            f"cannot be smaller, not {shard_bytes / 2**20:.2f}"
        )


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def load_tensors(file: Path) -> dict[str, Tensor]:
    """Read tensors from a file or from its shards; nothing in them is run."""
    index = _index(file)
    if file.exists() or not index.exists():
        return _read_tensors(file)
    content = read_json(index)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    hashes = metadata.get("sha256", {}) if isinstance(metadata, dict) else {}
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or any(Path(str(n)).name != n for n in names.values()):
        raise CheckpointError(f"{index}: not an index of shards")
    found: dict[str, Tensor] = {}
    for name in sorted(set(names.values())):
        place = file.with_name(name)
        found |= _read_tensors(place)
        if name in hashes and file_sha256(place) != hashes[name]:
            raise CheckpointError(
                f"{place}: not the file that {index.name} names (its SHA-256 differs): it is "
                "damaged or of another save; get all shards and the index anew, or give the "
                "command that trained it again, which writes them"
            )
    return found


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file}: cannot be read as safetensors: {error}") from None


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of a model's weights, or of the index that holds those of its shards."""
    file = folder / WEIGHTS
    place = file if file.exists() else _index(file)
    try:
        return file_sha256(place)
    except OSError:
        raise CheckpointError(f"{file}: the file is missing") from None


def remove_tensors(file: Path) -> None:
    """Remove what `save_tensors` wrote, in whatever form."""
    file.unlink(missing_ok=True)
    _index(file).unlink(missing_ok=True)
    _remove_shards(file, keep=())


def _index(file: Path) -> Path:
    return file.with_name(f"{file.name}.index.json")


def _remove_shards(file: Path, keep: tuple[str, ...] | list[str]) -> None:
    for shard in file.parent.glob(f"{file.stem}-?????-of-?????{file.suffix}"):
        if shard.name not in keep:
            shard.unlink()


def _put_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    def write(path: Path) -> None:
        path.touch()
        mode = path.stat().st_mode
        try:
            save_file(dict(tensors), path)
        except SafetensorError as error:  # of its own for a full disk too
            raise OSError(str(error)) from None
        path.chmod(mode)  # the library makes files that nobody else may read

    put_in_place(file, write)


def read_json(file: Path) -> Any:
    """Read JSON, or say what is wrong with the file."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{file}: the file is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: cannot be read: {error}") from None
