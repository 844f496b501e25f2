"""Find the files of structures, name designs after them, and read their text within limits."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable
from pathlib import Path

from patternmark.errors import InputError
from patternmark.io.bounded import TooLargeError, in_mib, read_bytes
from patternmark.io.first_bytes import BYTE_ORDER_MARK, GZIP_MAGIC
from patternmark.io.shown import printable

_SUFFIXES = (".pdb", ".cif", ".ent", ".mmcif")
_MOST_BYTES = 2**28  # of a structure, unpacked: the largest entries of the PDB have 250 MB
# In the header of a design these end a fact, so a name must not have them.
_ENDS_A_FACT = str.maketrans(",=", "__")
_ASCII = bytes(byte if byte < 128 else ord("?") for byte in range(256))  # columns stay in place


def find_structures(paths: Iterable[str | Path]) -> list[Path]:
    """Return the given files and the structure files directly in given folders, sorted by name."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            try:
                inside = [p for p in path.iterdir() if _is_structure_name(p.name) and p.is_file()]
            except OSError as error:
                raise InputError(f"{path}: cannot be read: {error.strerror}") from None
            if not inside:
                kinds = ", ".join(f"*{suffix}" for suffix in _SUFFIXES)
                raise InputError(f"{path}: the folder has no structure ({kinds}, each also .gz)")
            found += sorted(inside)
        elif path.exists():
            found.append(path)
        else:
            raise InputError(f"{path}: no such file or folder")
    return found


def structure_name(path: Path) -> str:
    r"""Return the name of designs on a file: the name of the file without its suffixes.

    It begins a FASTA header, in which it must not write a fact or a line of its own.

    >>> structure_name(Path("1abc.pdb.gz")), structure_name(Path("a, sample=1\n>b.cif"))
    ('1abc', 'a_ sample_1?>b')
    """
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    name = path.stem if path.suffix.lower() in _SUFFIXES else path.name
    return printable(name).translate(_ENDS_A_FACT).strip() or "structure"


def _is_structure_name(name: str) -> bool:
    hidden = name.startswith(".")  # such as "._x.pdb", which some systems make beside "x.pdb"
    return not hidden and name.lower().removesuffix(".gz").endswith(_SUFFIXES)


def read_structure_bytes(path: Path) -> bytes:
    """Read a file, decompressed if it is gzipped; raise an error if it is not text."""
    try:
        content = read_bytes(path, _MOST_BYTES)
        if content.startswith(GZIP_MAGIC):
            content = _unpacked(content)
        elif content and path.name.lower().endswith(".gz"):
            raise InputError(f"{path}: not gzipped, although its name ends with .gz: rename it")
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(f"{path}: the gzip data is damaged or ends early; get it again") from None
    except TooLargeError:
        raise InputError(
            f"{path}: has more than {in_mib(_MOST_BYTES)}, which no structure has: give one "
            "structure in each file"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if b"\0" in content:
        raise InputError(f"{path}: this is a binary file; give PDB or mmCIF")
    if not content or content.isspace():
        raise InputError(f"{path}: the file is empty; get it again")
    content = content.removeprefix(BYTE_ORDER_MARK).translate(_ASCII)
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _unpacked(content: bytes) -> bytes:
    """Decompress a file; stop at the limit, because a small file can unpack to any size."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        found = stream.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise TooLargeError
    return found
