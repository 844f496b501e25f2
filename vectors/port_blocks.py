"""The block scheme from the specification alone, up to the verdict, in plain loops.

It uses only the standard library and reads two tables that ship with the package: how often marked
letters agree with their coins (agreement.json), and the constant C of the p-value
(block_null.json). Each vector contains the components that its record is averaged over.
"""

from __future__ import annotations

import hashlib
import json
from math import ceil, cosh, exp, inf, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from vectors.port import PROTEIN_LETTERS, alphabet_sha256, subkey, words

PAIRS = ["AE", "CQ", "DN", "FY", "GP", "HW", "IV", "KR", "LM", "ST"]
DATA = Path(__file__).resolve().parent.parent / "src" / "patternmark" / "data"
BLOCKS_OF_A_STREAM = 2**20

UNMARKED = 0.1  # chance that one of several chains of a record carries no mark
FIRST_POSITIONS = 384  # of the schedule, in which a piece of a design may begin
# Chances that a marked stretch begins (per letter), that it ends (per block), and that it begins
# with the first block of the schedule.
ENTER, LEAVE, AT_START = 1 / 256, 1 / 64, 0.5
SMALLEST_SHARE = 1e-5  # lengths of pieces with a smaller chance are left out


class Kind(NamedTuple):
    """One component of the mixture: an assumption about the record, and its weight."""

    level: int  # of strength
    slip: float  # share of positions that are lost or doubled
    growth: float  # share doubled minus share lost
    begins: str  # at the "start" of the schedule, "anywhere" in it, or "inside" the chain
    shift: int  # chain c of the record is chain c + shift of its design; below 0: of no design
    weight: float


def coin_words(secret: bytes, block: int, nonces: int, chain: int, blocks: int) -> list[list[int]]:
    """Return the coins of each block and nonce: bit p is 1 if pair p promotes its first letter."""
    sha256 = alphabet_sha256(list(PROTEIN_LETTERS), [20])
    key = subkey(secret, f"blocks/{sha256}/{block}/{nonces}/{chain}")
    stream = hashlib.shake_256(key).digest(2 * blocks * nonces)
    numbers = [256 * stream[2 * i] + stream[2 * i + 1] for i in range(blocks * nonces)]
    return [numbers[j * nonces : (j + 1) * nonces] for j in range(blocks)]


def promoted(word: int) -> set[str]:
    """Return the letters that a block with these coins promotes."""
    return {pair[0] if word >> p & 1 else pair[1] for p, pair in enumerate(PAIRS)}


def drawn_nonce(secret: bytes, nonces: int, seed: int | str, index: int) -> int:
    word = words(secret, f"nonce/{seed}", index + 1)[index]
    return int((word >> 11) * 2.0**-53 * nonces)


def keys(nonces: int, block: int, chain: int, nonce: int, length: int) -> list[int]:
    """Return the position keys of a chain."""
    first = (chain * nonces + nonce) * BLOCKS_OF_A_STREAM
    return [first + i // block for i in range(length)]


def letter_weights() -> list[dict[str, float]]:
    """Return the log-odds that a marked letter agrees with its coin, for each strength."""
    table = json.loads((DATA / "agreement.json").read_text())
    return [
        {
            letter: log(rate / (1.0 - rate))
            for letter, rate in zip(table["letters"], row, strict=True)
        }
        for row in table["blocks"]
    ]


def largest_c(block: int, scored: int) -> float:
    """Return C if the longest chain has `scored` scored letters: the larger C of nearby lengths."""
    table = json.loads((DATA / "block_null.json").read_text())
    places = [i for i, length in enumerate(table["lengths"]) if length <= scored]
    if block != table["block"] or not places:
        return 1.0
    return float(max(table["c"][places[-1] : places[-1] + 2]))


def piece_laws(block: int, slip: float, growth: float) -> tuple[list[float], ...]:
    """Return the distributions of a piece's length: whole block, its tails, rest of a block, tails.

    The rest of a block is the piece that remains if the chain begins inside the block.
    """
    whole, rest = [1.0], [0.0] * (2 * block + 1)
    fates = ((slip - growth) / 2, 1.0 - slip, (slip + growth) / 2)
    for _ in range(block):
        longer = [0.0] * (len(whole) + 2)
        for length, share in enumerate(whole):  # a position is lost, kept or doubled
            for more, chance in enumerate(fates):
                longer[length + more] += share * chance
        whole = longer
        for length, share in enumerate(whole):
            rest[length] += share / block
    longest = max(length for length, share in enumerate(whole) if share > SMALLEST_SHARE)
    laws = []
    for law in (whole, rest):
        laws.append([p if p > SMALLEST_SHARE else 0.0 for p in law[: longest + 1]])
        laws.append([sum(law[length:]) for length in range(longest + 1)])
    return tuple(laws)


def mean_likelihoods(chain: str, weights: dict[str, float], longest: int) -> list[list[float]]:
    """Return the mean likelihood of each piece over all coins: entry [i][l] has l letters from i.

    A factor is left out that the likelihood under the coins has too. For the letters of one pair
    the mean is cosh of half the sum of their weights, where the second letter's weight is negative.
    """
    means = []
    for i in range(len(chain)):
        sums, row = [0.0] * len(PAIRS), [1.0]
        for letter in chain[i : i + longest]:
            for p, pair in enumerate(PAIRS):
                if letter in pair:
                    sums[p] += weights[letter] if letter == pair[0] else -weights[letter]
            mean = 1.0
            for total in sums:
                mean *= cosh(total / 2)
            row.append(mean)
        means.append(row)
    return means


def log_ratio(
    chain: str,
    coins: list[int],
    block: int,
    kind: Kind,
    weights: dict[str, float],
) -> float:
    """Return ln of the sum over all paths of a chain along the blocks of one nonce.

    `state[i]` is the weight of all paths on which the next block begins before letter i.
    """
    n, begins, pace = len(chain), kind.begins, 1.0 + kind.growth
    whole, whole_tail, rest, rest_tail = piece_laws(block, kind.slip, kind.growth)
    drift = block + ceil(5.0 * sqrt((kind.slip - kind.growth**2) * n / pace))
    first = 0 if begins == "start" else FIRST_POSITIONS // block
    last = first + ceil((n + drift) / pace / block) + 1
    state, enters, prior, total, leave = [0.0] * n, [0.0] * n, 0.0, 0.0, 0.0
    if begins == "start":
        state[0] = 1.0
    else:
        enters[0], prior = 1.0, 1.0 / first  # first letter, any of the first blocks
    if begins == "inside":
        enters = [ENTER * (1.0 - ENTER) ** i for i in range(n)]
        state = [AT_START * share for share in enters]
        prior *= 1.0 - AT_START
        total, leave = (1.0 - ENTER) ** n, LEAVE  # no marked stretch at all
    means = mean_likelihoods(chain, weights, len(whole) - 1)
    for j in range(last):
        low, high = 0, n
        if begins == "start":  # paths that drift further are left out
            expected = int(j * (block * pace))
            low, high = max(expected - drift, 0), min(n, expected + drift + len(whole) - 1)
        total += leave * sum(state)
        state = [share * (1.0 - leave) for share in state]
        after = [0.0] * n
        half = promoted(coins[j])
        agreement = [weights.get(x, 0.0) * (0.5 if x in half else -0.5) for x in chain]
        for i in range(low, n):
            enter = prior * enters[i] if j < first else 0.0
            if state[i] == 0.0 and enter == 0.0:
                continue
            agreed = 0.0
            for length in range(min(len(whole) - 1, high - i) + 1):
                agreed += agreement[i + length - 1] if length else 0.0
                ratio = exp(agreed) / means[i][length]
                if i + length == n:  # the chain ends in this block
                    total += ratio * (state[i] * whole_tail[length] + enter * rest_tail[length])
                else:
                    entering = enter * rest[length] if length else 0.0
                    after[i + length] += ratio * (state[i] * whole[length] + entering)
        state = after
    return log(total) if total > 0.0 else -inf


def log_ratios(
    secret: bytes, block: int, nonces: int, kinds: list[Kind], record: str
) -> list[list[float]]:
    """Return ln of the likelihood ratio of a record for each nonce and kind."""
    chains, weights = read(record), letter_weights()
    enough = FIRST_POSITIONS + 2 * len(record) + 64
    streams = {
        stream: coin_words(secret, block, nonces, stream, enough)
        for stream in {number + kind.shift for number, _ in chains for kind in kinds}
        if stream >= 0
    }
    table = [[0.0] * len(kinds) for _ in range(nonces)]
    for column, kind in enumerate(kinds):
        designed = [(number + kind.shift, chain) for number, chain in chains]
        designed = [(stream, chain) for stream, chain in designed if stream >= 0]
        for stream, chain in designed:
            for nonce in range(nonces):
                coins = [row[nonce] for row in streams[stream]]
                found = log_ratio(chain, coins, block, kind, weights[kind.level])
                if len(designed) > 1:
                    found = log((1.0 - UNMARKED) * exp(found) + UNMARKED)
                table[nonce][column] += found
    return table


def read(record: str) -> list[tuple[int, str]]:
    """Return the chains that count, with their numbers in the record: no empty chain, no copy."""
    chains = record.replace(":", "/").upper().split("/")
    return [
        (number, chain)
        for number, chain in enumerate(chains)
        if chain not in chains[:number] and count_scored(chain)
    ]


def count_scored(chain: str) -> int:
    return sum(letter in PROTEIN_LETTERS[:20] for letter in chain)


def verdict(
    secret: bytes, block: int, nonces: int, kinds: list[Kind], record: str
) -> dict[str, Any]:
    """Return the verdict of `auto` on a record, with its intermediate values."""
    table = log_ratios(secret, block, nonces, kinds, record)
    by_nonce = [
        sum(kind.weight * exp(found) for kind, found in zip(kinds, row, strict=True))
        for row in table
    ]
    e = sum(by_nonce) / nonces
    c = largest_c(block, max((count_scored(chain) for _, chain in read(record)), default=0))
    sharpened = c / e if e >= 20.0 else 1.0 / e  # Markov's bound for small E
    return {
        "log_ratios": table,
        "log_e": log(e),
        "p_any": min(1.0, 1.0 / e),
        "c": c,
        "p_value": min(1.0, sharpened),
        "likeliest_nonce": by_nonce.index(max(by_nonce)),
    }
