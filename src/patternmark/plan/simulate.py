"""Synthetic marked sequences: natural letters, tilted as a marked design's letters are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND, Alphabet
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError
from patternmark.statistics.likelihood import factors
from patternmark.statistics.rates import DELTAS, agreement_rates, with_chance

_ENTRIES_AT_ONCE = 2**22  # keys times symbols whose laws are made together


def natural_frequencies(alphabet: Alphabet = PROTEIN) -> NDArray[np.float64]:
    """Return how often each symbol occurs: measured for amino acids, otherwise all alike."""
    weights = np.zeros(alphabet.size)
    weights[alphabet.scored] = 1.0
    if alphabet == PROTEIN:
        weights = np.array(PROTEIN_BACKGROUND, dtype=float)
    return np.asarray(weights / weights.sum())


def rates_at(delta: float, alphabet: Alphabet, scheme: str) -> NDArray[np.float64]:
    """Return how often each marked symbol agrees at any strength up to the largest measured: [V].

    Between measured strengths the rates are interpolated; at 0 they are those of chance.
    """
    if not 0.0 <= delta <= DELTAS[-1]:
        raise ParameterError(f"agreement was measured for delta up to {DELTAS[-1]}, not {delta:g}")
    measured = agreement_rates(alphabet, scheme)  # [levels, V]
    at = np.array([0.0, *DELTAS])
    levels = np.concatenate([np.full((1, alphabet.size), 0.5), measured])
    return np.array([np.interp(delta, at, column) for column in levels.T])


def marked_sequences(
    key: Key, rates: NDArray[np.float64], uniforms: NDArray[np.float64], seed: int | str = 0
) -> NDArray[np.int64]:
    """Turn uniform numbers [B, n] into marked sequences [B, n].

    A position's letters have their natural frequencies times what the key's preference makes of
    them. A longer sequence begins like a shorter one from the same numbers.
    """
    batch, length = uniforms.shape
    schedule, profile = key.schedule, key.profile
    num_scored = profile.alphabet.num_scored
    frequencies = natural_frequencies(profile.alphabet)
    rates = with_chance(rates, profile.scheme.chance)
    keys = Marker(key).key_sequences([length] * batch, seed)
    order = np.argsort(keys, axis=None, kind="stable")  # the positions of each key together
    used, first = np.unique(keys.ravel()[order], return_index=True)
    positions = np.split(order, first[1:])
    symbols = np.empty(batch * length, dtype=np.int64)
    at_once = max(1, _ENTRIES_AT_ONCE // profile.alphabet.size)
    for at in range(0, len(used), at_once):
        some = used[at : at + at_once]
        promoted = schedule.promoted_rows(some)
        shares = np.count_nonzero(promoted, axis=1) / num_scored
        tilt = factors(promoted, rates, frequencies, shares)[:, :-1]
        law = np.cumsum(frequencies * tilt, axis=1)  # [keys, V]
        law /= law[:, -1:]
        for of_key, own in zip(law, positions[at : at + at_once], strict=True):
            drawn = uniforms.ravel()[own]
            symbols[own] = np.searchsorted(of_key[:-1], drawn, side="right")
    return symbols.reshape(batch, length)


def plain_sequences(
    alphabet: Alphabet, batch: int, length: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw unmarked sequences of natural letters: [B, n]."""
    return rng.choice(alphabet.size, size=(batch, length), p=natural_frequencies(alphabet))
