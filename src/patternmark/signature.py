"""Signatures: parts `name:value`, joined by `|`.

A signature names everything besides the sequence that can change a verdict. If the verdicts of two
runs can differ, so do their signatures. Values that are too long to be written out (which positions
count, rates of positions, lists of keys) appear as the first digits of a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SEPARATOR

_HASH_DIGITS = 32  # 128 bits: nobody can make two different lists that share a hash


def joined(*parts: str) -> str:
    """Join the parts that are not empty.

    >>> joined("key:1", "", "fpr:0.001")
    'key:1|fpr:0.001'
    """
    return "|".join(part for part in parts if part)


def short_hash(pieces: Iterable[bytes]) -> str:
    """Return the first digits of a hash of several pieces; it depends on where each one ends."""
    whole = hashlib.sha256()
    for piece in pieces:
        whole.update(len(piece).to_bytes(8, "big") + piece)
    return whole.hexdigest()[:_HASH_DIGITS]


def scored_part(
    records: Sequence[NDArray[np.int64]], masks: Sequence[NDArray[np.bool_] | None]
) -> str:
    """Return which positions of encoded records count: `scored:all`, or a hash of the masks."""
    within = [
        None if mask is None else np.asarray(mask, dtype=bool)[ids != SEPARATOR]
        for ids, mask in zip(records, masks, strict=True)
    ]
    if all(mask is None or mask.all() for mask in within):
        return "scored:all"
    whole = [
        np.ones(int(np.count_nonzero(ids != SEPARATOR)), dtype=bool) if mask is None else mask
        for ids, mask in zip(records, within, strict=True)
    ]
    return f"scored:{short_hash(mask.tobytes() for mask in whole)}"


def rates_part(rates: Sequence[NDArray[np.float64] | None]) -> str:
    """Return a hash of the rates of positions, or nothing if no rates were given."""
    if all(own is None for own in rates):
        return ""
    pieces = (b"" if own is None else np.ascontiguousarray(own).tobytes() for own in rates)
    return f"rates:{short_hash(pieces)}"


def keys_part(key_ids: Sequence[str]) -> str:
    """Return the number of keys, and a hash of their ids in order."""
    return f"keys:{len(key_ids)}-{short_hash(one.encode() for one in key_ids)}"
