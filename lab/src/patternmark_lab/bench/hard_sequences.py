"""Unmarked sequences that are made to look marked: repeats, odd compositions, and attacks.

The author of a class knows everything but the key: the public pairs of letters, where blocks begin,
and which letters follow a mark most. A p-value is valid only if it is valid for all classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.core.blocks import PROTEIN_PAIRS, halves_of
from patternmark.core.schemes import DEFAULT_BLOCK, Blocks
from patternmark.statistics.rates import agreement_rates

Symbols = NDArray[np.int64]
Maker = Callable[[int, np.random.Generator], Symbols]

_PAIRS = np.array([PROTEIN.encode(pair) for pair in PROTEIN_PAIRS])  # [10, 2]
_PARTNER = np.arange(PROTEIN.size)
_PARTNER[_PAIRS[:, 0]], _PARTNER[_PAIRS[:, 1]] = _PAIRS[:, 1], _PAIRS[:, 0]
_FREQUENT = np.array(PROTEIN_BACKGROUND[:20], dtype=float) / sum(PROTEIN_BACKGROUND[:20])


def natural_letters(n: int, rng: np.random.Generator) -> Symbols:
    """Draw independent letters with their natural frequencies."""
    return rng.choice(20, size=n, p=_FREQUENT)


def _of(letters: str) -> Maker:
    choices = PROTEIN.encode(letters)
    return lambda n, rng: rng.choice(choices, size=n)


def _stretches(n: int, rng: np.random.Generator) -> Symbols:
    """Write one strong letter, but its partner between two random places: one coin per block."""
    first, last = np.sort(rng.integers(n + 1, size=2))
    letter = rng.choice(PROTEIN.encode("KRESM"))
    is_between = (np.arange(n) >= first) & (np.arange(n) < last)
    return np.asarray(np.where(is_between, _PARTNER[letter], letter))


def _search_result(n: int, rng: np.random.Generator) -> Symbols:
    """Write a result of a search for the largest C: one pair's letters, two X, a weak letter."""
    before, after = round(0.35 * n), round(0.4 * n)
    text = "K" * before + "RRRRXX" + "K" * after + "G"
    return PROTEIN.encode(text + "K" * max(0, n - before - after - 5))


def _heads_then(letters: str, count: int, filler: str) -> Maker:
    """Write strong letters `count` times, then a long filler: a long sequence with few coins."""

    def make(n: int, rng: np.random.Generator) -> Symbols:
        del rng
        ids = PROTEIN.encode(letters * count + filler * n)
        return ids[: int(np.searchsorted(np.cumsum(ids < 20), n)) + 1]  # n scored letters

    return make


def _repeat_unit(unit: str) -> Maker:
    return lambda n, rng: np.resize(np.roll(PROTEIN.encode(unit), rng.integers(len(unit))), n)


def _mutate(ids: Symbols, share: float, rng: np.random.Generator) -> Symbols:
    return np.where(rng.random(len(ids)) < share, natural_letters(len(ids), rng), ids)


def _tandem(period: int, share: float) -> Maker:
    return lambda n, rng: _mutate(np.resize(natural_letters(period, rng), n), share, rng)


def _hold(times: int, letters: str = "") -> Maker:
    """Repeat each letter a few times, starting where blocks begin."""

    def make(n: int, rng: np.random.Generator) -> Symbols:
        units = -(-n // times)
        drawn = _of(letters)(units, rng) if letters else natural_letters(units, rng)
        return np.repeat(drawn, times)[:n]

    return make


def _pairs_in_blocks(pattern: str) -> Maker:
    """Write blocks such as XYXY: each block draws a random pair for X and Y."""

    def make(n: int, rng: np.random.Generator) -> Symbols:
        blocks = -(-n // len(pattern))
        chosen = _PAIRS[rng.integers(10, size=blocks)]
        chosen = rng.permuted(chosen, axis=1)
        sides = np.array([0 if letter == "X" else 1 for letter in pattern])
        return chosen[:, sides].ravel()[:n]

    return make


def _partners(share: float) -> Maker:
    """Write natural letters, a share of them replaced by the partner of the letter before."""

    def make(n: int, rng: np.random.Generator) -> Symbols:
        ids = natural_letters(n, rng)
        for place in np.flatnonzero(rng.random(n - 1) < share) + 1 if n > 1 else []:
            ids[place] = _PARTNER[ids[place - 1]]
        return ids

    return make


def _pairs_in_turn(n: int, rng: np.random.Generator) -> Symbols:
    """Write neighbours of different pairs, to use as many different coins as possible."""
    order = np.resize(rng.permutation(10), n)
    return _PAIRS[order, rng.integers(2, size=n)]


def _same_block(n: int, rng: np.random.Generator) -> Symbols:
    """Write the same letters in every block: of different pairs, those that follow a mark most."""
    return np.resize(rng.permutation(PROTEIN.encode("KESRQMND"))[:DEFAULT_BLOCK], n)


def mark_by_another(delta_level: int) -> Maker:
    """Mark natural letters with a random key that is not tested."""

    def make(n: int, rng: np.random.Generator) -> Symbols:
        words = rng.integers(2**10, size=-(-n // DEFAULT_BLOCK), dtype=np.uint16)
        signs = np.repeat(halves_of(words), DEFAULT_BLOCK, axis=0)[:n, :20]
        rates = agreement_rates(PROTEIN, Blocks.name)[delta_level, :20]
        law = _FREQUENT * (1.0 + signs * (2.0 * rates - 1.0))
        law /= law.sum(axis=1, keepdims=True)
        return np.asarray((rng.random((n, 1)) > np.cumsum(law, axis=1)[:, :-1]).sum(axis=1))

    return make


def _copies(parts: int, share: float) -> Maker:
    """Join copies of one chain, with a share of the letters changed."""
    return lambda n, rng: _mutate(np.resize(natural_letters(-(-n // parts), rng), n), share, rng)


CLASSES: dict[str, Maker] = {
    "natural letters": natural_letters,
    "one letter": lambda n, rng: np.full(n, rng.integers(20)),
    "two random letters": lambda n, rng: rng.choice(rng.permutation(20)[:2], size=n),
    "four random letters": lambda n, rng: rng.choice(rng.permutation(20)[:4], size=n),
    **{
        f"tandem repeats of {period}, {share:.0%} changed": _tandem(period, share)
        for period in (2, 3, 4, 5, 6, 7, 13, 31)
        for share in (0.0, 0.3)
    },
    "two copies": _copies(2, 0.0),
    "four copies, 30% changed": _copies(4, 0.3),
    "one strong letter": lambda n, rng: np.full(n, rng.choice(PROTEIN.encode("KRESM"))),
    "one strong letter, then its partner, then it again": _stretches,
    "found by a search": _search_result,
    **{f"{letter} alone": _repeat_unit(letter) for letter in "KRM"},
    **{
        f"{count} R, then {filler}": _heads_then("R", count, filler)
        for filler in ("GP", "GPX")
        for count in (12, 18, 21, 24, 30, 36, 48, 54, 66)
    },
    **{f"24 {letter}, then GP": _heads_then(letter, 24, "GP") for letter in "KM"},
    "A and X in turn": lambda n, rng: _repeat_unit("AX")(2 * n, rng),
    "GS linker": _of("GGGGS"),
    "KR-rich": _of("KKRR"),
    "ST-rich": _of("SSTTP"),
    "heptads": _repeat_unit("LKALEEK"),
    "collagen": _repeat_unit("GPAGPK"),
    "strands: hydrophobic and polar in turn": lambda n, rng: np.where(
        np.arange(n) % 2, _of("VILF")(n, rng), _of("KERSTQ")(n, rng)
    ),
    "letters that follow a mark most": _of("KERQSM"),
    "both letters of the best pairs": _of("KRSTAEDN"),
    "one letter held for 2": _hold(2),
    "one letter held for 3": _hold(3),
    "one letter held for 4": _hold(4),
    "one letter held for 6": _hold(6),
    "best letters held for 3": _hold(3, "KERQSMN"),
    "best letters held for 2": _hold(2, "KERQSMN"),
    "XYX in every block": _pairs_in_blocks("XYX"),
    "XXY in every block": _pairs_in_blocks("XXY"),
    "XXX in every block": _pairs_in_blocks("XXX"),
    "XYXY over borders of blocks": _pairs_in_blocks("XYXY"),
    "XXXXXX over two blocks": _pairs_in_blocks("XXXXXX"),
    "30% partners of the letter before": _partners(0.3),
    "all pairs in turn": _pairs_in_turn,
    "every block the same letters": _same_block,
    "marked by another key, delta 1": mark_by_another(2),
    "marked by another key, delta 1.5": mark_by_another(3),
    **{
        f"{count} K, 10 R, then K": _heads_then("K" * count + "R" * 10, 1, "K")
        for count in (8, 11, 14, 17, 20)
    },
}


def make_sequences(name: str, n: int, batch: int, rng: np.random.Generator) -> Symbols:
    """Return sequences of a class with n scored letters each: [B, n], longer if they contain X."""
    return np.stack([CLASSES[name](n, rng) for _ in range(batch)])


def windows(chains: Sequence[Symbols], n: int, batch: int, rng: np.random.Generator) -> Symbols:
    """Return random windows of natural chains with at least n letters: [B, n]."""
    long_enough = [chain for chain in chains if len(chain) >= n]
    rows = []
    for number in rng.integers(len(long_enough), size=batch).tolist():
        start = rng.integers(len(long_enough[number]) - n + 1)
        rows.append(long_enough[number][start : start + n])
    return np.stack(rows)
