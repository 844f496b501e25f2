"""Which of many keys marked a text."""

import numpy as np
import pytest

from patternmark import Key, Marker, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.fast import compiled
from patternmark.search import turn_keys
from patternmark.search.candidates import Candidate
from patternmark.search.identify import Identifier
from patternmark.search.token_keys import TokenScreen
from patternmark.search.turn_keys import TurnKeyScreen
from patternmark.statistics import excerpts
from tests.synthetic import text, vocabulary

TOKENS = vocabulary(600)
PROFILES = {
    "paper": Profile(alphabet=TOKENS, scheme=Paper(), delta=2.0),
    "turns": Profile(alphabet=TOKENS, scheme=Turns(nonces=2), delta=2.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_the_key_of_a_text_is_named(name: str, secret: Secret, rng: np.random.Generator) -> None:
    master = Key.of(secret, PROFILES[name])
    candidates = [Candidate(master.derive(f"{i}"), f"{i}") for i in range(40)]
    search = Identifier(candidates, shortlist=6)
    search.prepare()
    texts = [text(TOKENS, 100, rng, Marker(candidates[i].key)) for i in (3, 31)]
    texts += [text(TOKENS, 100, rng), np.array([0, 1, 2])]
    found = search.identify(texts, ["a", "b", "c", "d"])
    assert [one.best.candidate.name for one in found[:2]] == ["3", "31"]
    assert [one.prediction for one in found] == [True, True, False, False]
    alone = Detector(candidates[31].key).detect(texts[1])
    assert found[1].best.log_p_of_key == pytest.approx(alone.log10_p * np.log(10))
    every = Identifier(candidates, shortlist=40).identify(texts[:2], ["a", "b"])  # no screen
    assert [one.best.log_p for one in every] == [one.best.log_p for one in found[:2]]


@pytest.mark.parametrize("nonces", [1, 2])
def test_keys_that_take_turns_score_the_same_alone(
    nonces: int, secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile(alphabet=TOKENS, scheme=Turns(nonces=nonces), delta=2.0)
    keys = [Key.of(secret, profile).derive(f"{i}") for i in range(5)]
    symbols = text(TOKENS, 120, rng, Marker(keys[2]))
    readings = [
        Reading(symbols, (slice(0, 120),)),
        Reading(np.full(4, UNREAD), (slice(0, 4),)),
        Reading(text(TOKENS, 30, rng), (slice(0, 30),)),
    ]
    found = TurnKeyScreen(keys).scores(readings)
    assert int(np.argmax(found[0, :, 0])) == 2
    assert not found[1].any()
    monkeypatch.setattr(turn_keys, "_BATCH_ENTRIES", 1)  # a key at a time
    alone = [TurnKeyScreen(keys).scores([reading])[0] for reading in readings]
    np.testing.assert_allclose(np.stack(alone), found, atol=1e-4)


def test_scores_depend_neither_on_the_batch_nor_on_the_loops(
    secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    master = Key.of(secret, PROFILES["paper"])
    keys = [master.derive(f"{i}") for i in range(5)]
    symbols = text(TOKENS, 120, rng, Marker(keys[2]))
    readings = [
        Reading(symbols, (slice(0, 50), slice(50, 120))),
        Reading(np.full(4, UNREAD), (slice(0, 4),)),
        Reading(text(TOKENS, 30, rng), (slice(0, 30),)),
    ]
    with compiled.force_loops(True):
        fast = TokenScreen(keys).scores(readings)
    with compiled.force_loops(False):
        plain = TokenScreen(keys).scores(readings)
        monkeypatch.setattr(excerpts, "_MAX_ENTRIES", 4)
        alone = TokenScreen(keys).scores(readings)
    assert fast.shape == (3, 5, 1)
    np.testing.assert_array_equal(fast, plain)
    np.testing.assert_array_equal(fast, alone)
    assert int(np.argmax(fast[0, :, 0])) == 2
    assert not fast[1].any()
