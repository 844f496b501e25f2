"""A second implementation from the specification alone: standard library, no numpy.

It shows what a port to another language looks like. It and the package must both compute the
published vectors. This file has the derivation and the paper's scheme, `port_blocks` has the
default scheme for proteins, and `port_turns` the scheme for text, both up to the verdict of the
detector `auto`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from bisect import bisect_right
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate, count

PROTEIN_LETTERS = "ACDEFGHIKLMNPQRSTVWYX"


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def subkey(secret: bytes, label: str) -> bytes:
    master = _hmac(b"patternmark v1", secret)
    return _hmac(master, label.encode() + b"\x01")


def words(secret: bytes, label: str, count: int) -> list[int]:
    key = subkey(secret, label)
    stream = b"".join(_hmac(key, i.to_bytes(8, "big")) for i in range((count + 3) // 4))
    return [int.from_bytes(stream[8 * i : 8 * i + 8], "big") for i in range(count)]


def alphabet_sha256(symbols: list[str], unscored: list[int]) -> str:
    content = json.dumps({"symbols": symbols, "unscored": unscored}, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def parts(
    secret: bytes,
    symbols: list[str],
    unscored: list[int],
    num_keys: int,
    background: list[int] | None,
) -> list[int]:
    """Return the part of each symbol, -1 for unscored symbols."""
    sha256 = alphabet_sha256(symbols, unscored)
    scored = [i for i in range(len(symbols)) if i not in unscored]
    for attempt in count(0):
        drawn = words(secret, f"partition/{sha256}/{num_keys}/{attempt}", len(scored))
        order = sorted(range(len(scored)), key=lambda i: (drawn[i], i))
        part_of = [-1] * len(symbols)
        for rank, index in enumerate(order):
            part_of[scored[index]] = rank % num_keys
        if background is None:
            return part_of
        mass = [0] * num_keys
        for symbol in scored:
            mass[part_of[symbol]] += background[symbol]
        error = max(abs(m * num_keys - sum(mass)) for m in mass) / sum(mass)
        if error <= 0.01 * 2 ** (attempt // 16):
            break
    return part_of


def key_sequence(
    secret: bytes, A: list[list[float]], Q: list[float], n: int, seed: int, index: int
) -> list[int]:
    def cumulative(row: list[float]) -> list[float]:
        sums = list(accumulate(row))
        last = max(i for i, p in enumerate(row) if p)
        return sums[:last] + [1.0] * (len(row) - last)

    keys: list[int] = []
    row = Q
    start = words(secret, f"key start/{seed}", index + 1)[index]
    for word in [start, *words(secret, f"key sequence/{seed}/{index}", n - 1)]:
        keys.append(bisect_right(cumulative(row), (word >> 11) * 2.0**-53))
        row = A[keys[-1]]
    return keys


def count_patterns(keys: list[int], patterns: list[list[int]]) -> int:
    m = len(patterns[0])
    return sum(keys[i : i + m] in patterns for i in range(len(keys) - m + 1))


def p_value(segments: list[int], patterns: list[list[int]], num_keys: int, c: int) -> Fraction:
    """Return P(C >= c) under the uniform null, exactly; states are the last m - 1 keys."""
    m = len(patterns[0])
    targets = {tuple(p) for p in patterns}
    total: dict[int, Fraction] = {0: Fraction(1)}
    for n in segments:
        law: dict[tuple[tuple[int, ...], int], int] = {((), 0): 1}
        for _ in range(n):
            following: dict[tuple[tuple[int, ...], int], int] = defaultdict(int)
            for (tail, hits), weight in law.items():
                for key in range(num_keys):
                    window = (*tail, key)
                    hit = len(window) == m and window in targets
                    following[window[-(m - 1) :] if m > 1 else (), hits + hit] += weight
            law = following
        summed: dict[int, Fraction] = defaultdict(Fraction)
        for (_, hits), weight in law.items():
            for before, probability in total.items():
                summed[before + hits] += probability * Fraction(weight, num_keys**n)
        total = summed
    return sum((p for hits, p in total.items() if hits >= c), Fraction(0))
