"""A model's folder: config.json, tokenizer.json, and the weights.

Weights are safetensors, in one file or in shards of a given size with an index, named as the
transformers library names them; the index also holds the SHA-256 of every shard, so that a damaged
one, or one of another save, is noticed. Files are put in place whole: a stop leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import torch
from torch import Tensor

from patternmark.errors import ParameterError
from patternmark.io.files import make_folder, write_json
from patternmark.models.cmlm import CMLM, Config
from patternmark.models.tensor_file import (
    CheckpointError,
    fill,
    put_tensors,
    read_json,
    read_tensors,
)
from patternmark.models.weights import file_sha256
from patternmark.translation.tokenizer import TextCodec

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = "model.safetensors"
_HEADER = 1024  # bytes of a shard's header for each tensor, at most


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
        put_tensors(file, tensors)
        _index(file).unlink(missing_ok=True)
        _remove_shards(file, keep=())
        return
    shards = _shards(tensors, shard_bytes)
    total = len(shards)
    names = [f"{file.stem}-{i + 1:05d}-of-{total:05d}{file.suffix}" for i in range(total)]
    hashes = {}
    for name, shard in zip(names, shards, strict=True):
        put_tensors(file.with_name(name), shard)
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
        return read_tensors(file)
    content = read_json(index)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    hashes = metadata.get("sha256", {}) if isinstance(metadata, dict) else {}
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or any(Path(str(n)).name != n for n in names.values()):
        raise CheckpointError(f"{index}: not an index of shards")
    found: dict[str, Tensor] = {}
    for name in sorted(set(names.values())):
        place = file.with_name(name)
        found |= read_tensors(place)
        if name in hashes and file_sha256(place) != hashes[name]:
            raise CheckpointError(
                f"{place}: not the file that {index.name} names (its SHA-256 differs): it is "
                "damaged or of another save; get all shards and the index anew, or give the "
                "command that trained it again, which writes them"
            )
    return found


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
