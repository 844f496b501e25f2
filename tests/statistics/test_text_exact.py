"""The p-value of one text, held against every key there is, and against texts made to fool it."""

from itertools import product

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.intervals import binomial_tail
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.likelihood import Component, log_mean_exp
from patternmark.statistics.text_draws import SAME, Marks, Stream, draw_keys, log_p_of_draws
from patternmark.statistics.text_exact import MOST_TOKENS
from patternmark.statistics.texts import PROVEN_P, SMALL_P, TOO_LONG
from tests.statistics.test_hard_texts import LUCK, hard_texts
from tests.statistics.test_hard_texts import TOKENS as HARD
from tests.synthetic import text, vocabulary

PERIOD, BLOCK, NUM_TOKENS = 4, 2, 4
RATES = np.array([[0.72] * NUM_TOKENS, [0.9] * NUM_TOKENS])
COMPONENTS = (
    Component(0),
    Component(1, anywhere=True),
    Component(0, slip=0.1),
    Component(1, slip=0.3, anywhere=True),
    Component(1, slip=0.02, edge=0.1, anywhere=True),
    Component(1, slip=0.1, is_shared=True),
)
WEIGHTS = np.log([0.25, 0.25, 0.2, 0.1, 0.1, 0.1])
TEXTS = {
    "all different": [0, 1, 2, 3],
    "one word": [2] * 9,
    "two words in turn": [0, 1] * 5,
    "one word at every second place": [3, 0, 3, 1, 3, 2, 3, 0],
    "a verse": [0, 1, 2] * 4,
    "some again, some unread": [0, 0, -1, 1, 3, 1, 2, 0, 3, -1, 0],
}
TIMES = np.array([1, 2, 3, 1])  # whatever shares a coin
TOKENS = vocabulary(2000)


def every_key() -> np.ndarray:
    """All coins of two blocks and four tokens: [keys, blocks, U]."""
    bits = product([False, True], repeat=PERIOD // BLOCK * NUM_TOKENS)
    return np.array(list(bits)).reshape(-1, PERIOD // BLOCK, NUM_TOKENS)


def log_ratios(coins: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Ln of each component's ratio under keys: [keys, C]."""
    schedules = []
    for own in coins:
        promoted = np.repeat(own, BLOCK, axis=0)
        promoted[1::2] ^= True
        schedules.append(promoted)
    ratio = CyclicRatio(
        schedules, RATES, np.array([0]), COMPONENTS, shares=np.array([0.5]), times=TIMES
    )
    return ratio.log_ratios(symbols[None])[0]


def marks_of(symbols: np.ndarray) -> Marks:
    rates = RATES[[c.level for c in COMPONENTS]]
    power = np.where([[c.is_shared] for c in COMPONENTS], 1.0 / TIMES, 1.0)
    return Marks(
        components=COMPONENTS,
        numbers=tuple(range(len(COMPONENTS))),
        log_weights=WEIGHTS,
        agreeing=(2 * rates) ** power,
        other=(2 - 2 * rates) ** power,
        tokens=symbols,
        starts=np.array([0]),
        period=PERIOD,
        block=BLOCK,
    )


@pytest.mark.parametrize("name", TEXTS)
def test_means_and_tails_are_those_of_all_keys(name: str) -> None:
    symbols = np.array(TEXTS[name])
    ratios = log_ratios(every_key(), symbols)
    means = log_mean_exp(ratios.T)  # [C] over all 256 keys, exactly
    drawn = draw_keys(marks_of(symbols), 4000, Stream(Secret(bytes(32)), name), particles=4000)
    np.testing.assert_allclose(drawn.log_means, means, atol=0.08)
    log_es = log_mean_exp(ratios + WEIGHTS - drawn.log_means, total=True)
    of_drawn = log_ratios(drawn.coins, symbols) + WEIGHTS - drawn.log_means
    drawn_es = log_mean_exp(of_drawn, total=True)
    for level in (0.3, 0.1, 0.02):
        log_e = float(np.quantile(log_es, 1 - level))
        exact = np.mean(log_es >= log_e - SAME)
        estimate = np.exp(log_p_of_draws(log_e, drawn_es))
        assert estimate == pytest.approx(exact, rel=0.1), (level, exact)


@pytest.mark.parametrize("name", TEXTS)
def test_over_all_keys_small_p_values_are_as_rare_as_they_say(name: str) -> None:
    """With few draws, too: every key takes its turn as the one under test."""
    symbols = np.array(TEXTS[name])
    ratios = log_ratios(every_key(), symbols)
    marks, log_p = marks_of(symbols), []
    for number, own in enumerate(ratios):
        drawn = draw_keys(marks, 20, Stream(Secret(bytes(32)), f"{name}/{number}"), particles=32)
        log_weights = WEIGHTS - drawn.log_means
        log_es = log_mean_exp(log_ratios(drawn.coins, symbols) + log_weights, total=True)
        log_p.append(log_p_of_draws(float(log_mean_exp(own + log_weights, total=True)), log_es))
    for level in (0.3, 0.1, 0.03):
        hits = int(np.count_nonzero(np.array(log_p) <= np.log(level)))
        assert binomial_tail(hits, len(log_p), level) > 1e-4, (level, hits)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [Turns(), Paper()])
def test_small_p_values_of_hard_texts_are_as_rare_as_they_say(scheme: Turns | Paper) -> None:
    """Texts on which chance is lucky far more often than on natural ones."""
    texts = hard_texts()
    texts["a form, changed a little"] = np.concatenate([_form(n) for n in range(4)])
    other = Marker(Key.of(Secret(b"o" * 32), Profile(HARD, Turns(), delta=5.0)))
    texts["marked by another key"] = text(HARD, 90, np.random.default_rng(5), other)
    hits = dict.fromkeys(texts, 0)
    num_keys = 150
    for number in range(num_keys):
        key = Key.of(Secret(number.to_bytes(32, "big")), Profile(HARD, scheme))
        for verdict in Detector(key).detect_many(texts.values(), list(texts)):
            hits[verdict.id] += verdict.p_value <= SMALL_P
    for name, count in hits.items():
        assert binomial_tail(count, num_keys, SMALL_P) > LUCK, (name, count)
    assert sum(hits.values()) > 0  # and not idle


def _form(number: int) -> np.ndarray:
    form = np.arange(200, 251)
    form[number::7] = 600 + 40 * number + np.arange(len(form[number::7]))
    return form


def test_a_text_and_a_key_have_one_p_value(secret: Secret, rng: np.random.Generator) -> None:
    """Whatever is judged beside it, and however often; another key draws other numbers."""
    key = Key.of(secret, Profile(TOKENS, Turns(), delta=2.0))
    texts = [text(TOKENS, n, rng, Marker(key)) for n in (30, 40, 50)]
    together = [v.p_value for v in Detector(key).detect_many(texts)]
    alone = [Detector(key).detect(ids).p_value for ids in texts]
    assert together == alone
    assert max(together) < SMALL_P
    streams = [Stream(Secret(bytes([n]) * 32), "x").uniforms(3).tolist() for n in (0, 0, 1)]
    assert streams[0] == streams[1] != streams[2]


def test_repeats_that_please_one_component_do_not_drown_the_others(
    secret: Secret, rng: np.random.Generator
) -> None:
    """A marked text in which one word returns at even places is found as others are."""
    key = Key.of(secret, Profile(TOKENS, Turns(), delta=5.0))
    ids = text(TOKENS, 60, rng, Marker(key))
    before = Detector(key).detect(ids)
    ids[::6] = ids[0]
    found = Detector(key).detect(ids)
    assert before.prediction
    assert found.prediction
    assert found.p_value < found.p_any


def test_of_very_long_texts_only_the_bound_is_told(
    secret: Secret, rng: np.random.Generator
) -> None:
    """Keys are not drawn for them: marked ones are proven to be."""
    weak = Key.of(secret, Profile(TOKENS, Turns(), delta=0.2))
    texts = [text(TOKENS, MOST_TOKENS + 1, rng, Marker(weak)) for _ in range(6)]
    found = Detector(weak).detect_many(texts)
    judged = [verdict for verdict in found if verdict.note == TOO_LONG]
    assert judged
    assert all(verdict.p_value == verdict.p_any > PROVEN_P for verdict in judged)


def test_many_nonces_cost_a_factor(secret: Secret, rng: np.random.Generator) -> None:
    one, many = (Key.of(secret, Profile(TOKENS, Turns(nonces=n), delta=2.0)) for n in (1, 8))
    ids = text(TOKENS, 60, rng, Marker(one))  # nonce 0 of both
    few, more = (Detector(key).detect(ids) for key in (one, many))
    assert 2.0 < more.p_value / few.p_value < 40.0
