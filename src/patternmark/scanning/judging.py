"""Judge counted segments in two stages.

Pairs of a segment and a key that pass the first stage, and not only because of repeats, are judged
by the detector `auto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.fast.compiled import force_loops
from patternmark.scanning.keyset import LEVELS, KeySet
from patternmark.scanning.segments import Counted, kernels, letters_of
from patternmark.scanning.unrepeated import unrepeated

_RETURN = 13
_HITS_AT_ONCE = 2**16  # pairs that the first stage returns at once, besides those of one segment
_SEGMENTS_AT_ONCE = 2**14  # segments that are screened together
KEPT_LOG10_P = -2.0  # larger p-values cannot become hits, whatever the correction
MAX_NAMED = 100  # skipped parts of a file that are named; the others are only counted


Best = dict[tuple[int, int], dict[str, Any]]  # the hits of records and keys, by their numbers


# The fields of a hit and of a record that was left out, as they are kept in a file.
_SKIPPED = {"id": str, "offset": int, "why": str}
_HIT = {
    **dict.fromkeys(("id", "key_id", "detector"), str),
    **dict.fromkeys(("offset", "length", "scored", "key", "segment_start", "segment_end"), int),
    **dict.fromkeys(("statistic", "log10_p"), float),
}


@dataclass
class Counts:
    """What a scan found in some records."""

    records: int = 0
    residues: int = 0
    segments: int = 0
    passed: int = 0  # pairs of a segment and a key that were judged in full
    tally: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LEVELS, dtype=np.int64))
    hits: list[dict[str, Any]] = field(default_factory=list)
    num_skipped: int = 0
    skipped: list[dict[str, Any]] = field(default_factory=list)  # the first MAX_NAMED

    def add(self, other: Counts) -> None:
        """Add what was found in the records that follow."""
        self.records += other.records
        self.residues += other.residues
        self.segments += other.segments
        self.passed += other.passed
        self.tally += other.tally
        self.hits += other.hits
        self.num_skipped += other.num_skipped
        self.skipped += other.skipped[: max(0, MAX_NAMED - len(self.skipped))]

    def skip(self, name: str, offset: int, why: str) -> None:
        """Note what was left out."""
        self.num_skipped += 1
        if len(self.skipped) < MAX_NAMED:
            self.skipped.append({"id": name, "offset": offset, "why": why})

    def to_table(self) -> dict[str, Any]:
        """Return the counts as a table for JSON."""
        return vars(self) | {"tally": self.tally.tolist()}

    @classmethod
    def of_table(cls, table: dict[str, Any]) -> Counts:
        """Return counts from the table of `to_table`."""
        return cls(**table | {"tally": np.array(table["tally"], dtype=np.int64)})


def is_table(table: object) -> bool:
    """Tell whether a table of a file can be read by `Counts.of_table`."""
    empty = Counts().to_table()
    if not isinstance(table, dict) or set(table) != set(empty):
        return False
    lists = [table["tally"], table["hits"], table["skipped"]]
    if not all(isinstance(one, list) for one in lists) or len(table["tally"]) != LEVELS:
        return False
    numbers = [v for name, v in table.items() if type(empty[name]) is int] + table["tally"]
    if not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        return False
    return all(_has_fields(hit, _HIT) for hit in table["hits"]) and all(
        _has_fields(one, _SKIPPED) for one in table["skipped"]
    )


def _has_fields(row: object, kinds: dict[str, type]) -> bool:
    if not isinstance(row, dict) or set(row) != set(kinds):
        return False
    return all(type(row[name]) is kind for name, kind in kinds.items())


def judge(parts: Iterable[Counted], screen: KeySet, offset: int = 0) -> Counts:
    """Judge all segments by all keys; `offset` is where the buffer begins in its file."""
    found = Counts()
    for part in parts:
        found.add(_judge_part(part, screen, offset))
    return found


def _judge_part(part: Counted, screen: KeySet, offset: int) -> Counts:
    loops = kernels()
    bad = _bad_records(part)
    residues = part.records[:, loops.RESIDUES]
    if len(bad):
        good = ~np.isin(part.segments[:, loops.RECORD], bad)
        part = replace(part, segments=part.segments[good], counts=part.counts[good])
    found = Counts(
        records=len(residues) - len(bad),
        residues=int(residues.sum() - residues[bad].sum()),
        segments=len(part.segments),
    )
    best: Best = {}
    for some in _segment_batches(part):
        passed = first_stage(some, screen, found.tally)
        found.passed += second_stage(some, passed, screen, offset, best)
    found.hits = [best[pair] for pair in sorted(best)]
    for record in bad.tolist():
        found.skip(part.name(record), offset + part.place(record), _problem(part, record))
    return found


def _bad_records(part: Counted) -> NDArray[np.intp]:
    """Return the numbers of records with a byte that is not a letter; its place is in BAD_AT."""
    loops = kernels()
    residues, bad_at = part.records[:, loops.RESIDUES], part.records[:, loops.BAD_AT]
    if part.ids is None and residues.min(initial=1) == 0:
        for record in np.flatnonzero(residues == 0):
            # If lines end with a carriage return alone, the whole record looks like a header.
            start, end = part.records[record, [loops.START, loops.HEAD_END]].tolist()
            bare = np.flatnonzero(part.raw[start : end - 1] == _RETURN)
            if len(bare):
                bad_at[record] = start + bare[0]
    if bad_at.max(initial=-1) < 0:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(bad_at >= 0)


def _segment_batches(part: Counted) -> Iterator[Counted]:
    """Yield some segments at a time, as a long record has many."""
    for first in range(0, len(part.segments), _SEGMENTS_AT_ONCE):
        some = slice(first, first + _SEGMENTS_AT_ONCE)
        yield replace(part, segments=part.segments[some], counts=part.counts[some])


def first_stage(
    part: Counted, screen: KeySet, tally: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield the pairs of a segment and a key that pass the first stage, some at a time: [pairs, 2].

    For each key, pairs come in the order of segments. `tally` is increased by the number of pairs
    whose p-value is at most 10^-1, 10^-2 and so on: [LEVELS].
    """
    if len(screen.two_part):
        for pairs in _two_part_pairs(part, screen, tally):
            yield np.column_stack([pairs[:, 0], screen.two_part[pairs[:, 1]]])
    if screen.blocks and len(part.segments):
        letters, begins = letters_of(part)
        for numbers, group in screen.blocks:
            for pairs in group.each_passing(letters, begins, screen.passing, tally):
                yield np.column_stack([pairs[:, 0], numbers[pairs[:, 1]]])


def _two_part_pairs(
    part: Counted, screen: KeySet, tally: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield the pairs that pass for two-part keys. Key numbers are indices of `screen.two_part`."""
    loops = kernels()
    if screen.gpu is not None:
        scored, at_odd = part.segments[:, loops.SCORED], part.segments[:, loops.AT_ODD]
        yield screen.gpu.passing(scored, at_odd, part.counts, screen.passing - 1, tally)
        return
    hits = np.empty((_HITS_AT_ONCE + len(screen.two_part), 3), dtype=np.int64)
    first = 0
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
        yield hits[:number, :2] + np.array([first, 0])
        first += done


def second_stage(
    part: Counted, passed: Iterable[NDArray[np.int64]], screen: KeySet, offset: int, best: Best
) -> int:
    """Judge pairs that do not pass by repeats alone; return how many. Hits are put into `best`."""
    judged = 0
    for pairs in passed:
        left = unrepeated(part, pairs, screen) if len(pairs) else pairs
        if len(left):
            judged += len(left)
            _judge_pairs(part, left, screen, offset, best)
    return judged


def _judge_pairs(
    part: Counted, pairs: NDArray[np.int64], screen: KeySet, offset: int, best: Best
) -> None:
    """Judge pairs by `auto`. For each record and key, the best segment becomes the hit."""
    loops = kernels()
    passed = np.unique(pairs[:, 0]).tolist()
    text_of = dict(zip(passed, part.texts(passed), strict=True))
    ordered = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    for of_key in np.split(ordered, np.flatnonzero(np.diff(ordered[:, 1])) + 1):
        key, own = int(of_key[0, 1]), of_key[:, 0].tolist()
        # The segments of a long repeat are often identical: each text is judged once.
        different = list(dict.fromkeys(text_of[segment] for segment in own))
        with force_loops(True):  # numba is loaded: a scan needs it
            judged = screen.detector(key).detect_many(different)
        verdicts = dict(zip(different, judged, strict=True))
        for segment in own:
            verdict = verdicts[text_of[segment]]
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


def _problem(part: Counted, record: int) -> str:
    """Say why a record was left out."""
    byte = int(part.raw[part.records[record, kernels().BAD_AT]])
    shown = repr(chr(byte)) if 32 <= byte < 127 else f"byte {byte}"
    if byte == _RETURN:
        shown = "a carriage return without a newline"
    return f"{shown} is not a letter of a protein"
