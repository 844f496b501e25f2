"""Splits of a large vocabulary, learned from texts: what each attack finds, and what hides."""

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, Profile
from patternmark.attacks import learn_frequencies, learn_pairs, learn_phases
from patternmark.attacks.tokens import auc
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError
from tests.synthetic import text, vocabulary

SIZE = 2000
LENGTH = 128


@pytest.fixture(scope="module")
def key() -> Key:
    return Key.of(Secret(bytes(range(32))), Profile(alphabet=vocabulary(SIZE), scheme=Paper()))


@pytest.fixture(scope="module")
def texts(key: Key) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return 200 marked texts and 200 unmarked ones."""
    rng = np.random.default_rng(7)
    marker = Marker(key, delta=3.0)
    alphabet = key.profile.alphabet
    marked = [text(alphabet, LENGTH, rng, marker) for _ in range(200)]
    return marked, [text(alphabet, LENGTH, rng) for _ in range(200)]


def part_of(key: Key) -> np.ndarray:
    return key.partition.members[0]


def passed(key: Key, forged: list[np.ndarray]) -> float:
    return sum(v.prediction for v in Detector(key).detect_many(forged)) / len(forged)


@pytest.mark.slow
def test_phases_betray_alternating_keys(
    key: Key, texts: tuple[list[np.ndarray], list[np.ndarray]], rng: np.random.Generator
) -> None:
    marked, plain = texts
    knowledge = learn_phases(marked, SIZE)
    assert knowledge.auc(part_of(key)) > 0.8
    assert passed(key, [knowledge.forge(LENGTH, rng) for _ in range(40)]) > 0.9
    nothing = learn_phases(plain, SIZE)
    assert nothing.auc(part_of(key)) < 0.6
    assert passed(key, [nothing.forge(LENGTH, rng) for _ in range(40)]) < 0.2
    few = learn_phases(marked[:10], SIZE)
    assert few.auc(part_of(key)) < knowledge.auc(part_of(key))


@pytest.mark.slow
def test_frequencies_do_not(key: Key, texts: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
    knowledge = learn_frequencies(*texts, SIZE)
    assert 0.4 < knowledge.auc(part_of(key)) < 0.6


@pytest.mark.slow
def test_frequencies_betray_a_part_promoted_everywhere(
    key: Key, texts: tuple[list[np.ndarray], list[np.ndarray]], rng: np.random.Generator
) -> None:
    """As Unigram does: here made by drawing more of the texts' tokens from one part."""
    _, plain = texts
    green = part_of(key)
    law = np.bincount(np.concatenate(plain), minlength=SIZE) * np.where(green, np.exp(2.0), 1.0)
    marked = [rng.choice(SIZE, size=LENGTH, p=law / law.sum()) for _ in range(200)]
    knowledge = learn_frequencies(marked, plain, SIZE)
    assert knowledge.auc(green) > 0.75
    forged = np.concatenate([knowledge.forge(LENGTH, rng) for _ in range(20)])
    assert green[forged].mean() > 0.9
    weak = np.concatenate([knowledge.forge(LENGTH, rng, strength=1.0) for _ in range(20)])
    assert 0.5 < green[weak].mean() < green[forged].mean()


@pytest.mark.slow
def test_pairs_betray_alternating_keys(
    key: Key, texts: tuple[list[np.ndarray], list[np.ndarray]], rng: np.random.Generator
) -> None:
    marked, plain = texts
    part = part_of(key)
    knowledge = learn_pairs(marked, plain, SIZE)
    assert knowledge.auc(lambda a, b: part[a] != part[b]) > 0.52
    forged = [knowledge.forge(LENGTH, rng) for _ in range(40)]
    assert all(len(text) == LENGTH for text in forged)
    assert passed(key, forged) > 0.5
    nothing = learn_pairs(plain[:100], plain[100:], SIZE)
    assert passed(key, [nothing.forge(LENGTH, rng) for _ in range(40)]) < 0.2


def test_a_chain_of_pairs_at_a_lag(rng: np.random.Generator) -> None:
    marked = [np.array([1, 5, 2, 6, 3, 7] * 10)]
    knowledge = learn_pairs(marked, [np.array([9, 9, 9, 9])], 10, lag=2)
    forged = knowledge.forge(60, rng)
    seen = {(1, 2), (2, 3), (3, 1), (5, 6), (6, 7), (7, 5)}
    assert set(zip(forged[:-2].tolist(), forged[2:].tolist(), strict=True)) <= seen


def test_too_little_is_said(rng: np.random.Generator) -> None:
    assert auc(np.array([0.1, 0.9]), np.array([False, True])) == 1.0
    with pytest.raises(ParameterError, match="one positive and one negative"):
        auc(np.array([0.1, 0.9]), np.array([True, True]))
    with pytest.raises(ParameterError, match="no token"):
        learn_frequencies([], [np.arange(3)], 5)
    with pytest.raises(ParameterError, match="no pair"):
        learn_pairs([np.arange(1)], [np.arange(3)], 5)
    with pytest.raises(ParameterError, match="too little"):
        learn_frequencies([np.arange(3)], [np.arange(3)], 5).forge(10, rng)
