"""What the compiled reader of a scan must give, by plain loops over bytes, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
HALF = 1024
UNKNOWN = b"XxBbZzJjUuOo*-.~?"
SEPARATORS = b"/:"
SKIPPED = b" \t\r\n\v\f"


@dataclass
class Segment:
    record: int
    place: int  # of its first residue in the record
    letters: str
    scored: int = 0
    at_odd: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * len(AMINO_ACIDS))

    def __post_init__(self) -> None:
        for place, letter in enumerate(self.letters.upper()):
            if letter in AMINO_ACIDS:
                self.scored += 1
                self.at_odd += place % 2
                self.counts[AMINO_ACIDS.index(letter)] += -1 if place % 2 else 1


@dataclass
class Record:
    start: int
    head_end: int
    end: int
    residues: int
    bad_at: int
    name: str


@dataclass
class Read:
    records: list[Record] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)


def read_fasta(content: bytes) -> Read:
    """Read records; the first line is a header, whatever it begins with."""
    if not content:
        return Read()
    starts = [0]
    starts += [i + 1 for i in range(len(content) - 1) if content[i : i + 2] == b"\n>"]
    read = Read()
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        head_end = content.find(b"\n", start, end)
        head_end = end if head_end < 0 else head_end
        words = content[start + 1 : head_end].split()
        name = words[0].decode("utf-8", "replace") if words else ""
        _add(read, content, start, head_end, end, name)
    return read


def read_column(sequences: list[bytes]) -> Read:
    content, read, start = b"".join(sequences), Read(), 0
    for number, sequence in enumerate(sequences):
        _add(read, content, start, start, start + len(sequence), str(number))
        start += len(sequence)
    return read


def _add(read: Read, content: bytes, start: int, head_end: int, end: int, name: str) -> None:
    chains, bad_at = [""], -1
    for i in range(head_end, end):
        byte = content[i : i + 1]
        if byte in SKIPPED:
            continue
        if byte in SEPARATORS:
            chains.append("")
        elif byte in UNKNOWN or byte.upper().decode("latin-1") in AMINO_ACIDS:
            chains[-1] += byte.decode("ascii")
        elif bad_at < 0:
            bad_at = i
    place = 0
    for chain in chains:
        for first in segment_starts(len(chain)):
            letters = chain[first : first + 2 * HALF]
            read.segments.append(Segment(len(read.records), place + first, letters))
        place += len(chain)
    read.records.append(Record(start, head_end, end, place, bad_at, name))


def segment_starts(size: int) -> list[int]:
    """Return where the segments of a chain begin: each holds two halves, and shares one."""
    if size <= 2 * HALF:
        return [0] if size else []
    return list(range(0, size - HALF, HALF))
