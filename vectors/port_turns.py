"""The scheme for text from the specification alone, to the verdict: standard library, plain loops.

It reads one table that ships with the package: ln P(E >= e) where it was simulated
(mixture_null_tokens.json).
"""

from __future__ import annotations

import hashlib
import json
from math import exp, expm1, inf, log
from pathlib import Path
from typing import Any, NamedTuple

from vectors.port import alphabet_sha256, subkey, words

DATA = Path(__file__).resolve().parent.parent / "src" / "patternmark" / "data"
RATES = [0.58, 0.65, 0.72, 0.82]  # how often a marked token agrees with its key, by strength
MANY_SYMBOLS = 512
LONG = 200


class Kind(NamedTuple):
    """One way a mark may show, with its weight in long texts and in short ones."""

    rate: float
    slip: float  # chance per position that the phase moves by one
    edge: float  # chance per position that a marked stretch begins, or ends; 0: all is marked
    anywhere: bool  # any phase may be the first, not only the starts
    long: float
    short: float


MIXTURE = [
    Kind(RATES[1], 0.0, 0.0, False, 0.30, 0.30),
    Kind(RATES[3], 0.0, 0.0, False, 0.15, 0.30),
    Kind(RATES[2], 0.0, 0.0, True, 0.10, 0.10),
    Kind(RATES[2], 0.01, 0.0, False, 0.20, 0.15),
    Kind(RATES[3], 0.03, 0.0, False, 0.05, 0.05),
    Kind(RATES[2], 0.005, 0.01, True, 0.20, 0.10),
]


class Sizes(NamedTuple):
    period: int
    block: int
    starts: int
    nonces: int


def schedule(
    secret: bytes, symbols: list[str], unscored: list[int], sizes: Sizes, nonce: int
) -> list[set[int]]:
    """The symbols that each key of a nonce promotes, key by key."""
    period, block = sizes.period, sizes.block
    label = f"schedule/{alphabet_sha256(symbols, unscored)}/{period}/{block}"
    scored = [i for i in range(len(symbols)) if i not in unscored]
    drawn = words(secret, f"{label}/{nonce}/pairs", len(scored))
    order = sorted(range(len(scored)), key=lambda i: (drawn[i], i))
    pairs = [[scored[i] for i in order[at : at + 2]] for at in range(0, len(order), 2)]
    each = (period // block * len(pairs) + 7) // 8
    stream = hashlib.shake_256(subkey(secret, label)).digest((nonce + 1) * each)[nonce * each :]
    halves: list[set[int]] = []
    for key in range(period):
        half = set()
        for number, pair in enumerate(pairs):
            place = key // block * len(pairs) + number
            bit = stream[place // 8] >> (7 - place % 8) & 1
            chosen = 0 if bit ^ (key % 2) else 1
            half |= set(pair[chosen : chosen + 1])  # nothing where an odd one out is not chosen
        halves.append(half)
    return halves


def keys(secret: bytes, sizes: Sizes, n: int, seed: int | str, index: int, nonce: int) -> list[int]:
    """The keys of a text, numbered nonce by nonce."""
    word = words(secret, f"schedule start/{seed}", index + 1)[index]
    start = int((word >> 11) * 2.0**-53 * sizes.starts) * (sizes.period // sizes.starts)
    return [nonce * sizes.period + (start + i) % sizes.period for i in range(n)]


def read(text: list[int], unscored: list[int], sizes: Sizes) -> list[int | None]:
    """The tokens that count; None where one is unscored or its coin was tossed before."""
    near = 2 * sizes.block
    result: list[int | None] = []
    for i, token in enumerate(text):
        lags = [(i - j) % sizes.period for j in range(i) if text[j] == token]
        again = any(lag < near or lag > sizes.period - near for lag in lags)
        result.append(None if token in unscored or again else token)
    return result


def log_ratio(tokens: list[int | None], halves: list[set[int]], kind: Kind, sizes: Sizes) -> float:
    """ln of the ratio of one nonce, summed over phases, slips and stretches.

    A text of phase f has key (f + i) mod period at position i. Slips and edges are looked for once
    in a few positions (a stride): the rarer slips are, the fewer times.
    """
    period = sizes.period
    firsts = range(period) if kind.anywhere else range(0, period, period // sizes.starts)
    prior = [1.0 / len(firsts) if f in firsts else 0.0 for f in range(period)]
    while tokens and tokens[-1] is None:
        tokens = tokens[:-1]
    stride = 1 if kind.slip > 0.1 else 2 if kind.slip > 0.01 else 4
    slip, edge = (1.0 - (1.0 - rate) ** stride for rate in (kind.slip, kind.edge))
    before, after = float(edge > 0.0), 0.0  # not marked yet, marked no longer
    state = [0.0] * period if edge else prior
    for at in range(0, len(tokens), stride):
        after += edge * sum(state)
        state = [
            (1.0 - edge)
            * ((1.0 - slip) * state[f] + slip / 2 * (state[f - 1] + state[(f + 1) % period]))
            + edge * before * prior[f]
            for f in range(period)
        ]
        before *= 1.0 - edge
        for i in range(at, min(at + stride, len(tokens))):
            token = tokens[i]
            if token is not None:
                for f in range(period):
                    agrees = token in halves[(f + i) % period]
                    state[f] *= 2.0 * (kind.rate if agrees else 1.0 - kind.rate)
    return log(sum(state) + before + after)


def simulated_log_p(table: dict[str, Any], log_e: float, scored: int) -> float:
    """ln P(E >= e) of one nonce, from the table: the grid goes from -20 to 60 in steps of 0.5."""
    lengths, rows = table["lengths"], table["log_p"]
    row = sum(length < scored for length in lengths)  # the first length that is as large
    row = min(row, len(lengths) - 1)
    markov = [min(20.0 - 0.5 * i, 0.0) for i in range(161)]
    larger = [max(pair) for pair in zip(rows[row], rows[row - 1] if row else markov, strict=True)]
    if log_e < -20.0:
        return 0.0
    place = (min(log_e, 60.0) + 20.0) / 0.5
    low = min(int(place), 159)
    inside = larger[low] + (place - low) * (larger[low + 1] - larger[low])
    return float(inside - max(log_e - 60.0, 0.0))


def verdict(
    secret: bytes, symbols: list[str], unscored: list[int], sizes: Sizes, text: list[int]
) -> dict[str, Any]:
    """What `auto` says of a text in one piece, with 512 tokens or more and up to two nonces."""
    tokens = read(text, unscored, sizes)
    scored = sum(token is not None for token in tokens)
    ratios = []
    for nonce in range(sizes.nonces):
        halves = schedule(secret, symbols, unscored, sizes, nonce)
        ratios.append([log_ratio(tokens, halves, kind, sizes) for kind in MIXTURE])
    shares = [kind.long if scored >= LONG else kind.short for kind in MIXTURE]
    by_nonce = [
        sum(share * exp(found) for share, found in zip(shares, row, strict=True)) for row in ratios
    ]
    log_e = log(sum(by_nonce) / sizes.nonces)
    log_p = min(-log_e, 0.0)
    tables = json.loads((DATA / "mixture_null_tokens.json").read_text())
    table = tables.get(f"turns, {sizes.starts} start{'s' if sizes.starts > 1 else ''}")
    if (sizes.period, sizes.block) == (512, 4) and table:
        lone = log_e
        if sizes.nonces > 1:  # one nonce must stand out; the others add 1 on average
            lone = log_e + log(-expm1(-log_e)) + log(sizes.nonces) if log_e > 0.0 else -inf
        log_p = min(log_p, simulated_log_p(table, lone, scored) + log(sizes.nonces))
    return {
        "read": tokens,
        "log_ratios": ratios,
        "log_e": log_e,
        "p_any": min(1.0, exp(-log_e)),
        "p_value": exp(log_p),
    }
