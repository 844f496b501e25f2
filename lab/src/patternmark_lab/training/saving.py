"""Write networks to files, which replace the old files only when they are complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from patternmark.errors import ParameterError
from patternmark.io.files import make_folder, put_in_place, write_json
from patternmark.models.cmlm import CMLM
from patternmark.models.weights import file_sha256
from patternmark.translation.checkpoint import CONFIG, WEIGHTS, index_of

_HEADER_BYTES = 1024  # upper limit for one tensor's part of a shard's header


def save_model(folder: Path, model: CMLM, *, shard_bytes: int | None = None) -> None:
    """Write a network's configuration and its weights in half precision."""
    make_folder(folder)
    write_json(folder / CONFIG, asdict(model.config))
    halves = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    save_tensors(folder / WEIGHTS, halves, shard_bytes=shard_bytes)


def put_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into one file, which replaces an existing one.

    The library could write the file itself, but under a random name first: what a killed run leaves
    of that would stay for ever.
    """
    content = save(dict(tensors))
    put_in_place(file, lambda path: path.write_bytes(content))


def save_tensors(
    file: Path, tensors: Mapping[str, Tensor], *, shard_bytes: int | None = None
) -> None:
    """Write tensors into one file, or into shards of at most `shard_bytes` with an index.

    Files that an earlier save wrote in the other form are removed.
    """
    if shard_bytes is None:
        put_tensors(file, tensors)
        index_of(file).unlink(missing_ok=True)
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
    write_json(index_of(file), content)
    file.unlink(missing_ok=True)
    _remove_shards(file, keep=names)


def _shards(tensors: Mapping[str, Tensor], shard_bytes: int) -> list[dict[str, Tensor]]:
    """Divide tensors, in their order, into shards of at most `shard_bytes`."""
    check_shards(tensors, shard_bytes)
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        size = _size(tensor) + _HEADER_BYTES
        if filled + size > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += size
    return shards


def check_shards(tensors: Mapping[str, Tensor], shard_bytes: int | None) -> None:
    """Raise an error if a shard cannot hold the largest tensor."""
    name, largest = max(tensors.items(), key=lambda item: _size(item[1]))
    if shard_bytes is not None and _size(largest) + _HEADER_BYTES > shard_bytes:
        raise ParameterError(
            f"tensor {name!r} alone has {(_size(largest) + _HEADER_BYTES) / 2**20:.2f} MiB, so "
            f"shards cannot have {shard_bytes / 2**20:.2f} MiB: choose larger shards"
        )


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def remove_tensors(file: Path) -> None:
    """Remove the files that `save_tensors` wrote, in either form."""
    file.unlink(missing_ok=True)
    index_of(file).unlink(missing_ok=True)
    _remove_shards(file, keep=())


def _remove_shards(file: Path, keep: tuple[str, ...] | list[str]) -> None:
    for shard in file.parent.glob(f"{file.stem}-?????-of-?????{file.suffix}"):
        if shard.name not in keep:
            shard.unlink()
