"""Plain passes over FASTA, compiled by numba, with which scans are compared."""

# mypy: ignore-errors

from __future__ import annotations

from numba import njit, uint64

from patternmark.scanning.byte_lanes import LANES, first_one, newlines

_NEWLINE, _HEADER = 10, 62


@njit(cache=True, nogil=True, error_model="numpy")
def boundaries(raw, size, offsets):
    """Find the start of each record, byte by byte; return the number of records."""
    number = 0
    if size > 0 and raw[0] == _HEADER:
        offsets[0] = 0
        number = 1
    for i in range(1, size):
        if raw[i] == _HEADER and raw[i - 1] == _NEWLINE:
            offsets[number] = i
            number += 1
    return number


@njit(cache=True, nogil=True, error_model="numpy")
def boundaries_by_lanes(raw, size, offsets):
    """As `boundaries`, but with the vector instructions of the scan itself, 64 bytes at once."""
    number = 0
    if size > 0 and raw[0] == _HEADER:
        offsets[0] = 0
        number = 1
    for at in range(0, size, LANES):
        found = newlines(raw, at)
        while found:
            i = at + int(first_one(found)) + 1
            if i < size and raw[i] == _HEADER:
                offsets[number] = i
                number += 1
            found &= found - uint64(1)
    return number
