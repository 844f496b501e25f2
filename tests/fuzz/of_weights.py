"""Weights: torch files in both forms, safetensors, and the configuration of a network."""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutations import Mutator
from tests.fuzz.targets import WITH_TORCH, Target

_SIZES = {"vocab": 8, "width": 8, "hidden": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@cache
def torch_files() -> tuple[bytes, ...]:
    """Return a small torch file as a zip archive, and as a chain of pickles."""
    import torch

    base = torch.arange(24.0).reshape(4, 6)
    content = {
        "num_edges": 3,
        "model_state_dict": OrderedDict(
            a=base, b=base[1:, ::2], c=base.half(), d=torch.empty(0, 3)
        ),
        "args": argparse.Namespace(arch="x", lr=[0.5]),
        "model": {"encoder.embed_lengths.weight": base, "encoder.embed_tokens.weight": base},
    }
    return tuple(_saved(content, as_archive) for as_archive in (True, False))


def _saved(content: Any, as_archive: bool) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(content, stream, _use_new_zipfile_serialization=as_archive)
    return stream.getvalue()


def archive(pickled: bytes, storage: bytes = bytes(96)) -> bytes:
    """Return a torch file with a pickle of one's own."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("archive/data.pkl", pickled)
        made.writestr("archive/data/0", storage)
    return stream.getvalue()


def _pickle_of(file: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(file)) as made:
        return made.read(next(name for name in made.namelist() if name.endswith("data.pkl")))


def _make(mutator: Mutator, chance: Random) -> bytes:
    """Break the file, or only its pickle: a broken archive is seldom read far."""
    if chance.random() < 0.4:
        return mutator.make(chance)
    return archive(Mutator([_pickle_of(torch_files()[0])], _OPCODES).make(chance))


def _read_torch(content: bytes, folder: Path) -> Iterable[str]:
    from patternmark.models.tensor_file import CheckpointError
    from patternmark.models.torch_file import StoredTensor, TorchFile

    file = folder / "x.pt"
    file.write_bytes(content)
    read = TorchFile(file)
    found = read.content if isinstance(read.content, dict) else {}
    for name in ("model", "model_state_dict"):
        stored = found.get(name)
        for entry in stored.values() if isinstance(stored, dict) else ():
            if isinstance(entry, StoredTensor):
                try:
                    assert tuple(read.tensor(entry).shape) == entry.shape
                except CheckpointError as error:
                    yield str(error)


def _read_checkpoints(content: bytes, folder: Path) -> Iterable[str]:
    """Read a torch file as the programs do: as ProteinMPNN, and as a published translator."""
    from patternmark.errors import PatternmarkError
    from patternmark.models.mpnn import ProteinMPNN
    from patternmark.translation.published import load_published

    file, dictionary = folder / "x.pt", folder / "dict.en.txt"
    file.write_bytes(content)
    dictionary.write_text("a 2\nb 1\n")
    for load in (lambda: ProteinMPNN.load(file), lambda: load_published(file, dictionary)):
        try:
            load()
        except PatternmarkError as error:
            yield str(error)


@cache
def _safetensors() -> bytes:
    import torch
    from safetensors.torch import save

    return save({"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(0, 2)}, {"format": "pt"})


def _read_safetensors(content: bytes, folder: Path) -> Iterable[str]:
    from patternmark.models.tensor_file import read_tensors

    file = folder / "x.safetensors"
    file.write_bytes(content)
    for tensor in read_tensors(file).values():
        tensor.sum()
    return []


def _read_folder(content: bytes, folder: Path) -> Iterable[str]:
    """Read the configuration of a network, and the index of its shards."""
    from patternmark.errors import PatternmarkError
    from patternmark.translation.checkpoint import load_model, load_tensors

    (folder / "config.json").write_bytes(content)
    (folder / "model.safetensors.index.json").write_bytes(content)
    (folder / "a.safetensors").write_bytes(_safetensors())
    for load in (lambda: load_model(folder), lambda: load_tensors(folder / "model.safetensors")):
        try:
            load()
        except PatternmarkError as error:
            yield str(error)


def _folders() -> list[bytes]:
    from patternmark.models.cmlm import Config

    index = {"metadata": {"sha256": {"a.safetensors": "0"}}, "weight_map": {"a": "a.safetensors"}}
    return [json.dumps(asdict(Config(**_SIZES))).encode(), json.dumps(_SIZES).encode(),
            json.dumps(index).encode()]  # fmt: skip


_OPCODES = (
    *(b"\x80\x05", b"\x80\x02", b"\x95", b"\x96", b"\x8e", b"\x8d", b"B", b"\x8b", b"\x8a\xff"),
    *(b"R", b"b", b"o", b"i", b"c", b"\x93", b"\x92", b"Q", b"P", b"h", b"r", b"t", b"\x85", b"u"),
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"cargparse\nNamespace\n", b"ctorch\nFloatStorage\n"),
    *(b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n", b"\x00\x00\x00\x80"),
    *(
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"J\xff\xff\xff\xff",
        b"2",
        b"0",
        b"(",
        b".",
        b"PK\x01\x02",
    ),
)
_JSON = (b'"vocab":', b'"width":', b'"never": [9]', b'"weight_map":', b'"a": "../a"',
         b'"F32"', b'"data_offsets":[0,99]', b'"shape":[-1]', b'"dtype":',
         b'"__metadata__":')  # fmt: skip
_WITH_TORCH: dict[str, Any] = {"memory": WITH_TORCH, "needs": ("torch",)}
_OF_TEXT: dict[str, Any] = {"memory": WITH_TORCH, "needs": ("torch", "safetensors", "tokenizers")}

TARGETS = (
    Target("torch-file", _read_torch, torch_files, _OPCODES, _make, share=40, **_WITH_TORCH),
    Target("checkpoint", _read_checkpoints, torch_files, _OPCODES, _make, share=5, **_OF_TEXT),
    Target("safetensors", _read_safetensors, lambda: [_safetensors()], _JSON, share=20, **_OF_TEXT),
    Target("network-folder", _read_folder, _folders, _JSON, share=10, **_OF_TEXT),
)
