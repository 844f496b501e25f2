"""Synthetic sequences for tests: no model, natural letters, the measured agreement."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from patternmark import PROTEIN, Alphabet, Key, Marker
from patternmark.plan.simulate import marked_sequences, plain_sequences, rates_at


def letters(symbols: np.ndarray) -> str:
    return "".join(PROTEIN.letters[symbol] for symbol in symbols)


def marked(key: Key, length: int, rng: np.random.Generator, delta: float = 1.5) -> str:
    rates = rates_at(delta, PROTEIN, key.profile.scheme.name)
    seed = int(rng.integers(2**31))  # another nonce and start for each
    return letters(marked_sequences(key, rates, rng.random((1, length)), seed)[0])


def plain(length: int, rng: np.random.Generator) -> str:
    return letters(plain_sequences(PROTEIN, 1, length, rng)[0])


def write_fasta(path: Path, sequences: dict[str, str]) -> Path:
    path.write_text("".join(f">{name}\n{letters}\n" for name, letters in sequences.items()))
    return path


def vocabulary(size: int) -> Alphabet:
    """Tokens of which the first five are special."""
    return Alphabet.from_symbols("tokens", [f"t{i}" for i in range(size)], range(5))


def text(
    alphabet: Alphabet, length: int, rng: np.random.Generator, marker: Marker | None = None
) -> np.ndarray:
    """Draw from a random model: tokens follow Zipf's law, and every position has its own taste.

    Positions are decoded in random order, a few at a time, with the marker's bias at temperature 1.
    """
    logits = -np.log(np.arange(1.0, alphabet.size + 1)).astype(np.float32)
    logits[list(alphabet.unscored)] = -1e4
    bias = None
    if marker is not None:
        bias = marker.prepare(marker.key_sequence(length, seed=int(rng.integers(2**31))), 1.0)
    tokens = np.empty(length, dtype=np.int64)
    for some in np.array_split(rng.permutation(length), max(1, length // 8)):
        here = logits + rng.normal(size=(len(some), alphabet.size)).astype(np.float32)
        law = here if bias is None else bias.add_to(here, some)
        tokens[some] = (law + rng.gumbel(size=law.shape)).argmax(axis=1)
    return tokens
