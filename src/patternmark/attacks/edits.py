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
    may draw the letter that stands there already; here it never does.
    """
    edited = ids.copy()
    at = np.flatnonzero((rng.random(len(ids)) < share) & np.isin(ids, letters))
    place = np.searchsorted(letters, ids[at])  # `letters` are in ascending order
    edited[at] = letters[(place + rng.integers(1, len(letters), len(at))) % len(letters)]
    return edited


def substitute_alike(ids: Symbols, share: float, rng: np.random.Generator) -> Symbols:
    """Replace each amino acid, with probability `share`, as BLOSUM62 says evolution does."""
    law = replacement_law()
    edited = ids.copy()
    is_letter = (ids >= 0) & (ids < len(law))
    at = np.flatnonzero((rng.random(len(ids)) < share) & is_letter)
    edited[at] = draw(law[ids[at]], rng)
    return edited


def insert_and_delete(
    ids: Symbols, rate: float, letters: Symbols, rng: np.random.Generator
) -> Symbols:
    """Lose a symbol with probability rate / 2, gain a random one after it with the same."""
    draws = rng.random(len(ids))
    copies = np.where(draws < rate / 2, 0, np.where(draws >= 1 - rate / 2, 2, 1))
    return _with_copies(ids, copies, letters, rng)


def insert(ids: Symbols, rate: float, letters: Symbols, rng: np.random.Generator) -> Symbols:
    """Gain a random symbol after each one with some probability."""
    return _with_copies(ids, 1 + (rng.random(len(ids)) < rate), letters, rng)


def delete(ids: Symbols, rate: float, rng: np.random.Generator) -> Symbols:
    """Lose each symbol with some probability."""
    return ids[rng.random(len(ids)) >= rate]


def _with_copies(
    ids: Symbols, copies: NDArray[np.int64], letters: Symbols, rng: np.random.Generator
) -> Symbols:
    """Repeat each symbol as often as said: 0, 1, or 2 with a random one in place of the second."""
    edited = np.repeat(ids, copies)
    last_of_two = np.cumsum(copies)[copies == 2] - 1
    edited[last_of_two] = rng.choice(letters, size=len(last_of_two))
    return edited


def cut_window(ids: Symbols, length: int, rng: np.random.Generator) -> Symbols:
    """Keep a stretch of some length, from anywhere."""
    start = rng.integers(0, max(len(ids) - length, 0) + 1)
    return ids[start : start + length]


def splice(
    ids: Symbols, length: int, host: Symbols, total: int, rng: np.random.Generator
) -> Symbols:
    """Put a stretch of a sequence somewhere into an unmarked host, `total` symbols together."""
    stretch = cut_window(ids, length, rng)
    around = np.resize(host, total - len(stretch))
    place = rng.integers(0, len(around) + 1)
    return np.concatenate([around[:place], stretch, around[place:]])


@cache
def natural_proteins() -> tuple[Symbols, ...]:
    """Return the package's few natural proteins, to splice stretches into."""
    text = files("patternmark").joinpath(_NATURAL).read_text(encoding="utf-8")
    return tuple(PROTEIN.encode(record.split("\n")[1]) for record in text.split(">")[1:])


def natural_host(rng: np.random.Generator) -> Symbols:
    """Return the package's natural proteins one after the other, in random order."""
    proteins = natural_proteins()
    return np.concatenate([proteins[i] for i in rng.permutation(len(proteins))])
