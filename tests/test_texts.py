"""The two p-values of a text: one holds for any text over keys, one for natural text."""

from itertools import product

import numpy as np
import pytest

from patternmark import Alphabet, Detector, Key, Marker, ParameterError, Profile
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.cyclic import CyclicRatio
from patternmark.likelihood import Component, Mixture, Worth
from patternmark.masks.coins import times_said
from patternmark.masks.refrains import Refrains
from patternmark.statistics.texts import REPEATS_ITSELF
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
    times[symbols] = times_said(symbols)
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
    single = Worth(np.full((1, 2), 2 * rate), np.full((1, 2), 2 - 2 * rate))
    rounded = times_said(np.zeros(times, dtype=np.int64))[:1]
    shared = single.shared(rounded)
    a, b = float(shared.agreeing[0, 0]), float(shared.other[0, 0])
    for heads in range(times + 1):
        tails = times - heads
        assert (a**heads * b**tails + a**tails * b**heads) / 2 <= 1.0 + 1e-12
    np.testing.assert_array_equal(shared.agreeing[:, -1], single.agreeing[:, -1])  # of UNREAD


def turns_key(secret: Secret, **sizes: int) -> Key:
    return Key.of(secret, Profile(TOKENS, Turns(**sizes), delta=2.0))


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


def test_natural_text_is_judged_by_the_counted_null(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = turns_key(secret)
    ids = text(TOKENS, 90, rng, Marker(key))
    found = Detector(key).detect(ids)
    assert (found.note, found.num_tokens_scored) == ("", 90)
    assert found.p_value < found.p_any
    # Two pieces, another shape and few tokens have no counted null: both are the bound.
    other = turns_key(secret, starts=4)
    assert Detector(other).detect(ids).p_value == Detector(other).detect(ids).p_any
    assert Detector(key, "lr").detect(ids).p_value == found.p_any


def test_a_text_that_repeats_itself_is_judged_by_the_bound(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = turns_key(secret)
    verse = text(TOKENS, 60, rng, Marker(key))
    found = Detector(key).detect(np.tile(verse, 3))
    assert found.note == REPEATS_ITSELF
    assert found.p_value == found.p_any


def reading_of(symbols: np.ndarray) -> Reading:
    return Reading(symbols, (slice(0, len(symbols)),))


def repeats_itself(reading: Reading) -> bool:
    return Refrains.of(reading).repeats_itself


def test_what_repeats_itself(rng: np.random.Generator) -> None:
    words = rng.permutation(TOKENS.scored)
    natural = np.concatenate([words[:100], words[:12], words[200:290]])  # a phrase said again
    assert not repeats_itself(reading_of(natural))
    assert repeats_itself(reading_of(np.concatenate([words[:60], words[:60]])))
    assert repeats_itself(reading_of(np.full(40, 9)))
    some = words[:120].copy()
    some[::4] = words[0]  # one word at every fourth place, no pair of words again
    assert repeats_itself(reading_of(some))
    some[::4] = words[300:330]
    assert not repeats_itself(reading_of(some))
    for few in (0, 1):
        assert not repeats_itself(reading_of(words[:few]))


def test_what_returns_together_raises_the_p_value(rng: np.random.Generator) -> None:
    """A name of four tokens, again and again in other surroundings; not four tokens apart."""
    words = rng.permutation(TOKENS.scored)
    name, others = words[:4], words[4:]
    places = np.arange(0, 90, 15) + rng.integers(0, 8, 6)
    together = others[:100].copy()
    for place in places:
        together[place : place + 4] = name
    apart = others[:100].copy()
    for token in name:
        apart[rng.choice(100, 6, replace=False)] = token
    one, other = Refrains.of(reading_of(together)), Refrains.of(reading_of(apart))
    assert one.company > 0.15
    assert other.company < 0.1
    assert one.log_rise > other.log_rise + 1.0
    unread = together.copy()
    unread[places] = -1  # three tokens of the name are read
    assert Refrains.of(reading_of(unread)).company < one.company


@pytest.mark.parametrize("lags", [(6, 6), (7, 7), (6, 8), (5, 6), (20, 20)])
def test_company_is_the_fourth_order_of_the_mean_over_keys(lags: tuple[int, int]) -> None:
    """Two tokens that return: the mean over their coins and over a path that slips, exactly."""
    symbols = np.arange(40)
    symbols[[10, 10 + lags[0]]] = 90
    symbols[[12, 12 + lags[1]]] = 91
    coins = [(a, b) for a in (1, -1) for b in (1, -1)]
    both = np.mean([mean_over_parities(symbols, {90: a, 91: b}) for a, b in coins])
    each = [np.mean([mean_over_parities(symbols, {t: a}) for a in (1, -1)]) for t in (90, 91)]
    fourth = both - sum(each) + 1.0
    found = Refrains.of(reading_of(symbols)).company
    assert found**2 * 40 == pytest.approx(max(fourth, 0.0), rel=0.02)
    assert (found == 0.0) == (sum(lags) % 2 == 1)
    # A pair counts in as many blocks as hold both of its places.
    in_blocks = Refrains.of(reading_of(symbols), block=128).company
    assert in_blocks**2 == pytest.approx((1.0 - lags[0] / 128) * found**2)


def mean_over_parities(symbols: np.ndarray, coins: dict[int, int]) -> float:
    """The mean of the product of 1 + e c s over paths that turn back at one step in ten."""
    state = np.array([0.5, 0.5])
    for token in symbols.tolist():
        state = 0.9 * state[::-1] + 0.1 * state
        state = state * (1.0 + 0.64 * coins.get(token, 0) * np.array([1, -1]))
    return float(state.sum())


def test_a_text_twice_is_noticed_however_long(rng: np.random.Generator) -> None:
    """The second copy stands one token further on in the schedule: a slip, and all coins return."""
    words = rng.permutation(TOKENS.scored)[:1300]
    twice = np.concatenate([words[:513], words[:513]])
    refrains = Refrains.of(reading_of(twice), block=128)
    assert (refrains.company, refrains.copied) == (0.0, pytest.approx(506 / 1026))
    assert refrains.repeats_itself
    quoted = np.concatenate([words, words[100:150]])
    assert not Refrains.of(reading_of(quoted), block=128).repeats_itself
    quoted[-30::7] = -1  # nothing is known of what was not read
    assert Refrains.of(reading_of(quoted)).copied < 20 / 1300


def test_unread_tokens_and_joins_of_pieces_do_not_repeat() -> None:
    assert not repeats_itself(reading_of(np.append(np.arange(30), np.full(200, -1))))
    ids = np.tile(np.array([1, 2]), 20)
    pieces = tuple(slice(i, i + 1) for i in range(40))
    by_itself = Reading(np.arange(40), pieces)
    assert not repeats_itself(by_itself)
    assert repeats_itself(Reading(ids, (slice(0, 20), slice(20, 40))))


def test_few_tokens_have_the_bound_alone(secret: Secret) -> None:
    few = Alphabet.from_symbols("few", [f"t{i}" for i in range(100)], unscored=[])
    found = Detector(Key.of(secret, Profile(few, Turns()))).detect(np.arange(60))
    assert found.p_value == found.p_any
