"""Edits that weaken a mark: substitutions, insertions and deletions, cutting, splicing."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.forge import draw
from patternmark.attacks.substitutions import replacement_law
from patternmark.core.alphabet import PROTEIN

Symbols = NDArray[np.int64]
_NATURAL = "data/natural_proteins.fa"


def substitute(ids: Symbols, share: float, letters: Symbols, rng: np.random.Generator) -> Symbols:
    """Replace each letter, with probability `share`, by another of `letters`; others stay.

    All other letters are equally likely. The paper does not say whether its random modification
    may draw the present letter again; here it never does.
    """
    edited = ids.copy()
    at = np.flatnonzero((rng.random(len(ids)) < share) & np.isin(ids, letters))
    place = np.searchsorted(letters, ids[at])  # `letters` are in ascending order
    edited[at] = letters[(place + rng.integers(1, len(letters), len(at))) % len(letters)]
    return edited


def substitute_alike(ids: Symbols, share: float, rng: np.random.Generator) -> Symbols:
    """Replace each amino acid, with probability `share`, by another as likely as in BLOSUM62."""
    law = replacement_law()
    edited = ids.copy()
    is_letter = (ids >= 0) & (ids < len(law))
    at = np.flatnonzero((rng.random(len(ids)) < share) & is_letter)
    edited[at] = draw(law[ids[at]], rng)
    return edited


def insert_and_delete(
    ids: Symbols, rate: float, letters: Symbols, rng: np.random.Generator
) -> Symbols:
    """Delete each symbol with probability rate / 2, or insert a random one after it as often."""
    draws = rng.random(len(ids))
    copies = np.where(draws < rate / 2, 0, np.where(draws >= 1 - rate / 2, 2, 1))
    return _with_copies(ids, copies, letters, rng)


def insert(ids: Symbols, rate: float, letters: Symbols, rng: np.random.Generator) -> Symbols:
    """Insert a random symbol after each one with probability `rate`."""
    return _with_copies(ids, 1 + (rng.random(len(ids)) < rate), letters, rng)


def delete(ids: Symbols, rate: float, rng: np.random.Generator) -> Symbols:
    """Delete each symbol with probability `rate`."""
    return ids[rng.random(len(ids)) >= rate]


def _with_copies(
    ids: Symbols, copies: NDArray[np.int64], letters: Symbols, rng: np.random.Generator
) -> Symbols:
    """Repeat each symbol 0, 1 or 2 times; the second copy becomes a random symbol."""
    edited = np.repeat(ids, copies)
    last_of_two = np.cumsum(copies)[copies == 2] - 1
    edited[last_of_two] = rng.choice(letters, size=len(last_of_two))
    return edited


def cut_window(ids: Symbols, length: int, rng: np.random.Generator) -> Symbols:
    """Keep a random stretch of `length` symbols."""
    start = rng.integers(0, max(len(ids) - length, 0) + 1)
    return ids[start : start + length]


def splice(
    ids: Symbols, length: int, host: Symbols, total: int, rng: np.random.Generator
) -> Symbols:
    """Insert a stretch of a sequence at a random place of an unmarked host: `total` symbols."""
    stretch = cut_window(ids, length, rng)
    around = np.resize(host, total - len(stretch))
    place = rng.integers(0, len(around) + 1)
    return np.concatenate([around[:place], stretch, around[place:]])


@cache
def natural_proteins() -> tuple[Symbols, ...]:
    """Return the few natural proteins of the package, as hosts for splicing."""
    text = files("patternmark").joinpath(_NATURAL).read_text(encoding="utf-8")
    return tuple(PROTEIN.encode(record.split("\n")[1]) for record in text.split(">")[1:])


def natural_host(rng: np.random.Generator) -> Symbols:
    """Return the natural proteins of the package, concatenated in random order."""
    proteins = natural_proteins()
    return np.concatenate([proteins[i] for i in rng.permutation(len(proteins))])
