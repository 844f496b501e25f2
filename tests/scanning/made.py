"""Sequences for scans: drawn at random, or as a strong mark of a key would leave them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from patternmark import PROTEIN, Key, Profile, save_key
from patternmark.core.schemes import Paper, Scheme
from patternmark.core.secret import Secret

FREQUENCIES = np.array(
    [
        8.3,
        1.4,
        5.5,
        6.8,
        3.9,
        7.1,
        2.3,
        6,
        5.8,
        9.7,
        2.4,
        4.1,
        4.7,
        3.9,
        5.5,
        6.6,
        5.3,
        6.9,
        1.1,
        2.9,
    ]
)


def a_key(number: int, scheme: Scheme | None = None) -> Key:
    """Return a key, of two alternating parts unless a scheme is given."""
    return Key.of(Secret(number.to_bytes(32, "big")), Profile(scheme=scheme or Paper()))


def drawn(rng: np.random.Generator, length: int) -> str:
    """Return a sequence as random as they come."""
    ids = rng.choice(20, length, p=FREQUENCIES / FREQUENCIES.sum())
    return "".join(PROTEIN.letters[i] for i in ids)


def marked_blocks(
    rng: np.random.Generator, key: Key, length: int, rate: float = 0.85, begin: int = 0
) -> str:
    """Do the same with a block key and any nonce, from a position of its stream on."""
    schedule = key.schedule
    keys = schedule.keys(0, int(rng.integers(schedule.nonces)), begin + length)[begin:]
    letters = []
    for own in schedule.promoted_rows(keys)[:, :20]:
        weights = FREQUENCIES * (own if rng.random() < rate else ~own)
        letters.append(PROTEIN.letters[rng.choice(20, p=weights / weights.sum())])
    return "".join(letters)


def marked(rng: np.random.Generator, key: Key, length: int, rate: float = 0.85) -> str:
    """Return a sequence whose letters agree with the key at a rate."""
    members = key.partition.members[:, :20]
    phase = int(rng.integers(2))
    letters = []
    for i in range(length):
        part = (i + phase + (rng.random() >= rate)) % 2
        weights = FREQUENCIES * members[part]
        letters.append(PROTEIN.letters[rng.choice(20, p=weights / weights.sum())])
    return "".join(letters)


def fasta(sequences: Sequence[str], width: int = 60, first: int = 0) -> bytes:
    lines = []
    for number, sequence in enumerate(sequences, start=first):
        lines.append(f">s{number} made")
        lines += [sequence[at : at + width] for at in range(0, len(sequence), width)]
    return ("\n".join(lines) + "\n").encode()


def key_folder(folder: Path, keys: Sequence[Key]) -> Path:
    folder.mkdir()
    for number, key in enumerate(keys):
        save_key(key, folder / f"k{number}.key")
    return folder
