"""Coins of the default scheme for text, learned from texts: what is found, and what is not."""

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, Profile
from patternmark.attacks import TokenKnowledge, learn_pairs, learn_turns, pick_sentences
from patternmark.core.schemes import Turns
from patternmark.core.secret import Secret
from patternmark.errors import ParameterError
from tests.synthetic import text, vocabulary

SIZE = 600
LENGTH = 160  # more than a block
ALL = np.arange(SIZE)


def a_key(number: int) -> Key:
    return Key.of(Secret(bytes([number]) * 32), Profile(vocabulary(SIZE)))


def coins(key: Key) -> np.ndarray:
    assert isinstance(key.profile.scheme, Turns)
    promoted = key.schedule.promoted_rows(np.arange(0, Turns.period, Turns.block))
    return np.asarray(promoted)


@pytest.fixture(scope="module")
def texts() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return 300 texts of key 1 and 200 unmarked ones."""
    rng = np.random.default_rng(7)
    marker = Marker(a_key(1), delta=3.0)
    alphabet = vocabulary(SIZE)
    marked = [text(alphabet, LENGTH, rng, marker) for _ in range(300)]
    return marked, [text(alphabet, LENGTH, rng) for _ in range(200)]


@pytest.mark.slow
def test_texts_betray_coins(texts: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
    marked, plain = texts
    knowledge = learn_turns(marked, plain, SIZE)
    assert knowledge.auc(coins(a_key(1))) > 0.9
    assert 0.45 < knowledge.auc(coins(a_key(2))) < 0.55
    few = learn_turns(marked[:1], plain, SIZE)
    assert few.auc(coins(a_key(1))) < knowledge.auc(coins(a_key(1)))
    assert 0.45 < learn_turns(plain, plain, SIZE).auc(coins(a_key(1))) < 0.55
    assert not knowledge.log_odds[2:].any()  # no text was so long


@pytest.mark.slow
def test_texts_that_slipped_are_read_where_they_stand(
    texts: tuple[list[np.ndarray], list[np.ndarray]],
) -> None:
    marked, plain = texts
    first = [one[:100] for one in marked[:80]]
    slipped = [one if i % 3 else np.delete(one, 5) for i, one in enumerate(first)]
    apart = [np.delete(one, 5) for one in first]
    found = [learn_turns(some, plain, SIZE).auc(coins(a_key(1))) for some in (first, slipped)]
    assert found[1] > found[0] - 0.05
    assert learn_turns(apart, plain, SIZE).auc(coins(a_key(1))) < 0.4  # nothing tells them apart


@pytest.mark.slow
def test_what_was_learned_forges(
    texts: tuple[list[np.ndarray], list[np.ndarray]], rng: np.random.Generator
) -> None:
    marked, plain = texts
    knowledge = learn_turns(marked, plain, SIZE)
    forged = [knowledge.forge(LENGTH, rng) for _ in range(20)]
    sentences = [one[at : at + 15] for one in plain for at in range(0, LENGTH - 15, 15)]
    picked = [pick_sentences(knowledge, sentences, LENGTH, rng) for _ in range(20)]
    for number, least, most in ((1, 18, 20), (2, 0, 2)):
        detector = Detector(a_key(number))
        for batch in (forged, picked):
            assert least <= sum(v.prediction for v in detector.detect_many(batch)) <= most
    signs = knowledge.signs(LENGTH)
    assert knowledge.evidence(forged[0]) == pytest.approx(signs[np.arange(LENGTH), forged[0]].sum())
    moved = knowledge.evidence(forged[0][:20], at=1)
    assert moved == pytest.approx(-knowledge.evidence(forged[0][:20]))


def test_evidence_of_splits_and_pairs() -> None:
    split = TokenKnowledge(np.array([5.0, -0.5, 0.0]), np.ones(3) / 3, alternates=True)
    assert split.evidence(np.array([0, 1, 2])) == 1.5
    assert split.evidence(np.array([0, 1, 2]), at=3) == -1.5
    assert split.signs(3).tolist() == [[1, -0.5, 0], [-1, 0.5, 0], [1, -0.5, 0]]
    everywhere = TokenKnowledge(np.array([5.0, -0.5]), np.ones(2) / 2, alternates=False)
    assert everywhere.evidence(np.array([0, 1]), at=1) == 0.5
    pairs = learn_pairs([np.array([1, 2, 3])], [np.array([2, 3, 2, 3])], 5)
    assert pairs.evidence(np.array([1, 2, 4])) == 1.0
    assert pairs.evidence(np.array([2, 3, 1, 2])) == 0.0  # one too rare, one too frequent


def test_too_little_is_said(rng: np.random.Generator) -> None:
    with pytest.raises(ParameterError, match="no token"):
        learn_turns([], [np.arange(3)], SIZE)
    knowledge = learn_turns([np.array([1])], [np.arange(3)], SIZE)
    with pytest.raises(ParameterError, match="too little"):
        knowledge.forge(4, rng)
    with pytest.raises(ParameterError, match="too few sentences"):
        pick_sentences(knowledge, [np.arange(3)], 10, rng)
