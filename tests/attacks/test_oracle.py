"""An attacker who asks: real verdicts fall, within the budget that is told."""

from collections.abc import Iterator

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key
from patternmark.attacks import (
    oracle_attack,
    oracle_forge,
    partner_edits,
    protein_edits,
    text_edits,
    token_edits,
)
from patternmark.attacks.oracle import ANSWERS, Answer, Answers
from patternmark.errors import ParameterError
from patternmark.fast.compiled import force_loops
from patternmark.plan.simulate import marked_sequences, plain_sequences, rates_at


@pytest.fixture(autouse=True)
def _many_questions() -> Iterator[None]:
    with force_loops(True):  # each question is judged alone
        yield


class Asked:
    """A detector that counts what it is asked."""

    def __init__(self, key: Key) -> None:
        self.detector, self.queries = Detector(key), 0

    def __call__(self, sequences: list[np.ndarray]) -> list[Answer]:
        self.queries += len(sequences)
        verdicts = self.detector.detect_many(sequences)
        return [Answer(v.log10_p, v.prediction, v.statistic) for v in verdicts]


@pytest.fixture
def marked(key: Key, rng: np.random.Generator) -> np.ndarray:
    rates = rates_at(1.0, PROTEIN, key.profile.scheme.name)
    return marked_sequences(key, rates, rng.random((1, 400)))[0]


@pytest.mark.parametrize("answers", ANSWERS)
def test_a_real_verdict_falls(
    answers: Answers, key: Key, marked: np.ndarray, rng: np.random.Generator
) -> None:
    ask = Asked(key)
    found = oracle_attack(protein_edits(marked, rng), ask, 400, answers=answers)
    assert found.before.is_marked
    assert found.fell
    assert not Detector(key).detect(found.sequence).prediction
    assert found.queries == ask.queries <= 400
    changed = np.count_nonzero(found.sequence != marked)
    assert found.edits == changed
    # Blind edits of the same number would not do.
    blind = protein_edits(marked, rng)
    tries = [blind.make(rng.permutation(blind.number)[:changed]) for _ in range(10)]
    assert sum(v.prediction for v in Detector(key).detect_many(tries)) >= 8


def test_more_questions_cost_fewer_edits(
    key: Key, marked: np.ndarray, rng: np.random.Generator
) -> None:
    edits = protein_edits(marked, rng)
    few, many = (oracle_attack(edits, Asked(key), n) for n in (120, 1000))
    assert many.fell
    assert few.queries <= 120 < many.queries <= 1000
    assert not few.fell or few.edits > many.edits


def test_a_small_budget_is_kept_to(key: Key, marked: np.ndarray, rng: np.random.Generator) -> None:
    edits = protein_edits(marked, rng)
    for queries in (1, 2, 3, 10):
        for answers in ("p", "verdict"):
            ask = Asked(key)
            found = oracle_attack(edits, ask, queries, answers=answers)
            assert found.queries == ask.queries <= queries
    capped = oracle_attack(edits, Asked(key), 300, epsilon=0.01)
    assert capped.edits <= 4
    assert capped.after.log10_p >= capped.before.log10_p


def test_what_is_not_marked_is_left_alone(key: Key, rng: np.random.Generator) -> None:
    plain = plain_sequences(PROTEIN, 1, 300, rng)[0]
    found = oracle_attack(protein_edits(plain, rng), Asked(key), 100)
    assert np.array_equal(found.sequence, plain)
    assert (found.queries, found.edits, found.fell) == (1, 0, False)


@pytest.mark.parametrize("answers", ["statistic", "p"])
def test_numbers_forge_a_mark(answers: Answers, key: Key, rng: np.random.Generator) -> None:
    plain = plain_sequences(PROTEIN, 1, 300, rng)[0]
    ask = Asked(key)
    found = oracle_forge(partner_edits(plain, rng), ask, 1000, rng, answers=answers)
    assert found.passed
    assert Detector(key).detect(found.sequence).prediction
    assert found.queries == ask.queries <= 1000
    assert found.edits == np.count_nonzero(found.sequence != plain)


def test_verdicts_alone_do_not_forge(key: Key, rng: np.random.Generator) -> None:
    """At an FPR of 0.1 %, 50 questions pass once in twenty runs at most."""
    ask = Asked(key)
    for plain in plain_sequences(PROTEIN, 3, 300, rng):
        found = oracle_forge(partner_edits(plain, rng), ask, 50, rng, answers="verdict")
        assert (found.passed, found.queries) == (False, 50)


def test_a_forger_without_questions_left_stops(key: Key, rng: np.random.Generator) -> None:
    plain = plain_sequences(PROTEIN, 1, 300, rng)[0]
    for queries in (1, 2, 5):
        for answers in ANSWERS:
            ask = Asked(key)
            found = oracle_forge(partner_edits(plain, rng), ask, queries, rng, answers=answers)
            assert found.queries == ask.queries == queries


def test_partners_are_exchanged_and_come_back(rng: np.random.Generator) -> None:
    ids = PROTEIN.encode("AEXGPSTKR")
    edits = partner_edits(ids, rng)
    assert edits.number == 8  # X has no partner
    every = edits.make(np.arange(8))
    assert "".join(PROTEIN.letters[i] for i in every) == "EAXPGTSRK"
    assert np.array_equal(partner_edits(every, rng).make(np.arange(8)), ids)


def test_the_last_of_several_edits_of_a_token_counts(rng: np.random.Generator) -> None:
    ids = np.zeros(5, dtype=np.int64)
    edits = token_edits(ids, np.arange(1, 100), 3, rng)
    assert edits.number == 15
    alone = edits.make(np.array([12]))
    assert np.count_nonzero(alone) == 1
    assert np.array_equal(edits.make(np.array([2, 7, 12])), alone)


def test_words_are_left_out_until_the_answer_is_no(rng: np.random.Generator) -> None:
    """With a detector that counts the word "green"."""

    def ask(texts: list[str]) -> list[Answer]:
        counts = [text.split().count("green") for text in texts]
        return [Answer(-float(count), count >= 3) for count in counts]

    text = "a green leaf on a green tree in a green wood by the green sea and the green sky"
    for answers in ("p", "verdict"):
        found = oracle_attack(text_edits(text, rng), ask, 200, answers=answers)
        assert found.fell
        assert found.edits == 3  # of five, as few as can be
        assert found.sequence.split().count("green") == 2
        assert len(found.sequence.split()) == len(text.split()) - 3


def test_what_cannot_be_is_refused(key: Key, marked: np.ndarray, rng: np.random.Generator) -> None:
    edits = protein_edits(marked, rng)
    with pytest.raises(ParameterError, match="at least one query"):
        oracle_attack(edits, Asked(key), 0)
    with pytest.raises(ParameterError, match="'statistic', 'p' or 'verdict'"):
        oracle_attack(edits, Asked(key), 5, answers="maybe")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="between 0 and 1"):
        oracle_attack(edits, Asked(key), 5, epsilon=2.0)
