"""Read torch files without running code from them: zip archives and the older chain of pickles.

A pickle can name any function and call it. This reader never imports such a name. It has its own
functions for the few calls that make tensors. Classes of a few packages (argparse, fairseq,
omegaconf, ...) become bags of attributes, and any other name is an error. A tensor is read from the
file only when it is requested. Sizes that a file claims are compared with its own size before
memory is taken for them.
"""

from __future__ import annotations

import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from patternmark.io.bounded import in_mib
from patternmark.models.tensor_file import CheckpointError

# Packages whose classes become bags. None of their modules is imported.
_AS_BAGS = (
    *("argparse", "fairseq", "fairseq_cli", "omegaconf", "numpy", "collections"),
    *("copyreg", "copy_reg", "_codecs", "datetime", "enum", "pathlib", "typing"),
)
# From these packages, only classes that hold values are allowed.
_OF_BUILTINS = {"object", "set", "frozenset", "bytearray", "complex", "slice", "int", "float"}
_OF_TORCH = {"Size", "device", "dtype"}
_STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # the first numbers of a chain of pickles
_COUNT = struct.Struct("<q")  # the number of elements before each storage of a chain
_PICKLE_BYTES = 2**22  # of a pickle, which has no weights: as objects, 200 times as much memory
_MOST_NAMES = 4  # of one table of weights, which source, target and output may share


class Bag:
    """The attributes of an object of an unknown class, without its methods."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Accept and ignore the arguments of the class."""

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                named = {name: value for name, value in part.items() if isinstance(name, str)}
                self.__dict__.update(named)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Ignore an item of an object that was a mapping."""

    def append(self, item: Any) -> None:
        """Ignore an item of an object that was a list."""


class _Storage(NamedTuple):
    dtype: torch.dtype
    key: str
    start: int  # elements
    size: int


class StoredTensor(NamedTuple):
    """The place of a tensor in its file."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class TorchFile:
    """The `content` of a torch file, with a `StoredTensor` in place of every tensor."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.content: Any = None
        self._places: dict[str, tuple[int, int]] = {}  # first and last byte of each storage
        try:
            with file.open("rb") as stream:
                self._size = stream.seek(0, 2)
                stream.seek(0)
                is_archive = stream.read(4) == b"PK\x03\x04"
                stream.seek(0)
                if is_archive:
                    self._read_archive(stream)
                else:
                    self._read_chain(stream)
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read: {error.strerror or error}") from None
        except CheckpointError:
            raise
        # For damaged files, pickle and zipfile raise many kinds of errors.
        except Exception as error:
            raise CheckpointError(
                f"{file}: not a complete torch file ({type(error).__name__}: {error})"
            ) from None

    def tensor(self, stored: StoredTensor) -> Tensor:
        """Read a tensor from the file."""
        storage, offset, shape, stride = stored
        begin, end = self._places.get(storage.key, (0, 0))
        begin += storage.start * storage.dtype.itemsize
        size = storage.size * storage.dtype.itemsize
        if begin + size > end or math.prod(shape) > storage.size:
            raise CheckpointError(f"{self.file}: a tensor of shape {shape} is incomplete")
        if not math.prod(shape):
            return torch.empty(shape, dtype=storage.dtype)
        try:
            with self.file.open("rb") as stream:
                stream.seek(begin)
                flat = torch.frombuffer(bytearray(stream.read(size)), dtype=storage.dtype)
            return flat.as_strided(shape, stride, offset).clone()
        except (OSError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"{self.file}: a tensor cannot be read: {error}") from None

    def tensors(self, stored: Mapping[str, StoredTensor]) -> Iterator[tuple[str, Tensor]]:
        """Read tensors one after another, with their names. They cannot be larger than the file."""
        size = sum(one.storage.size * one.storage.dtype.itemsize for one in stored.values())
        if size > _MOST_NAMES * self._size:
            raise CheckpointError(f"{self.file}: names more weights than it has")
        for name, one in stored.items():
            yield name, self.tensor(one)

    def _read_archive(self, stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream) as archive:
            members = {info.filename: info for info in archive.infolist()}
            folders = [name.removesuffix("data.pkl") for name in members if _is_content(name)]
            if len(folders) != 1:
                raise CheckpointError(f"{self.file}: this zip archive is not one that torch wrote")
            (folder,) = folders
            if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
                raise CheckpointError(
                    f"{self.file}: the archive is compressed, which torch never does: save the "
                    "model again with torch.save"
                )
            if f"{folder}byteorder" in members:
                with archive.open(f"{folder}byteorder") as member:
                    self._check_order(member.read(8) == b"little")
            with archive.open(f"{folder}data.pkl") as member:
                self.content = _Unpickler(member, self.file).load()
            for name, info in members.items():
                if name.startswith(f"{folder}data/"):
                    begin = _begin_of(stream, info)
                    key = name.removeprefix(f"{folder}data/")
                    self._places[key] = (begin, min(begin + info.file_size, self._size))

    def _read_chain(self, stream: IO[bytes]) -> None:
        if _Unpickler(stream, self.file).load() != _MAGIC:
            raise CheckpointError(f"{self.file}: not a torch file")
        if _Unpickler(stream, self.file).load() != _PROTOCOL:
            raise CheckpointError(f"{self.file}: a torch file of an unknown protocol")
        machine = _Unpickler(stream, self.file).load()
        self._check_order(machine.get("little_endian", True))
        unpickler = _Unpickler(stream, self.file)
        self.content = unpickler.load()
        for key in _Unpickler(stream, self.file).load():
            (count,) = _COUNT.unpack(stream.read(_COUNT.size))
            begin = stream.tell()
            # Every storage in the chain has a tensor, whose type gives its size.
            end = begin + count * unpickler.types[key].itemsize
            if not begin <= end <= self._size:
                raise CheckpointError(f"{self.file}: incomplete or damaged")
            self._places[key] = (begin, end)
            stream.seek(end)

    def _check_order(self, is_little: bool) -> None:
        if not is_little:
            raise CheckpointError(
                f"{self.file}: written on a big-endian machine, which is not supported"
            )


class _Within:
    """A stream for one pickle; a value that claims to be larger than the rest is an error."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, _PICKLE_BYTES

    def read(self, size: int) -> bytes:
        """Read some bytes."""
        self.check(size)
        return self._counted(self._stream.read(size))

    def readline(self) -> bytes:
        """Read a line."""
        return self._counted(self._stream.readline(self._left))

    def check(self, size: int) -> None:
        """Raise an error if a value cannot have this size."""
        if size > self._left:
            raise ValueError(f"a pickle or a value in it has more than {in_mib(_PICKLE_BYTES)}")

    def _counted(self, found: bytes) -> bytes:
        self._left -= len(found)
        return found


def _is_content(name: str) -> bool:
    return name.count("/") == 1 and name.endswith("/data.pkl")


def _begin_of(stream: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return where the bytes of a stored member begin: after its header, name and padding."""
    stream.seek(info.header_offset + 26)
    name, extra = struct.unpack("<HH", stream.read(4))
    return info.header_offset + 30 + int(name) + int(extra)


def _holds_values(module: str, name: str) -> bool:
    """Tell whether a name is of a class that only holds values, so that it can become a bag."""
    package = module.partition(".")[0]
    if package in ("builtins", "__builtin__"):
        return name in _OF_BUILTINS
    if package == "torch":
        return name in _OF_TORCH or isinstance(vars(torch).get(name), torch.dtype)
    return package in _AS_BAGS


# The unpickler in Python. The one in C allocates as much memory as a damaged file claims, which can
# be gigabytes.
class _Unpickler(pickle._Unpickler):
    """An unpickler that calls no functions of the file."""

    def __init__(self, stream: IO[bytes], file: Path) -> None:
        self._stream = _Within(stream)
        super().__init__(self._stream, encoding="utf-8")  # type: ignore[arg-type]
        self._file = file
        self.types: dict[str, torch.dtype] = {}  # the number type of each storage
        # New functions for each file, because a pickle can set attributes of them.
        self._own: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor"): lambda *given: _stored(*given[:4]),
            ("torch._utils", "_rebuild_tensor_v2"): lambda *given: _stored(*given[:4]),
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *rest: tensor,
        }

    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement of a name; nothing is imported."""
        if module in ("torch", "torch.cuda") and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) in self._own:
            return self._own[module, name]
        if not _holds_values(module, name):
            raise CheckpointError(
                f"{self._file}: names {module}.{name}, which no checkpoint of weights needs: "
                "nothing of the file was run or used. If you trust its source, load it with the "
                "software that wrote it and save only its 'model' and 'args'"
            )
        return Bag

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the place of a storage; in a chain of pickles it may be a part of another one."""
        kind, dtype, key, _, size, *view = pid
        # Nothing of the file is turned into text: a small pickle can hold an endless one.
        if kind != "storage" or not isinstance(dtype, torch.dtype) or not isinstance(key, str):
            raise ValueError("not a storage")
        self.types[key] = dtype
        start = 0
        if view and view[0] is not None:
            _, start, size = view[0]
        return _Storage(dtype, key, _whole(start), _whole(size))


def _load_bytearray8(unpickler: _Unpickler) -> None:
    """Read a bytearray without taking the memory that it claims before it is there."""
    (size,) = struct.unpack("<Q", unpickler.read(8))  # type: ignore[attr-defined]
    unpickler.append(bytearray(unpickler.read(size)))  # type: ignore[attr-defined]


_Unpickler.dispatch = pickle._Unpickler.dispatch | {pickle.BYTEARRAY8[0]: _load_bytearray8}  # type: ignore[attr-defined]


def _stored(storage: Any, offset: Any, shape: Any, stride: Any) -> StoredTensor:
    if not isinstance(storage, _Storage):
        raise ValueError("a tensor without a storage")
    return StoredTensor(
        storage, _whole(offset), tuple(map(_whole, shape)), tuple(map(_whole, stride))
    )


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError("a size is not a whole number")
    return number
