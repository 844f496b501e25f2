from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from patternmark.models.tensor_file import CheckpointError
from patternmark.models.torch_file import Bag, StoredTensor, TorchFile
from tests.translation.published_checkpoints import mask_predict_state, write_checkpoint

FORMATS = pytest.mark.parametrize("old_format", [True, False])


def save(content: Any, file: Path, old_format: bool) -> Path:
    torch.save(content, file, _use_new_zipfile_serialization=not old_format)
    return file


@FORMATS
def test_tensors_come_back_as_they_were(tmp_path: Path, old_format: bool) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    content = {
        "float": base,
        "half": base.half(),
        "double": base.double(),
        "bfloat": base.bfloat16(),
        "long": torch.tensor([2**40, -1]),
        "int": torch.tensor([[1, -2]], dtype=torch.int32),
        "bytes": torch.tensor([1, 255], dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
        "view": base[1:, ::2],
        "turned": base.T,
        "number": torch.tensor(7.0),
        "none": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(base + 1),
    }
    read = TorchFile(save(OrderedDict(content), tmp_path / "a.pt", old_format))
    assert list(read.content) == list(content)
    for name, wanted in content.items():
        found = read.tensor(read.content[name])
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted.detach())


@FORMATS
def test_classes_of_others_become_bags(tmp_path: Path, old_format: bool) -> None:
    file = write_checkpoint(
        tmp_path / "a.pt", mask_predict_state(), old_format=old_format, arch="x", lr=[0.5]
    )
    assert "fairseq" not in sys.modules
    content = TorchFile(file).content
    assert type(content["args"]) is Bag
    assert (content["args"].arch, content["args"].lr) == ("x", [0.5])
    assert content["extra_state"]["train_meters"]["train_loss"].avg == 4.5
    assert isinstance(content["last_optimizer_state"]["state"][0]["exp_avg"], StoredTensor)
    assert "fairseq" not in sys.modules


@FORMATS
def test_numbers_of_numpy_do_no_harm(tmp_path: Path, old_format: bool) -> None:
    content = {"best": np.float64(3.5), "seen": np.arange(3), "at": torch.device("cpu"), "b": b"x"}
    content |= {"dtype": torch.float16, "shape": torch.Size([2]), "some": {1, 2}}
    read = TorchFile(save(content | {"one": 1}, tmp_path / "a.pt", old_format))
    assert read.content["one"] == 1


class Call:
    """Pickles as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self._call


@FORMATS
@pytest.mark.parametrize("inside", ["args", "extra_state", "whole"])
@pytest.mark.parametrize("name", ["system", "eval", "exec", "getattr", "open", "load", "import"])
def test_nothing_in_a_file_is_run(tmp_path: Path, old_format: bool, inside: str, name: str) -> None:
    sign = tmp_path / "sign"
    call = {
        "system": Call(os.system, f"touch {sign}"),
        "eval": Call(eval, f"open({str(sign)!r}, 'w')"),
        "exec": Call(exec, f"open({str(sign)!r}, 'w')"),
        "getattr": Call(getattr, Path(sign), "touch"),
        "open": Call(open, str(sign), "w"),
        "load": Call(torch.load, str(sign)),
        "import": Call(__import__, "this"),
    }[name]
    arguments = argparse.Namespace(arch=call)
    content = {"args": arguments if inside == "args" else None, "extra_state": [call]}
    file = save(call if inside == "whole" else content, tmp_path / "a.pt", old_format)
    with pytest.raises(CheckpointError, match=r"names \S+, which no checkpoint .*nothing"):
        TorchFile(file)
    assert not sign.exists()
    assert "this" not in sys.modules


def test_a_pickle_cannot_change_what_reads_it(tmp_path: Path) -> None:
    # BUILD on what GLOBAL gives: the reader's own classes and functions must stay as they are.
    before = dict(vars(Bag))
    for module, name in (
        (b"argparse", b"Namespace"),
        (b"collections", b"OrderedDict"),
        (b"torch._utils", b"_rebuild_tensor_v2"),
        (b"torch", b"FloatStorage"),
    ):
        for state in (b"}U\x03abcK\x01s", b"N}U\x03abcK\x01s\x86"):  # a state; none and slots
            data = b"\x80\x02c" + module + b"\n" + name + b"\n" + state + b"b."
            file = tmp_path / "a.pt"
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("archive/data.pkl", data)
            with contextlib.suppress(CheckpointError):
                TorchFile(file)
    assert dict(vars(Bag)) == before
    assert not hasattr(OrderedDict, "abc")
    assert not hasattr(torch._utils._rebuild_tensor_v2, "abc")


def _problem(file: Path) -> str | None:
    """Read all weights of a file; return what the reader says is wrong with it."""
    try:
        read = TorchFile(file)
        weights = read.content.get("model") if isinstance(read.content, dict) else None
        for entry in weights.values() if isinstance(weights, dict) else ():
            if isinstance(entry, StoredTensor):
                read.tensor(entry)
    except CheckpointError as error:
        return str(error)
    return None


@FORMATS
def test_damage_is_an_error_of_ours_or_harmless(tmp_path: Path, old_format: bool) -> None:
    whole = tmp_path / "whole.pt"
    write_checkpoint(whole, mask_predict_state(), dtype=torch.float16, old_format=old_format)
    content = whole.read_bytes()
    file = tmp_path / "a.pt"
    rng = np.random.default_rng(4)
    passed = cut_and_passed = 0
    for number in range(150):
        damaged = bytearray(content)
        if number % 2:
            del damaged[int(rng.integers(len(content))) :]
        else:
            # The pickle stands first in both formats.
            place = rng.integers(min(len(content), 20_000), size=3)
            damaged[place[0]] = int(rng.integers(256))
            damaged[place[1]] = int(rng.integers(256))
        file.write_bytes(damaged)
        problem = _problem(file)
        assert problem is None or str(file) in problem
        passed += problem is None
        cut_and_passed += problem is None and number % 2
    assert cut_and_passed == 0
    assert 0 < passed < 75


def test_a_tensor_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    read = TorchFile(save({"a": torch.zeros(4)}, tmp_path / "a.pt", old_format=False))
    stored = read.content["a"]
    for wrong in (
        stored._replace(shape=(10**12,), stride=(0,)),
        stored._replace(offset=2),
        stored._replace(storage=stored.storage._replace(size=5)),
        stored._replace(storage=stored.storage._replace(key="9")),
    ):
        with pytest.raises(CheckpointError):
            read.tensor(wrong)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "not a complete torch"), (b"text\n", "torch file"), (pickle.dumps(3), "not a torch")],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "a.pt"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=says):
        TorchFile(file)


def test_other_archives_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.pt"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/readme", "x")
    with pytest.raises(CheckpointError, match="not one that torch wrote"):
        TorchFile(file)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}))
    with pytest.raises(CheckpointError, match="compressed"):
        TorchFile(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}))
        archive.writestr("a/byteorder", "big")
    with pytest.raises(CheckpointError, match="big-endian"):
        TorchFile(file)
    with pytest.raises(CheckpointError, match="cannot be read"):
        TorchFile(tmp_path / "nowhere.pt")


CLAIMS = {
    "bytearray": b"\x96" + struct.pack("<Q", 2**32),
    "bytes": b"\x8e" + struct.pack("<Q", 2**32),
    "text": b"\x8d" + struct.pack("<Q", 2**32),
    "number": b"\x8b" + struct.pack("<i", 2**31 - 1),
    "frame": b"\x95" + struct.pack("<Q", 2**32),
    "many sets": b"\x8f" * 2**25,
}
PEAK = """
import resource, sys
from pathlib import Path
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.tensor_file import CheckpointError
from patternmark.models.torch_file import TorchFile
from patternmark.errors import PatternmarkError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    for read in (TorchFile, ProteinMPNN.load):
        try:
            read(Path(name))
        except PatternmarkError as error:
            print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [list(CLAIMS)[:-1], list(CLAIMS)[-1:]], ids=["sizes", "many"])
def test_no_memory_is_taken_for_what_a_file_claims(kinds: list[str], tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="not on Windows")
    files = []
    for kind in kinds:
        pickled = b"\x80\x05" + CLAIMS[kind] + b"."
        files += [tmp_path / f"{kind}.pt", tmp_path / f"{kind} in zip.pt"]
        files[-2].write_bytes(pickled)
        with zipfile.ZipFile(files[-1], "w") as archive:
            archive.writestr("a/data.pkl", pickled)
    found = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, files)], check=True, capture_output=True, text=True
    )
    *said, megabytes = found.stdout.splitlines()
    named = [str(file) for file in files for _ in range(2)]
    assert all(line.startswith(name) for line, name in zip(said, named, strict=True))
    assert int(megabytes) < (200 if len(kinds) > 1 else 1_200)


def test_what_a_pickle_repeats_is_not_written_out(tmp_path: Path) -> None:
    # A tuple of a tuple twice, 40 times: as text it has 2^40 parts.
    nested = b")" + b"2\x86" * 40
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n" + b"(N" + nested + b"tR"
    for content in (tensor, nested + b"Q"):
        with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
            archive.writestr("a/data.pkl", b"\x80\x05" + content + b".")
        with pytest.raises(CheckpointError):
            TorchFile(tmp_path / "a.pt")


def test_tensors_cannot_be_larger_than_their_file(tmp_path: Path) -> None:
    table = torch.zeros(10_000)
    names = {f"t{number}": table for number in range(20)}
    read = TorchFile(save(names, tmp_path / "a.pt", old_format=False))
    some = dict(list(read.content.items())[:3])
    assert [name for name, _ in read.tensors(some)] == ["t0", "t1", "t2"]
    with pytest.raises(CheckpointError, match="names more weights than it has"):
        list(read.tensors(read.content))
