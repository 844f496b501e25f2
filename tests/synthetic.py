"""Synthetic sequences for tests: no model, natural letters, the measured agreement."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from patternmark import PROTEIN, Key
from patternmark.simulate import marked_sequences, plain_sequences, rates_at


def letters(symbols: np.ndarray) -> str:
    return "".join(PROTEIN.letters[symbol] for symbol in symbols)


def marked(key: Key, length: int, rng: np.random.Generator, delta: float = 1.5) -> str:
    rates = rates_at(delta, PROTEIN, key.profile.scheme)
    seed = int(rng.integers(2**31))  # another nonce and start for each
    return letters(marked_sequences(key, rates, rng.random((1, length)), seed)[0])


def plain(length: int, rng: np.random.Generator) -> str:
    return letters(plain_sequences(PROTEIN, 1, length, rng)[0])


def write_fasta(path: Path, sequences: dict[str, str]) -> Path:
    path.write_text("".join(f">{name}\n{letters}\n" for name, letters in sequences.items()))
    return path
