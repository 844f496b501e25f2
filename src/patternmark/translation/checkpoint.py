"""Read the folder of a model: config.json, tokenizer.json, and the weights.

Weights are safetensors, in one file or in shards with an index. The file names are those of the
transformers library. The index also has the SHA-256 of every shard, so that a shard that is damaged
or from another save is noticed. The code that writes such folders is in patternmark-lab.
"""

from __future__ import annotations

from dataclasses import fields
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM, Config
from patternmark.models.tensor_file import (
    CheckpointError,
    build,
    is_size,
    read_json,
    read_tensors,
)
from patternmark.models.weights import file_sha256
from patternmark.translation.bpe import TextCodec

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
WEIGHTS = "model.safetensors"


def load_model(folder: Path, device: str | torch.device = "cpu") -> CMLM:
    """Return the network of a folder."""
    config, tensors = read_config(folder / CONFIG), load_tensors(folder / WEIGHTS)
    if config.encoder_layers + config.decoder_layers > len(tensors):
        raise CheckpointError(f"{folder / CONFIG}: has more layers than the weights")
    return build(lambda: CMLM(config), tensors, folder / WEIGHTS).to(device).eval()


def load_both(folder: Path, device: str | torch.device = "cpu") -> tuple[CMLM, TextCodec]:
    """Return the network of a folder and its tokenizer."""
    config, codec = read_config(folder / CONFIG), TextCodec.load(folder / TOKENIZER)
    if codec.size != config.vocab:
        raise CheckpointError(
            f"{folder / TOKENIZER}: has {codec.size} entries, but the model has {config.vocab}: "
            "replace it by the tokenizer that the model was trained with"
        )
    return load_model(folder, device), codec


def read_config(file: Path) -> Config:
    """Return the configuration of a network."""
    content = read_json(file)
    known = {field.name for field in fields(Config)}
    if not isinstance(content, dict) or "vocab" not in content or set(content) - known:
        raise CheckpointError(
            f"{file}: not the configuration of a CMLM that this version of patternmark can read"
        )
    kinds = get_type_hints(Config)
    wrong = [name for name, value in content.items() if not _is_of_kind(value, kinds[name])]
    if wrong:
        raise CheckpointError(f"{file}: {wrong[0]!r} has a value that no network has")
    if "never" in content:
        content["never"] = tuple(content["never"])
    config = Config(**content)
    if not config.heads or config.width % config.heads:
        raise CheckpointError(f"{file}: the number of heads must divide the width")
    ids = config.pad, config.begin, config.end, config.mask, *config.never
    if max(ids) >= config.vocab:
        raise CheckpointError(f"{file}: an id of a special token is not in the vocabulary")
    return config


def _is_of_kind(value: object, kind: Any) -> bool:
    """Tell whether a value of JSON is of the type of a field of `Config`."""
    if kind is bool:
        return type(value) is bool
    if kind is float:
        return type(value) in (int, float) and -inf < float(str(value)) < inf
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(map(is_size, value))
    return is_size(value) or (value is None and type(None) in get_args(kind))


def load_tensors(file: Path) -> dict[str, Tensor]:
    """Read tensors from a file or from its shards. No code in them is run."""
    index = index_of(file)
    if file.exists() or not index.exists():
        return read_tensors(file)
    content = read_json(index)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    hashes = metadata.get("sha256", {}) if isinstance(metadata, dict) else {}
    hashes = hashes if isinstance(hashes, dict) else {}
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
                "damaged or from another save: get all shards and the index again, or repeat the "
                "command that trained the model, which writes them"
            )
    return found


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of the weights of a model; of shards, that of their index."""
    file = folder / WEIGHTS
    place = file if file.exists() else index_of(file)
    try:
        return file_sha256(place)
    except OSError:
        raise CheckpointError(f"{file}: the file is missing") from None


def index_of(file: Path) -> Path:
    """Return the path of the index of the shards of a file."""
    return file.with_name(f"{file.name}.index.json")
