"""The two p-values of a text: one holds for any text over keys, one for natural text."""

from itertools import product

import numpy as np
import pytest

from patternmark import Alphabet, Detector, Key, Marker, ParameterError, Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.masks.coins import count_occurrences
from patternmark.null.mixture import text_null
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.likelihood import Component, Mixture, SymbolFactors
from patternmark.statistics.texts import PROVEN_P
from tests.synthetic import text, vocabulary

NUM_TOKENS, PERIOD, BLOCK = 5, 4, 2
RATES = np.array([[0.72] * NUM_TOKENS, [0.9] * NUM_TOKENS])
SHARED = (
    Component(0, is_shared=True),
    Component(1, is_shared=True),
    Component(1, anywhere=True, is_shared=True),
    Component(0, slip=0.1, is_shared=True),
    Component(1, slip=0.3, anywhere=True, is_shared=True),
    Component(1, slip=0.02, edge=0.1, anywhere=True, is_shared=True),
    Component(1),
)
MIXED = Mixture(SHARED, (0.0,) * 6 + (1.0,), (0.0,) * 6 + (1.0,), (0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0))
TEXTS = {
    "all different": [0, 1, 2, 3, 4],
    "one word": [2] * 9,
    "two words in turn": [0, 1] * 5,
    "one word at every second place": [3, 0, 3, 1, 3, 2, 3, 4],
    "a verse": [0, 1, 2, 3] * 3,
    "some again": [0, 0, 1, 4, 1, 2, 0, 3, 4, 4, 0],
}
TOKENS = vocabulary(2000)


def every_schedule() -> list[np.ndarray]:
    """All tables of a coin for each block and token, with turns: [P, V] each."""
    found = []
    for bits in product([False, True], repeat=PERIOD // BLOCK * NUM_TOKENS):
        promoted = np.repeat(np.array(bits).reshape(-1, NUM_TOKENS), BLOCK, axis=0)
        promoted[1::2] ^= True
        found.append(promoted)
    return found


def means_over_keys(symbols: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean over every key of each component's ratio [C], and of the e-value for any text."""
    ratio = CyclicRatio(
        every_schedule(), RATES, np.array([0]), SHARED, shares=np.array([0.5]), times=times
    )
    found = ratio.log_ratios(symbols[None])[0]  # [keys, C]
    return np.exp(found).mean(axis=0), float(np.exp(MIXED.mix_for_any(found)).mean())


def times_by_token(symbols: np.ndarray) -> np.ndarray:
    times = np.ones(NUM_TOKENS, dtype=np.int64)
    times[symbols] = count_occurrences(symbols)
    return times


@pytest.mark.parametrize("name", TEXTS)
def test_the_mean_over_all_keys_is_at_most_one_for_any_text(name: str) -> None:
    symbols = np.array(TEXTS[name])
    each, mixed = means_over_keys(symbols, times_by_token(symbols))
    assert (each[:-1] <= 1.0 + 1e-5).all()  # of every shared component
    assert mixed <= 1.0 + 1e-5
    assert mixed > 0.4  # and not idle
    if name == "all different":
        np.testing.assert_allclose(each, 1.0, atol=1e-5)


@pytest.mark.parametrize("name", ["two words in turn", "a verse"])
def test_counted_in_full_a_text_that_repeats_itself_would_exceed_it(name: str) -> None:
    """The check above can fail."""
    symbols = np.array(TEXTS[name])
    once = np.ones(NUM_TOKENS, dtype=np.int64)
    assert means_over_keys(symbols, once)[1] > 1.02
    assert means_over_keys(symbols, times_by_token(symbols))[0][-1] > 1.02  # what is not shared


@pytest.mark.parametrize("rate", [0.65, 0.9])
@pytest.mark.parametrize("times", [1, 2, 3, 7, 9, 40])
def test_a_coin_met_so_often_has_a_mean_of_at_most_one(rate: float, times: int) -> None:
    """However many of its places agree where the coin is heads: the others do where it is not."""
    single = SymbolFactors(np.full((1, 2), 2 * rate), np.full((1, 2), 2 - 2 * rate))
    rounded = count_occurrences(np.zeros(times, dtype=np.int64))[:1]
    shared = single.shared(rounded)
    a, b = float(shared.agree[0, 0]), float(shared.disagree[0, 0])
    for heads in range(times + 1):
        tails = times - heads
        assert (a**heads * b**tails + a**tails * b**heads) / 2 <= 1.0 + 1e-12
    np.testing.assert_array_equal(shared.agree[:, -1], single.agree[:, -1])  # of UNREAD


def turns_key(secret: Secret, **sizes: int) -> Key:
    return Key.of(secret, Profile(TOKENS, Turns(**sizes), delta=2.0))


@pytest.mark.slow
def test_a_strict_call_is_made_by_what_holds_for_any_text(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = turns_key(secret)
    texts = [text(TOKENS, n, rng, Marker(key)) for n in range(12, 60, 3)]
    usual, strict = Detector(key), Detector(key, strict=True)
    pairs = list(zip(usual.detect_many(texts), strict.detect_many(texts), strict=True))
    for one, other in pairs:
        assert one.prediction is (one.p_value <= 1e-3)
        assert other.prediction is (other.p_any <= 1e-3)
        assert (one.p_value, one.p_any) == (other.p_value, other.p_any)
        assert one.signature != other.signature
        assert one.signature.endswith("|call:p")
        assert other.signature.endswith("|call:p_any")
    calls = {(one.prediction, other.prediction) for one, other in pairs}
    assert {(True, True), (True, False)} <= calls  # and it matters


def test_a_strict_call_knows_what_is_too_short(secret: Secret) -> None:
    """Nine of one word are one word to it."""
    judge = Detector(turns_key(secret), strict=True)
    assert judge.detect(np.full(300, 7)).status.value == "too_short"
    assert judge.detect(np.zeros(0, dtype=np.int64)).status.value == "nothing_to_score"


def test_a_strict_call_needs_such_a_p_value(secret: Secret, rng: np.random.Generator) -> None:
    ids = text(TOKENS, 60, rng)
    for profile, sequence in (
        (Profile(TOKENS, Paper()), ids),
        (Profile(scheme=Paper()), "ACDEFGHIKLMNPQRSTVWY"),
    ):
        judge = Detector(Key.of(secret, profile), strict=True)
        with pytest.raises(ParameterError, match="judge without 'strict'"):
            judge.detect(sequence)
    with pytest.raises(ParameterError, match="'phase' has no p-value that holds for any"):
        Detector(turns_key(secret), "phase", strict=True).detect(ids)


def test_natural_text_is_judged_by_the_counted_null_unless_p_is_small(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = turns_key(secret)
    judge = Detector(key)
    unmarked = judge.detect(text(TOKENS, 90, rng))
    null = text_null("turns", judge.statistic.made_for([])[0].mixture.digest)
    counted = null.log_tail(np.array([unmarked.statistic]), np.array([90]))
    assert unmarked.p_value > 0.02
    assert unmarked.p_value == pytest.approx(np.exp(counted[0]))
    marked = judge.detect(text(TOKENS, 30, rng, Marker(key)))
    assert (marked.note, marked.num_tokens_scored) == ("", 30)
    assert PROVEN_P < marked.p_value < marked.p_any
    # Another shape and pieces have no counted null.
    other = Detector(turns_key(secret, starts=4))
    verdict = other.detect(text(TOKENS, 90, rng))
    assert verdict.p_value == verdict.p_any
    assert Detector(key, "lr").detect(text(TOKENS, 90, rng)).detector == "lr"


def test_a_proven_p_value_needs_no_keys(
    secret: Secret, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long marked texts are proven to be marked, and take no longer than others."""
    key = turns_key(secret)
    judge = Detector(key)
    ids = text(TOKENS, 400, rng, Marker(key))
    found = judge.detect(ids)
    assert found.p_any < PROVEN_P

    def draw(*given: object) -> None:
        raise AssertionError("keys were drawn")

    monkeypatch.setattr("patternmark.statistics.text_exact.Cloud", draw)
    assert judge.detect(ids).p_value == found.p_value == found.p_any
    with pytest.raises(AssertionError, match="keys were drawn"):
        judge.detect(ids[:60])


def test_few_tokens_have_the_bound_alone(secret: Secret) -> None:
    few = Alphabet.from_symbols("few", [f"t{i}" for i in range(100)], unscored=[])
    found = Detector(Key.of(secret, Profile(few, Turns()))).detect(np.arange(60))
    assert found.p_value == found.p_any
