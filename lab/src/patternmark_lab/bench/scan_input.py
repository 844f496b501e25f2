"""What scans are measured on: kinds of keys, and FASTA that looks like proteins, by a seed."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper

# The keys that scans are measured with, by the names of schemes in results.
SCHEMES = {
    "paper": Profile(scheme=Paper()),
    "blocks R=1": Profile(scheme=Blocks(nonces=1)),
    "blocks": Profile(),  # what keygen makes
}
BLOCK_SCHEMES = ("blocks R=1", "blocks")
MEAN_LENGTH = 300
WIDTH = 60  # residues of a line
_SHORTEST = 30
_SPREAD = 4.0  # shape of the gamma law of lengths: as uneven as those of natural proteins


def made_fasta(sequences: int, seed: int) -> bytes:
    """Return so many records of unmarked sequences, with headers of about 60 bytes."""
    rng = np.random.default_rng(seed)
    lengths = rng.gamma(_SPREAD, MEAN_LENGTH / _SPREAD, size=sequences).astype(np.int64)
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
    """Write the records several times over."""
    with file.open("wb") as stream:
        for _ in range(copies):
            stream.write(content)


def gzipped(content: bytes) -> bytes:
    """Return a member of gzip; copies of it, one after the other, are a file of gzip too."""
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(content) + packer.flush()
