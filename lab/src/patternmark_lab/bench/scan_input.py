"""The input of scan benchmarks: schemes of keys, and random FASTA that looks like proteins."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper

# Profiles of the keys, by the names of schemes in results.
SCHEMES = {
    "paper": Profile(scheme=Paper()),
    "blocks R=1": Profile(scheme=Blocks(nonces=1)),
    "blocks": Profile(),  # the default of keygen
}
BLOCK_SCHEMES = ("blocks R=1", "blocks")
MEAN_LENGTH = 300
WIDTH = 60  # residues in a line
_SHORTEST = 30  # residues
_LENGTH_SHAPE = 4.0  # of the gamma distribution of lengths, which is like that of natural proteins


def make_fasta(sequences: int, seed: int) -> bytes:
    """Return records of unmarked random sequences, with headers of about 60 bytes."""
    rng = np.random.default_rng(seed)
    lengths = rng.gamma(_LENGTH_SHAPE, MEAN_LENGTH / _LENGTH_SHAPE, size=sequences).astype(np.int64)
    ends = np.cumsum(np.maximum(lengths, _SHORTEST))
    law = np.array(PROTEIN_BACKGROUND, dtype=float)
    bytes_of = np.frombuffer("".join(PROTEIN.letters).encode(), dtype=np.uint8)
    residues = bytes_of[rng.choice(len(law), size=int(ends[-1]), p=law / law.sum())].tobytes()
    lines, begin = [], 0
    for number, end in enumerate(ends.tolist()):
        lines.append(b">made|%08d|BENCH_SCAN protein of a seed, OX=0 PE=5 SV=%d" % (number, seed))
        lines += [residues[at : min(at + WIDTH, end)] for at in range(begin, end, WIDTH)]
        begin = end
    return b"\n".join(lines) + b"\n"


def write_copies(content: bytes, copies: int, file: Path) -> None:
    """Write the records to a file several times."""
    with file.open("wb") as stream:
        for _ in range(copies):
            stream.write(content)


def compress_member(content: bytes) -> bytes:
    """Return a gzip member; several copies of it in a row are also a gzip file."""
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(content) + packer.flush()
