"""The p-value of one text, held against every key there is, and against texts made to fool it."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from patternmark import Alphabet, Detector, Key, Marker, Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.intervals import binomial_tail
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.likelihood import Component, log_mean_exp
from patternmark.statistics.text_draws import (
    TOLERANCE,
    Cloud,
    Marks,
    Stream,
    draw_path,
    log_p_of_draws,
)
from patternmark.statistics.text_exact import MAX_TOKENS
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
FOOLED = Profile(Alphabet.from_symbols("tokens", [f"t{i}" for i in range(600)], [0]), Turns())


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


def judged(
    symbols: np.ndarray, own: np.ndarray, stream: Stream, *, particles: int, keys: int
) -> float:
    """Ln p of one key, step by step as `TextKeys.log_p` takes them."""
    marks = marks_of(symbols)
    log_weights = WEIGHTS - Cloud(marks, stream, particles).log_means
    shares = log_ratios(own[None], symbols)[0] + log_weights
    path = draw_path(marks, stream.choice(np.exp(shares - shares.max())), own, stream)
    drawn = Cloud(marks, stream, particles, kept=path).draw_keys(own, keys)
    log_es = log_mean_exp(log_ratios(drawn.coins, symbols) + log_weights, total=True)
    log_es += (WEIGHTS - log_weights - drawn.log_means)[drawn.components]
    return log_p_of_draws(log_es, drawn.tested)


@pytest.mark.parametrize("name", TEXTS)
def test_means_are_those_of_all_keys(name: str) -> None:
    symbols = np.array(TEXTS[name])
    means = log_mean_exp(log_ratios(every_key(), symbols).T)  # [C] over all 256 keys, exactly
    found = Cloud(marks_of(symbols), Stream(Secret(bytes(32)), name), particles=4000).log_means
    np.testing.assert_allclose(found, means, atol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_with_many_draws_it_is_the_share_of_keys_that_do_as_well(name: str) -> None:
    """Of keys that do equally well, some count: which, the estimates of means decide."""
    symbols = np.array(TEXTS[name])
    ratios = log_ratios(every_key(), symbols)
    log_es = log_mean_exp(ratios + WEIGHTS - log_mean_exp(ratios.T), total=True)
    for level in (0.3, 0.1, 0.02):
        at = int(np.argsort(-log_es)[int(level * len(log_es))])
        better, as_well = (np.mean(log_es >= log_es[at] + by) for by in (TOLERANCE, -TOLERANCE))
        stream = Stream(Secret(bytes(32)), f"{name}/{level}")
        found = np.exp(judged(symbols, every_key()[at], stream, particles=3000, keys=3001))
        assert 0.8 * better < found < 1.2 * as_well, level


@pytest.mark.slow
@pytest.mark.parametrize("particles", [3, 40])
@pytest.mark.parametrize("name", TEXTS)
def test_over_all_keys_small_p_values_are_as_rare_as_they_say(name: str, particles: int) -> None:
    """However few particles there are: every key takes its turn as the one under test."""
    symbols, log_p = np.array(TEXTS[name]), []
    for number, own in enumerate(every_key()):
        stream = Stream(Secret(bytes(32)), f"{name}/{particles}/{number}")
        log_p.append(judged(symbols, own, stream, particles=particles, keys=21))
    for level in (0.3, 0.1, 0.03):
        hits = int(np.count_nonzero(np.array(log_p) <= np.log(level)))
        assert binomial_tail(hits, len(log_p), level) > 1e-4, (level, hits)


def test_a_path_is_drawn_as_likely_as_it_is(rng: np.random.Generator) -> None:
    """Held against all paths of a short text: a component that slips, and one with edges."""
    symbols, own = np.array([0, 1, 0]), every_key()[77]
    marks = marks_of(symbols)
    for number in (2, 4):
        stream = Stream(Secret(bytes(32)), f"paths/{number}")
        drawn = [draw_path(marks, number, own, stream) for _ in range(3000)]
        counts = Counter((*p.phases.tolist(), *p.states.tolist()) for p in drawn)
        weights = _weights_of_paths(marks, number, own)
        for path, weight in weights.items():
            share = weight / sum(weights.values())
            assert counts[path] / 3000 == pytest.approx(share, abs=0.04), path
        assert set(counts) <= set(weights)


def _weights_of_paths(marks: Marks, number: int, own: np.ndarray) -> dict[tuple[int, ...], float]:
    """Prior times ratio of every path, added up step by step."""
    component, promoted = marks.components[number], marks.promoted(own)
    slip, edge = component.per_step
    first = marks.first_law(component)
    # A state is a phase, or a number below 0: -1 not marked yet, -2 no longer.
    begun = {(-1,): 1.0} if edge else {(p,): float(w) for p, w in enumerate(first) if w}
    paths = {((), state): weight for state, weight in begun.items()}
    for place, token in enumerate(marks.tokens.tolist()):
        moved: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
        for (visited, (at,)), weight in paths.items():
            for to, chance in _moves(at, place, component, first, slip, edge):
                factor = 1.0
                if to >= 0:
                    agrees = promoted[(to + place) % marks.period, token]
                    factor = (marks.agreeing if agrees else marks.other)[number, token]
                moved[(*visited, to), (to,)] += weight * chance * factor
        paths = dict(moved)
    found: Counter[tuple[int, ...]] = Counter()
    for (visited, _), weight in paths.items():
        states = tuple(1 if at >= 0 else {-1: 0, -2: 2}[at] for at in visited)
        found[(*(max(at, 0) for at in visited), *states)] += weight
    return {path: weight for path, weight in found.items() if weight > 0.0}


def _moves(
    at: int, place: int, component: Component, first: np.ndarray, slip: float, edge: float
) -> list[tuple[int, float]]:
    if place % component.stride:
        return [(at, 1.0)]
    if at == -2:
        return [(-2, 1.0)]
    if at == -1:
        return [(-1, 1.0 - edge), *((p, edge * float(w)) for p, w in enumerate(first))]
    stays = 1.0 - edge
    up, down = (at + 1) % PERIOD, (at - 1) % PERIOD
    moves = [(at, stays * (1.0 - slip)), (up, stays * slip / 2), (down, stays * slip / 2)]
    return [*moves, (-2, edge)]


def bait() -> np.ndarray:
    """A text made to hide paths: copies whose phases die before they are worth something."""
    refrain = np.arange(1, 14)
    a, b, c = np.arange(100, 104), np.arange(104, 108), np.arange(108, 111)
    gap, left, right, last = (np.zeros(n, dtype=np.int64) for n in (51, 8, 6, 2))
    middle = [a, left, b, right, c, last, a, b, c, last]
    return np.concatenate([gap, np.tile(refrain, 4), *middle, np.tile(refrain, 3)])


MADE_TO_FOOL = {
    "a refrain of 13 words": np.tile(np.arange(1, 14), 7),
    "a refrain of 21 words": np.tile(np.arange(1, 22), 5),
    "bait": bait(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE_TO_FOOL)
def test_texts_made_to_fool_it_do_not(name: str) -> None:
    """They passed two to forty times too often before the key under test joined the cloud."""
    num_keys, found = 400, []
    for number in range(num_keys):
        key = Key.of(Secret(bytes([*number.to_bytes(2, "big"), *b"fool" * 8][:32])), FOOLED)
        found.append(Detector(key).detect(MADE_TO_FOOL[name]).p_value)
    for level in (SMALL_P, 0.005):
        hits = int(np.count_nonzero(np.array(found) <= level))
        assert binomial_tail(hits, num_keys, level) > 1e-3, (level, hits)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [Turns(), Paper()])
def test_small_p_values_of_hard_texts_are_as_rare_as_they_say(scheme: Turns | Paper) -> None:
    """Texts on which chance is lucky far more often than on natural ones."""
    texts = hard_texts()
    texts["a form, changed a little"] = np.concatenate([_form(n) for n in range(4)])
    other = Marker(Key.of(Secret(b"o" * 32), Profile(HARD, Turns(), delta=5.0)))
    texts["marked by another key"] = text(HARD, 90, np.random.default_rng(5), other)
    hits = dict.fromkeys(texts, 0)
    num_keys = 100
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


@pytest.mark.slow
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
    assert found.p_value <= found.p_any


def test_of_very_long_texts_only_the_bound_is_told(
    secret: Secret, rng: np.random.Generator
) -> None:
    """Keys are not drawn for them: marked ones are proven to be."""
    weak = Key.of(secret, Profile(TOKENS, Turns(), delta=0.2))
    texts = [text(TOKENS, MAX_TOKENS + 1, rng, Marker(weak)) for _ in range(6)]
    found = Detector(weak).detect_many(texts)
    judged = [verdict for verdict in found if verdict.note == TOO_LONG]
    assert judged
    assert all(verdict.p_value == verdict.p_any > PROVEN_P for verdict in judged)


def test_many_nonces_cost_a_factor(secret: Secret, rng: np.random.Generator) -> None:
    one, many = (Key.of(secret, Profile(TOKENS, Turns(nonces=n), delta=2.0)) for n in (1, 8))
    ids = text(TOKENS, 60, rng, Marker(one))  # nonce 0 of both
    few, more = (Detector(key).detect(ids) for key in (one, many))
    assert 2.0 < more.p_value / few.p_value < 40.0
