"""The scheme for text from the specification alone, up to the verdict, in plain loops.

It uses only the standard library and reads one table that ships with the package: ln P(E >= e),
counted on natural English (text_null.json).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from math import exp, expm1, inf, log
from pathlib import Path
from typing import Any, NamedTuple

from vectors.port import alphabet_sha256, subkey, words

DATA = Path(__file__).resolve().parent.parent / "src" / "patternmark" / "data"
SMALL_P, PROVEN_P = 0.02, 1e-6  # p-values between them are computed by drawing keys for the text
RATES = [0.65, 0.72, 0.82, 0.90]  # how often a marked token agrees with its key, by strength


class Kind(NamedTuple):
    """One component of the mixture: an assumption about the text, and its two weights."""

    rate: float  # at which tokens agree with their keys
    slip: float  # chance per position that the phase moves by one
    edge: float  # chance per position that a marked stretch begins, or ends; 0: all is marked
    anywhere: bool  # any phase may be the first, not only the starts
    shared: bool  # a token that occurs r times counts 1/r each time
    natural: float  # weight for natural text
    any: float  # weight for any text


MIXTURE = [
    Kind(RATES[0], 0.0, 0.0, False, False, 0.045, 0.0),
    Kind(RATES[3], 0.0, 0.0, False, False, 0.065, 0.0),
    Kind(RATES[3], 0.0, 0.0, True, False, 0.2, 0.0),
    Kind(RATES[0], 0.1, 0.0, False, False, 0.15, 0.0),
    Kind(RATES[2], 0.1, 0.0, False, False, 0.2, 0.0),
    Kind(RATES[2], 0.3, 0.0, False, False, 0.115, 0.0),
    Kind(RATES[3], 0.3, 0.0, False, False, 0.025, 0.0),
    Kind(RATES[3], 0.3, 0.0, True, False, 0.055, 0.0),
    Kind(RATES[2], 0.02, 0.02, True, False, 0.04, 0.0),
    Kind(RATES[2], 0.0, 0.0, False, True, 0.03, 0.17),
    Kind(RATES[3], 0.0, 0.0, False, True, 0.0, 0.05),
    Kind(RATES[3], 0.0, 0.0, True, True, 0.025, 0.12),
    Kind(RATES[2], 0.1, 0.0, False, True, 0.025, 0.06),
    Kind(RATES[3], 0.1, 0.0, False, True, 0.025, 0.60),
]


class Sizes(NamedTuple):
    period: int
    block: int
    starts: int
    nonces: int


def schedule(
    secret: bytes, symbols: list[str], unscored: list[int], sizes: Sizes, nonce: int
) -> list[set[int]]:
    """Return the symbols that each key of a nonce promotes, key by key."""
    period, block = sizes.period, sizes.block
    label = f"turns/{alphabet_sha256(symbols, unscored)}/{period}/{block}"
    scored = [i for i in range(len(symbols)) if i not in unscored]
    coins = _coins(secret, label, period // block * len(scored))
    for bit in range(nonce.bit_length()):
        if nonce >> bit & 1:
            turned = _coins(secret, f"{label}/bit {bit}", len(coins))
            coins = [a ^ b for a, b in zip(coins, turned, strict=True)]
    halves: list[set[int]] = []
    for key in range(period):
        first = key // block * len(scored)
        own = coins[first : first + len(scored)]
        halves.append({s for s, coin in zip(scored, own, strict=True) if coin ^ (key % 2)})
    return halves


def _coins(secret: bytes, label: str, count: int) -> list[int]:
    """Return the fair coins of a label: the bits of a stream, the highest of each byte first."""
    stream = hashlib.shake_256(subkey(secret, label)).digest((count + 7) // 8)
    return [stream[i // 8] >> (7 - i % 8) & 1 for i in range(count)]


def keys(secret: bytes, sizes: Sizes, n: int, seed: int | str, index: int, nonce: int) -> list[int]:
    """Return the position keys of a text, numbered nonce by nonce."""
    word = words(secret, f"schedule start/{seed}", index + 1)[index]
    start = int((word >> 11) * 2.0**-53 * sizes.starts) * (sizes.period // sizes.starts)
    return [nonce * sizes.period + (start + i) % sizes.period for i in range(n)]


def read(text: list[int], unscored: list[int]) -> list[int | None]:
    """Return the tokens that count; None for unscored ones."""
    return [None if token in unscored else token for token in text]


def times(tokens: list[int | None]) -> list[int]:
    """Return how often the token at each position occurs in the text; 1 for unscored ones.

    Above 7 only the three highest binary digits are kept, rounded up: 8, 10, 12, 14, 16, 20, ...
    """
    count = Counter(tokens)
    return [1 if token is None else _round_up(count[token]) for token in tokens]


def _round_up(number: int) -> int:
    step = 1 << max(number.bit_length() - 3, 0)
    return (number + step - 1) // step * step


def log_ratio(tokens: list[int | None], halves: list[set[int]], kind: Kind, sizes: Sizes) -> float:
    """Return ln of the likelihood ratio of one nonce, summed over phases, slips and stretches.

    A text of phase f has key (f + i) mod period at position i. Slips and edges can occur only once
    in each stride of positions; the rarer slips are, the longer the stride.
    """
    repeats = times(tokens)
    period = sizes.period
    firsts = range(period) if kind.anywhere else range(0, period, period // sizes.starts)
    prior = [1.0 / len(firsts) if f in firsts else 0.0 for f in range(period)]
    while tokens and tokens[-1] is None:
        tokens = tokens[:-1]
    stride = 1 if kind.slip > 0.1 else 2 if kind.slip > 0.01 else 4
    slip, edge = (1.0 - (1.0 - rate) ** stride for rate in (kind.slip, kind.edge))
    before, after = float(edge > 0.0), 0.0  # weights of paths before and after the marked stretch
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
                power = 1.0 / repeats[i] if kind.shared else 1.0
                for f in range(period):
                    agrees = token in halves[(f + i) % period]
                    state[f] *= (2.0 * (kind.rate if agrees else 1.0 - kind.rate)) ** power
    return log(sum(state) + before + after)


def counted_log_p(table: dict[str, Any], log_e: float, scored: int) -> float:
    """Return ln P(E >= e) of one nonce from the table; its grid is -20, -19.5, ..., 60."""
    lengths, rows = table["lengths"], table["log_p"]
    row = sum(length < scored for length in lengths)  # the first length that is large enough
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
    """Return the verdict of `auto` on a text in one piece, for up to two nonces.

    The alphabet must have 512 tokens or more.

    There is no p-value where it is estimated from keys drawn for the text: another program draws
    other keys, and gets the same p-value only up to the error of the estimate.
    """
    tokens = read(text, unscored)
    scored = sum(token is not None for token in tokens)
    ratios = []
    for nonce in range(sizes.nonces):
        halves = schedule(secret, symbols, unscored, sizes, nonce)
        ratios.append([log_ratio(tokens, halves, kind, sizes) for kind in MIXTURE])
    log_e_any = _log_mean(ratios, [kind.any for kind in MIXTURE])
    log_e = _log_mean(ratios, [kind.natural for kind in MIXTURE])
    log_p_any = min(-log_e_any, 0.0)
    counted = min(-log_e, 0.0)
    if has_table := sizes[:3] == (512, 128, 1):
        table = json.loads((DATA / "text_null.json").read_text())["turns"]
        lone = log_e
        if sizes.nonces > 1:  # one nonce must stand out; the others add 1 on average
            lone = log_e + log(-expm1(-log_e)) + log(sizes.nonces) if log_e > 0.0 else -inf
        counted = min(counted, counted_log_p(table, lone, scored) + log(sizes.nonces))
    is_proven = log_p_any <= log(PROVEN_P)
    is_drawn = counted <= log(SMALL_P) and not is_proven
    log_p = counted if has_table and not is_proven else log_p_any
    return {
        "read": tokens,
        "times": times(tokens),
        "log_ratios": ratios,
        "log_e": log_e,
        "log_e_any": log_e_any,
        "p_any": min(1.0, exp(-log_e_any)),
        "p_value": None if is_drawn else exp(log_p),
    }


def _log_mean(ratios: list[list[float]], weights: list[float]) -> float:
    """Return ln of the weighted ratios of all kinds, averaged over nonces."""
    total = sum(w * exp(found) for row in ratios for w, found in zip(weights, row, strict=True))
    return log(total / len(ratios))
