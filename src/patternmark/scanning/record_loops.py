"""The loops of a scan, compiled by numba: bytes to counts of letters, counts to statistics.

The number of positions that agree with a two-part key depends only on how often each letter stands
at even and at odd places. It is a sum over the letters of the first part of these differences, of
which there are twenty. So bytes are read once for any number of keys, and a key costs twenty
additions for each segment, for many keys at a time. This is far cheaper than reading every byte
again for every 64 keys.

A segment is a chain of up to two halves (`HALF` residues each). In a longer chain, every two
neighbouring halves are a segment. The size of a half is even, so that places keep their parity.

Buffers are padded with `SLACK` newlines. `read_sequences` is one long function because calls would
cost more than the work.
"""

# mypy: ignore-errors
# ruff: noqa: PLR0912, PLR0915

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from patternmark.scanning.byte_lanes import (
    LANES,
    WORDS,
    add_signed_ones,
    bit_planes,
    copy_letters,
    first_one,
    newlines,
    ones,
)

SLACK = 2 * LANES
HALF = 1024  # residues
AMINO_ACIDS = 20
_SUMS = WORDS  # a multiple of what vector registers hold; the two last entries store other counts

# The kinds of bytes in a sequence, besides the places of letters in the alphabet.
UNKNOWN, SEPARATOR, SKIPPED, BAD = 24, 0, 254, 255

# The columns of `records` and of `segments`.
START, HEAD_END, END, RESIDUES, BAD_AT = 0, 1, 2, 3, 4
RECORD, PLACE, SIZE, SCORED, AT_ODD = 0, 1, 2, 3, 4
RECORD_COLUMNS = SEGMENT_COLUMNS = 5
ROOM = 4100  # segments that must be free before a block of 64 bytes, which gives at most 66

_NEWLINE, _RETURN, _HEADER = 10, 13, 62
_EVERY = uint64(0xFFFFFFFFFFFFFFFF)
_EVEN = uint64(0x5555555555555555)


@njit(cache=True, nogil=True, error_model="numpy")
def read_sequences(raw, at, end, offsets, kinds, places, records, segments, counts):
    """Read whole records raw[at:end]; return how many, their segments, and where reading stopped.

    The records are FASTA or, if there are `offsets`, sequences without headers and lines. Reading
    stops early if there is no room for more segments. `kinds` gives the kind of each byte, `places`
    the amino acid of each letter.
    """
    here, sums = np.zeros(_SUMS, np.uint64), np.zeros(_SUMS, np.int64)
    before = np.zeros(_SUMS, np.int64)  # the half before; the last two: scored, odd
    is_fasta = len(offsets) == 0
    last_record = len(records) if is_fasta else len(offsets) - 1
    number, given = 0, 0
    while number < last_record and (not is_fasta or at < end):
        row = records[number]
        if not is_fasta:
            at = offsets[number]
        row[START], row[BAD_AT] = at, -1
        begun_with = given
        size = scored = odd = place = 0
        has_before, given_of_chain, parity = 0, 0, 0
        sums[:] = 0
        stop = at
        if is_fasta:
            found = newlines(raw, stop)
            while found == 0 and stop < end:
                stop += LANES
                found = newlines(raw, stop)
            stop = min(stop + np.int64(first_one(found)), end)
        row[HEAD_END] = stop
        at = min(stop + 1, end) if is_fasta else stop  # the last header may lack a newline
        limit = end if is_fasta else offsets[number + 1]
        while at < limit:
            if is_fasta and raw[at] == _HEADER and raw[at - 1] == _NEWLINE:
                break
            if given + ROOM > len(segments):
                return number, begun_with, row[START]
            # A block ends with the line, with the half, or after 64 bytes.
            count = min(limit - at, LANES, HALF - size)
            skipped = 0
            if is_fasta:
                found = newlines(raw, at)
                if found:
                    stop = np.int64(first_one(found))
                    if stop <= count:
                        skipped = 1 if stop < limit - at else 0
                        count = stop
                        if count > 0 and raw[at + count - 1] == _RETURN:
                            count -= 1
                            skipped += 1
            if count > 0:
                inside = _EVERY >> uint64(LANES - count)
                p0, p1, p2, p3, p4, _, p6, p7 = bit_planes(raw, at)
                n4, n3, n2, n1, n0 = ~p4 & inside, ~p3, ~p2, ~p1, ~p0
                p4 &= inside
                high0, high1, high2, high3 = n4 & n3, n4 & p3, p4 & n3, p4 & p3
                pair = n2 & n1
                low0, low1 = pair & n0, pair & p0
                pair = n2 & p1
                low2, low3 = pair & n0, pair & p0
                pair = p2 & n1
                low4, low5 = pair & n0, pair & p0
                pair = p2 & p1
                low6, low7 = pair & n0, pair & p0
                even = _EVEN if parity == 0 else ~_EVEN
                here[0] = high0 & low1  # A
                here[1] = high0 & low3  # C
                here[2] = high0 & low4  # D
                here[3] = high0 & low5  # E
                here[4] = high0 & low6  # F
                here[5] = high0 & low7  # G
                here[6] = high1 & low0  # H
                here[7] = high1 & low1  # I
                here[8] = high1 & low3  # K
                here[9] = high1 & low4  # L
                here[10] = high1 & low5  # M
                here[11] = high1 & low6  # N
                here[12] = high2 & low0  # P
                here[13] = high2 & low1  # Q
                here[14] = high2 & low2  # R
                here[15] = high2 & low3  # S
                here[16] = high2 & low4  # T
                here[17] = high2 & low6  # V
                here[18] = high2 & low7  # W
                here[19] = high3 & low1  # Y
                # A letter has the top bits 01 and a place from 1 to 26. If the block has any other
                # byte, its bytes are read one by one.
                if (inside & ~(p6 & ~p7)) | (high0 & low0) | (high3 & (p2 | (p1 & p0))):
                    for i in range(at, at + count):
                        kind = kinds[raw[i]]
                        if kind == BAD:
                            row[BAD_AT] = i if row[BAD_AT] < 0 else row[BAD_AT]
                        elif kind == SEPARATOR:
                            if size > 0 or (has_before and given_of_chain == 0):
                                _write_segment(
                                    segments[given], counts[given], number, place, size, scored,
                                    odd, sums, before, has_before,
                                )  # fmt: skip
                                given += 1
                            place += size
                            size = scored = odd = parity = has_before = given_of_chain = 0
                            sums[:] = 0
                        elif kind != SKIPPED:
                            k = places[kind]
                            if k >= 0:
                                sums[k] += 1 - 2 * parity
                                scored += 1
                                odd += parity
                            size += 1
                            parity ^= 1
                else:
                    known = inside & ~(
                        (high0 & low2)
                        | (high1 & low2)
                        | (high1 & low7)
                        | (high2 & low5)
                        | (high3 & low0)
                        | (high3 & low2)
                    )
                    add_signed_ones(here, even, sums)
                    scored += np.int64(ones(known))
                    odd += np.int64(ones(known & ~even))
                    size += count
                    parity ^= count & 1
                if size == HALF:
                    if has_before:
                        _write_segment(
                            segments[given], counts[given], number, place, size, scored, odd, sums,
                            before, has_before,
                        )  # fmt: skip
                        given += 1
                        given_of_chain += 1
                    before[:] = sums
                    before[_SUMS - 2], before[_SUMS - 1] = scored, odd
                    sums[:] = 0
                    place += size
                    size = scored = odd = 0
                    has_before = 1
            at += count + skipped
        if size > 0 or (has_before and given_of_chain == 0):
            _write_segment(
                segments[given], counts[given], number, place, size, scored, odd, sums, before,
                has_before,
            )  # fmt: skip
            given += 1
        row[RESIDUES], row[END] = place + size, at
        number += 1
    return number, given, at


@njit(cache=True, nogil=True, error_model="numpy")
def _write_segment(segment, counts, record, place, size, scored, odd, sums, before, has_before):
    """Write the segment of this half and the half before, if there is one."""
    segment[RECORD] = record
    segment[PLACE] = place - HALF * has_before
    segment[SIZE] = size + HALF * has_before
    segment[SCORED] = scored + before[_SUMS - 2] * has_before
    segment[AT_ODD] = odd + before[_SUMS - 1] * has_before
    for k in range(AMINO_ACIDS):
        counts[k] = sums[k] + before[k] * has_before


@njit(cache=True, nogil=True, error_model="numpy")
def write_letters(raw, records, segments, kinds, residues, begins, letters):
    """Write the letters of all segments one after the other: 1 to 26, or 0 for unknown residues.

    The letters of segment s are written from begins[s] on. `residues` has room for the longest
    record. Both it and `letters` are padded with `SLACK` bytes.
    """
    record = -1
    for s in range(len(segments)):
        first, size = segments[s, PLACE], segments[s, SIZE]
        if segments[s, RECORD] != record:
            record = segments[s, RECORD]
            if size == records[record, RESIDUES]:  # the only segment of its record
                _write_record(raw, records[record], kinds, letters, begins[s])
                continue
            _write_record(raw, records[record], kinds, residues, 0)
        letters[begins[s] : begins[s] + size] = residues[first : first + size]


@njit(cache=True, nogil=True, error_model="numpy")
def _write_record(raw, row, kinds, residues, number):
    """Write the letters of a record to `residues`, from `number` on."""
    at, end = row[HEAD_END], row[END]
    while at < end:
        count = min(end - at, LANES)
        found = newlines(raw, at)
        if found:
            count = min(count, np.int64(first_one(found)))
        if count > 0:
            others = copy_letters(raw, at, residues, number)
            if others & (_EVERY >> uint64(LANES - count)):
                number = _write_others(raw, at, at + count, kinds, residues, number)
            else:
                number += count
        at += max(count, 1)  # a newline itself is not written


@njit(cache=True, nogil=True, error_model="numpy")
def _write_others(raw, at, end, kinds, residues, number):
    """Write the letters of raw[at:end] byte by byte; return the number after the last residue."""
    for i in range(at, end):
        kind = kinds[raw[i]]
        if kind != SEPARATOR and kind < SKIPPED:
            residues[number] = kind if kind != UNKNOWN else 0
            number += 1
    return number


@njit(cache=True, nogil=True, error_model="numpy")
def screen_keys(segments, counts, parts, limits, passing, tallies, hits):
    """Judge segments by all two-part keys; return how many pairs passed, and the next segment.

    `parts` says which letters are in the first part of each key, [20, K]. With A of n residues in
    agreement, a pair reaches a level of the tally if |2 A - n| reaches its entry of `limits`,
    [n + 1, levels]. It passes at level `passing`. `hits` receives segment, key, and 2 A - n.
    """
    keys = parts.shape[1]
    off = np.zeros(keys, np.int16)
    # Many keys are added up in parallel, a few one after the other.
    few = keys < 16
    of_key = np.ascontiguousarray(parts.T)
    found = 0
    for s in range(len(segments)):
        if found + keys > len(hits):
            return found, s
        scored = segments[s, SCORED]
        start = np.int16(2 * segments[s, AT_ODD] - scored)
        if few:
            for k in range(keys):
                total = 0
                for j in range(AMINO_ACIDS):
                    total += np.int32(counts[s, j]) * np.int32(of_key[k, j])
                off[k] = np.int16(start + 2 * total)
        else:
            for k in range(keys):
                off[k] = start
            for j in range(AMINO_ACIDS):
                twice = np.int16(2 * counts[s, j])
                for k in range(keys):
                    off[k] += np.int16(twice * parts[j, k])
        for level in range(limits.shape[1]):
            limit = limits[scored, level]
            number = 0
            for k in range(keys):
                number += (off[k] >= limit) | (off[k] <= -limit)
            if number == 0:
                break
            tallies[level] += number
            if level == passing:
                for k in range(keys):
                    if off[k] >= limit or off[k] <= -limit:
                        hits[found, 0], hits[found, 1], hits[found, 2] = s, k, off[k]
                        found += 1
    return found, len(segments)
