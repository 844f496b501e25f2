"""Both stages on counted segments: what passes the first is judged by `auto`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.scan.reading import Counted, kernels, letters_of
from patternmark.scan.screen import LEVELS, Screen

_RETURN = 13
_PAIRS = 2**16  # that may pass at once, besides those of one segment
KEPT_LOG10_P = -2.0  # p-values above this are of no use to any correction


@dataclass
class Found:
    """What a scan found in some records; two of them add up."""

    records: int = 0
    residues: int = 0
    segments: int = 0
    passed: int = 0  # pairs of a segment and a key that were judged in full
    tally: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LEVELS, dtype=np.int64))
    hits: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Take in what was found in the records that follow."""
        self.records += other.records
        self.residues += other.residues
        self.segments += other.segments
        self.passed += other.passed
        self.tally += other.tally
        self.hits += other.hits
        self.skipped += other.skipped

    def to_table(self) -> dict[str, Any]:
        """Return it for JSON."""
        return vars(self) | {"tally": self.tally.tolist()}

    @classmethod
    def of_table(cls, table: dict[str, Any]) -> Found:
        """Return what `to_table` gave."""
        return cls(**table | {"tally": np.array(table["tally"], dtype=np.int64)})


def judge(parts: Iterable[Counted], screen: Screen, offset: int = 0) -> Found:
    """Judge all segments by all keys; `offset` is where the buffer begins in its file."""
    found = Found()
    for part in parts:
        found.add(_judge(part, screen, offset))
    return found


def _judge(part: Counted, screen: Screen, offset: int) -> Found:
    loops = kernels()
    bad = part.records[:, loops.BAD_AT] >= 0
    for record in np.flatnonzero(part.records[:, loops.RESIDUES] == 0) if part.ids is None else ():
        # Where lines end with a carriage return alone, all is header.
        start, end = part.records[record, [loops.START, loops.HEAD_END]].tolist()
        bare = np.flatnonzero(part.raw[start : end - 1] == _RETURN)
        if len(bare):
            part.records[record, loops.BAD_AT] = start + bare[0]
            bad[record] = True
    if bad.any():
        good = ~bad[part.segments[:, loops.RECORD]]
        part = replace(part, segments=part.segments[good], counts=part.counts[good])
    tally = np.zeros(LEVELS, dtype=np.int64)
    pairs = first_stage(part, screen, tally)
    return Found(
        records=int(len(bad) - bad.sum()),
        residues=int(part.records[~bad, loops.RESIDUES].sum()),
        segments=len(part.segments),
        passed=len(pairs),
        tally=tally,
        hits=_judged(part, pairs, screen, offset),
        skipped=[_problem(part, int(record), offset) for record in np.flatnonzero(bad)],
    )


def first_stage(part: Counted, screen: Screen, tally: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of a segment and a key that pass the first stage: [pairs, 2].

    To `tally` it adds how many pairs are at most 10^-1, 10^-2 and so on: [LEVELS].
    """
    found = [np.zeros((0, 2), dtype=np.int64)]
    if len(screen.two_part):
        pairs = _two_part(part, screen, tally)
        found.append(np.column_stack([pairs[:, 0], screen.two_part[pairs[:, 1]]]))
    if screen.hardened and len(part.segments):
        letters, begins = letters_of(part)
        for numbers, group in screen.hardened:
            pairs = group.passing(letters, begins, screen.passing, tally)
            found.append(np.column_stack([pairs[:, 0], numbers[pairs[:, 1]]]))
    return np.concatenate(found)


def _two_part(part: Counted, screen: Screen, tally: NDArray[np.int64]) -> NDArray[np.int64]:
    """Do so for keys of two parts, by their numbers among these."""
    loops = kernels()
    if screen.gpu is not None:
        scored, at_odd = part.segments[:, loops.SCORED], part.segments[:, loops.AT_ODD]
        return screen.gpu.passing(scored, at_odd, part.counts, screen.passing - 1, tally)
    hits = np.empty((_PAIRS + len(screen.two_part), 3), dtype=np.int64)
    first, found = 0, []
    while first < len(part.segments):
        number, done = loops.screen_keys(
            part.segments[first:],
            part.counts[first:],
            screen.parts,
            screen.limits,
            screen.passing - 1,
            tally,
            hits,
        )
        found.append(hits[:number, :2] + [first, 0])
        first += done
    return np.concatenate(found) if found else np.zeros((0, 2), dtype=np.int64)


def _judged(
    part: Counted, pairs: NDArray[np.int64], screen: Screen, offset: int
) -> list[dict[str, Any]]:
    """Judge pairs by `auto`; of a record and a key the best segment is a hit."""
    best: dict[tuple[int, int], dict[str, Any]] = {}
    loops = kernels()
    for key in np.unique(pairs[:, 1]).tolist():
        own = sorted(pairs[pairs[:, 1] == key, 0].tolist())
        verdicts = screen.detector(key).detect_many(part.texts(own))
        for segment, verdict in zip(own, verdicts, strict=True):
            if verdict.log10_p > KEPT_LOG10_P:
                continue
            record, place, size = part.segments[segment, : loops.SCORED].tolist()
            low, high = verdict.segment or (0, size)
            row = {
                "id": part.name(record),
                "offset": offset + part.place(record),
                "length": int(part.records[record, loops.RESIDUES]),
                "scored": verdict.num_tokens_scored,
                "key": key,
                "key_id": verdict.key_id,
                "detector": verdict.detector,
                "statistic": float(verdict.statistic),
                "log10_p": verdict.log10_p,
                "segment_start": place + low,
                "segment_end": place + high,
            }
            before = best.get((record, key))
            if before is None or row["log10_p"] < before["log10_p"]:
                best[record, key] = row
    return [best[pair] for pair in sorted(best)]


def _problem(part: Counted, record: int, offset: int) -> dict[str, Any]:
    loops = kernels()
    at = int(part.records[record, loops.BAD_AT])
    byte = int(part.raw[at])
    shown = repr(chr(byte)) if 32 <= byte < 127 else f"byte {byte}"
    if byte == _RETURN:
        shown = "a carriage return without a newline"
    return {
        "id": part.name(record),
        "offset": offset + part.place(record),
        "why": f"{shown} is no letter of a protein",
    }
