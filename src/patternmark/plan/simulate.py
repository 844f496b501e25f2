"""Simulate marked sequences: natural letters, changed by the key as in marked designs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND, Alphabet
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError
from patternmark.statistics.likelihood import factors
from patternmark.statistics.rates import DELTAS, agreement_rates, with_chance

__all__ = ["marked_sequences", "rates_at"]

_ENTRIES_AT_ONCE = 2**22  # keys x symbols whose distributions are computed together


def natural_frequencies(alphabet: Alphabet = PROTEIN) -> NDArray[np.float64]:
    """Return the frequency of each symbol: measured for amino acids, otherwise all equal."""
    weights = np.zeros(alphabet.size)
    weights[alphabet.scored] = 1.0
    if alphabet == PROTEIN:
        weights = np.array(PROTEIN_BACKGROUND, dtype=float)
    return np.asarray(weights / weights.sum())


def rates_at(delta: float, alphabet: Alphabet, scheme: str) -> NDArray[np.float64]:
    """Return the rate at which each marked symbol agrees with its key at a delta: [V].

    Rates are interpolated between measured deltas; at 0 they are 1/2, as by chance.
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

    The distribution at a position is the natural one times the factors of its key. From the same
    numbers, a longer sequence begins with the shorter one.
    """
    batch, length = uniforms.shape
    schedule, profile = key.schedule, key.profile
    num_scored = profile.alphabet.num_scored
    frequencies = natural_frequencies(profile.alphabet)
    rates = with_chance(rates, profile.scheme.chance)
    keys = Marker(key).key_sequences([length] * batch, seed)
    order = np.argsort(keys, axis=None, kind="stable")  # positions grouped by key
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
