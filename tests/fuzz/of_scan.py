"""The block reader of `scan`, with pieces so small that every input has several."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

from tests.fuzz.mutations import Mutator
from tests.fuzz.of_records import LETTERS, examples
from tests.fuzz.targets import Target

_SIZES = {"PIECE": 200, "STREAM_READ": 64, "OVERHANG_READ": 32, "LONGEST_RECORD": 3000,
          "GZIP_READ": 50, "ZSTD_READ": 50}  # fmt: skip
_GOOD = re.compile(rb"(?:\A|\n)>(good-\d{1,9})\n[A-Z]{22}\n(?=>|\Z)")
_FASTQ = "".join(f"@read-{i}\n{LETTERS[:12]}\n+\n{'I' * 12}\n" for i in range(20)).encode()


@contextmanager
def _small_pieces() -> Iterator[None]:
    from patternmark.scanning import sizes

    before = {name: getattr(sizes, name) for name in _SIZES}
    try:
        for name, size in _SIZES.items():
            setattr(sizes, name, size)
        yield
    finally:
        for name, size in before.items():
            setattr(sizes, name, size)


def _read(name: str, content: bytes, folder: Path) -> Iterable[str]:
    from patternmark.scanning import record_loops as loops
    from patternmark.scanning.file_scan import digest_of
    from patternmark.scanning.sources import pieces

    path = folder / name
    path.write_bytes(content)
    said, found = [], set()
    with _small_pieces():
        for number, piece in enumerate(pieces(str(path))):
            assert piece.number == number
            loaded = piece.load()
            for part in loaded.counted():
                for record in range(len(part.records)):
                    residues = int(part.records[record, loops.RESIDUES])
                    found.add((loaded.begin + part.place(record), part.name(record), residues))
                assert sum(map(len, part.texts(range(len(part.segments))))) >= 0
            said += [loaded.problem] if loaded.problem else []
            digest_of(loaded)
            loaded.release()
    if not content.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"@", b"PAR1", b"ARROW1")):
        for match in _GOOD.finditer(content):
            at = match.start(1) - 1
            assert (at, match[1].decode(), 22) in found, f"lost {match[1].decode()} at {at}"
    return said


def _packed() -> list[bytes]:
    import zstandard

    whole = examples("fasta")[0]
    return [
        gzip.compress(whole, mtime=0),
        gzip.compress(whole[:300], mtime=0) + gzip.compress(whole[300:], mtime=0) + bytes(20),
        zstandard.compress(whole),
        b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstandard.compress(whole[:300]),
        gzip.compress(_FASTQ, mtime=0),
    ]


def _make_packed(mutator: Mutator, chance: Random) -> bytes:
    if chance.random() < 0.5:
        return mutator.make(chance)
    return gzip.compress(Mutator([*examples("fasta"), _FASTQ]).make(chance), 1, mtime=0)


def _read_columns(content: bytes, folder: Path) -> Iterable[str]:
    """Read Parquet and Arrow."""
    return _read("x.parquet", content, folder)


def _columns() -> list[bytes]:
    import pyarrow as arrow
    from pyarrow import feather, parquet

    table = arrow.table({"id": ["a", None, "c"], "sequence": [LETTERS, "", None]})
    made = []
    for write in (parquet.write_table, partial(feather.write_feather, compression="uncompressed")):
        stream = arrow.BufferOutputStream()
        write(table, stream)
        made.append(stream.getvalue().to_pybytes())
    return made


_NEEDS = ("numba", "pyarrow", "isal", "zstandard", "xxhash")

TARGETS = (
    Target("scan-fasta", partial(_read, "x.fa"), lambda: examples("fasta"),
           (b"\n>", b">good-1\n", b"\r\n"), share=40, needs=_NEEDS),
    Target("scan-fastq", partial(_read, "x.fq"), lambda: [_FASTQ],
           (b"\n@", b"\n+\n", b"\r\n"), share=20, needs=_NEEDS),
    Target("scan-packed", partial(_read, "x.fa.gz"), _packed,
           (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", bytes(30)), _make_packed, share=20, needs=_NEEDS),
    Target("scan-columns", _read_columns, _columns, (b"PAR1", b"ARROW1"), share=10, needs=_NEEDS),
)  # fmt: skip
