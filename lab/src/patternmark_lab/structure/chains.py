"""Read chains with their secondary structure, cluster them, and divide them for training and test.

The data is a table with the columns id, sequence and DSSP, separated by tabs (.xz too). A
**prepared** table has two more columns, family and part (train, valid, test), and holds only one
of several near-identical chains. `prepare` makes it once, because that takes many minutes.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import InputError, PatternmarkError
from patternmark.io.files import put_in_place
from patternmark.quality.states import STATES

PARTS = ("train", "valid", "test")

_HELD_OUT = {"test": 0.04, "valid": 0.01}  # share of all chains
_LARGEST_HELD_OUT = 20  # chains; larger families are always in the part train


@dataclass(frozen=True)
class Chain:
    """One chain; only a prepared table has `family` and `part`."""

    id: str
    sequence: str
    dssp: str
    family: int = -1
    part: str = ""


def read_chains(file: Path) -> list[Chain]:
    """Read a table, prepared or not."""
    chains: list[Chain] = []
    try:
        with (
            lzma.open(file, "rt", encoding="ascii")
            if file.suffix == ".xz"
            else file.open(encoding="ascii")
        ) as stream:
            for number, line in enumerate(stream, start=1):
                chains.append(_parse(line.rstrip("\r\n"), f"{file}: line {number}"))
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file}: cannot be read: {reason}") from None
    if not chains:
        raise InputError(f"{file}: the file is empty")
    if len({bool(chain.part) for chain in chains}) > 1:
        raise InputError(
            f"{file}: some lines have a family and a part, but others do not: prepare the table "
            "again"
        )
    return chains


def _parse(line: str, place: str) -> Chain:
    fields = line.split("\t")
    if len(fields) not in (3, 5):
        raise InputError(
            f"{place}: expected id, sequence and DSSP (and family and part), separated by tabs"
        )
    if len(fields[1]) != len(fields[2]):
        raise InputError(f"{place}: {fields[0]}: sequence and DSSP have different lengths")
    strange = set(fields[2]) - set(STATES)
    if strange:
        raise InputError(
            f"{place}: {fields[0]}: {min(strange)!r} is not a state of DSSP ({STATES})"
        )
    if len(fields) == 3:
        return Chain(fields[0], fields[1], fields[2])
    if not fields[3].isdecimal() or fields[4] not in PARTS:
        raise InputError(
            f"{place}: {fields[0]}: expected a family number and a part ({', '.join(PARTS)})"
        )
    return Chain(fields[0], fields[1], fields[2], int(fields[3]), fields[4])


def write_chains(file: Path, chains: Sequence[Chain]) -> None:
    """Write a prepared table; .xz compresses it."""
    rows = (f"{c.id}\t{c.sequence}\t{c.dssp}\t{c.family}\t{c.part}\n" for c in chains)
    content = "".join(rows).encode("ascii")
    packed = lzma.compress(content, preset=9) if file.suffix == ".xz" else content
    put_in_place(file, lambda path: path.write_bytes(packed))


def prepare(
    chains: Sequence[Chain],
    exclude: Sequence[str] = (),
    report: Callable[[str], object] = lambda text: None,
) -> list[Chain]:
    """Drop near-duplicates, divide families into parts, and drop related training chains.

    A family is in one part only. Families of up to 20 chains are held out in the order of a hash
    of their first chain's id, until the part test has 4 % of the chains and valid has 1 %. Then
    training chains are dropped if they are related to a held-out chain or to a sequence of
    `exclude`, by the lower score `similar.RELATIVE_SCORE`.
    """
    try:
        from patternmark_lab.structure.similar import duplicates, families, have_relatives  # noqa: PLC0415
    except ImportError:
        raise PatternmarkError(
            "clustering chains needs numba: pip install 'patternmark[fast]'"
        ) from None
    nearly = duplicates([chain.sequence for chain in chains])
    kept = [chain for i, chain in enumerate(chains) if nearly[i] == i]
    report(f"{len(kept):,} of {len(chains):,} chains remain without near-duplicates")
    family = families([chain.sequence for chain in kept])
    part = _parts(kept, family)
    largest = np.bincount(family)[:5].tolist()
    report(f"{family.max() + 1:,} families; the largest have {largest} chains")
    found = [
        Chain(c.id, c.sequence, c.dssp, int(f), p)
        for c, f, p in zip(kept, family, part, strict=True)
    ]
    held_out = [chain.sequence for chain in found if chain.part != "train"]
    learned = [i for i, chain in enumerate(found) if chain.part == "train"]
    related = have_relatives([found[i].sequence for i in learned], [*held_out, *exclude])
    dropped = {i for i, is_related in zip(learned, related, strict=True) if is_related}
    report(f"{len(dropped):,} training chains are dropped: they are related to held-out chains")
    return [chain for i, chain in enumerate(found) if i not in dropped]


def _parts(chains: Sequence[Chain], family: NDArray[np.int64]) -> list[str]:
    sizes = np.bincount(family)
    first = {int(f): i for i, f in reversed(list(enumerate(family)))}
    ranked = sorted(first, key=lambda f: hashlib.sha256(chains[first[f]].id.encode()).digest())
    part_of = dict.fromkeys(first, "train")
    candidates = iter(f for f in ranked if sizes[f] <= _LARGEST_HELD_OUT)
    for part, share in _HELD_OUT.items():
        filled = 0
        while filled < share * len(chains) and (chosen := next(candidates, None)) is not None:
            part_of[chosen] = part
            filled += int(sizes[chosen])
    return [part_of[int(f)] for f in family]
