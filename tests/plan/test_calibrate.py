"""p-values of sequences without a mark are super-uniform: P(p <= a) <= a for every a."""

from __future__ import annotations

import numpy as np
import pytest

from patternmark import Detector, Key, Profile
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret

LEVELS = (0.5, 0.2, 0.1, 0.05, 0.01, 1e-3, 1e-4)


def assert_super_uniform(p: np.ndarray, *, at_least: float) -> None:
    """No level is exceeded beyond four standard errors, and the test is not vacuous."""
    for level in LEVELS:
        hits = int(np.count_nonzero(p <= level))
        assert hits <= len(p) * level + 4.0 * np.sqrt(len(p) * level * (1 - level)) + 1
    # Counts are discrete, so some conservatism is exact; all of it would be a bug.
    assert np.count_nonzero(p <= 0.1) >= at_least * 0.1 * len(p)


@pytest.mark.slow
@pytest.mark.slow
def test_100_000_unmarked_sequences(secret: Secret, rng: np.random.Generator) -> None:
    detector = Detector(Key.of(secret, Profile(scheme=Paper())), "pattern")
    lengths = rng.integers(40, 600, size=100_000)
    sequences = [rng.integers(0, 20, size=n) for n in lengths]
    p = np.array([v.p_value for v in detector.detect_many(sequences)])
    assert_super_uniform(p, at_least=0.7)


@pytest.mark.slow
def test_sequences_cut_by_unknown_residues(secret: Secret, rng: np.random.Generator) -> None:
    detector = Detector(Key.of(secret, Profile(scheme=Paper())), "pattern", m=3)
    sequences = []
    for _ in range(4000):
        ids = rng.integers(0, 20, size=rng.integers(60, 300))
        ids[rng.random(len(ids)) < 0.03] = 20
        sequences.append(ids)
    p = np.array([v.p_value for v in detector.detect_many(sequences)])
    assert_super_uniform(p, at_least=0.7)


def test_three_keys_and_unequal_parts(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Paper(chain=KeyChain.cycle(3), pattern_length=3)))
    shares = key.partition.members[:, :20].sum(axis=1) / 20  # 7, 7 and 6 letters
    detector = Detector(key, "pattern", null=KeyChain.independent(shares))
    p = np.array([v.p_value for v in detector.detect_many(rng.integers(0, 20, size=(5000, 150)))])
    assert_super_uniform(p, at_least=0.7)


def test_marked_sequences_are_found(secret: Secret, rng: np.random.Generator) -> None:
    """The other side: agreement of 0.82 over 400 symbols is found nearly always."""
    from patternmark import Marker

    key = Key.of(secret, Profile(scheme=Paper(), delta=1.5))
    marker = Marker(key)
    keys = marker.key_sequences([400] * 200, seed=7)
    logits = np.zeros((*keys.shape, 21))
    logits[..., 20] = -np.inf
    noise = rng.gumbel(size=logits.shape)
    sequences = np.argmax(marker.promote(logits, keys, temperature=1.0) + noise, axis=-1)
    verdicts = Detector(key).detect_many(sequences)
    assert sum(v.prediction for v in verdicts) >= 195
    # A split that shares half of each part tells nothing about this one. (A random split may
    # share more: then its key sees a shadow of the mark, see the method page.)
    half = [np.flatnonzero(part) for part in key.partition.members]
    crossed = [[*half[0][:5], *half[1][:5]], [*half[0][5:], *half[1][5:]]]
    other = Key.generate(Profile(scheme=Paper()), [[int(s) for s in part] for part in crossed])
    assert sum(v.prediction for v in Detector(other).detect_many(sequences)) <= 3
