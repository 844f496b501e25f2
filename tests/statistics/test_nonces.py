"""A number of up to 16 bits in a text: rough ratios of all nonces, and what is read from them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from patternmark import Detector, Key, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading
from patternmark.core.schemes import Turns
from patternmark.core.secret import Secret
from patternmark.core.turns import TurnSchedule
from patternmark.statistics.base import likeliest_nonce
from patternmark.statistics.cyclic import PathRatios
from patternmark.statistics.likelihood import symbol_factors
from patternmark.statistics.nonces import NONCES_TESTED, NonceScreen, likeliest_nonces
from patternmark.statistics.rates import agreement_rates
from patternmark.statistics.stretches import (
    ROUGH_MIXTURE,
    KeyCoins,
    NonceCoins,
    RoughRatios,
    Shape,
)
from tests.synthetic import vocabulary

TOKENS = vocabulary(2000)
STEADY = [c for c in ROUGH_MIXTURE.components if c.is_steady]


def key_of(secret: Secret, nonces: int) -> Key:
    return Key.of(secret, Profile(alphabet=TOKENS, scheme=Turns(nonces=nonces)))


def written(
    schedule: TurnSchedule, nonce: int, length: int, rate: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw different tokens at random, such that each agrees with its key at some rate."""
    left = rng.permutation(TOKENS.scored)
    promoted = schedule.promoted_to(nonce, left)
    taken = []
    for place in range(length):
        agrees = promoted[place % schedule.period] == (rng.random() < rate)
        agrees[taken] = False
        taken.append(int(np.argmax(agrees)))
    return np.asarray(left[taken])


def reading_of(symbols: np.ndarray) -> Reading:
    return Reading(symbols, (slice(0, len(symbols)),))


@pytest.mark.parametrize("nonces", [2, 5, 64])
def test_sums_of_all_nonces_are_those_of_each(
    nonces: int, secret: Secret, rng: np.random.Generator
) -> None:
    schedule = TurnSchedule(secret, TOKENS, 64, block=16, nonces=nonces, starts=1)
    symbols = rng.choice(TOKENS.scored, 9, replace=False)
    weights = rng.normal(size=6).astype(np.float32)
    some, blocks = np.array([0, 3, 3, 8, 1, 2]), np.array([1, 3])
    found = NonceCoins(schedule, symbols).sums(blocks, some, weights)
    assert found.shape == (2, nonces)
    for nonce in range(nonces):
        coins = schedule.promoted_to(nonce, symbols)[blocks * 16][:, some]
        np.testing.assert_allclose(found[:, nonce], np.where(coins, 1, -1) @ weights, atol=1e-5)
    signs = np.where(schedule.promoted_to(1, symbols)[::16], 1, -1).astype(np.float32)
    of_key = KeyCoins(signs[None]).sums(blocks, some, weights)
    np.testing.assert_allclose(of_key[:, 0], found[:, 1], atol=1e-5)


def test_steady_marks_are_judged_exactly(secret: Secret, rng: np.random.Generator) -> None:
    schedule = TurnSchedule(secret, TOKENS, 64, block=16, nonces=4, starts=2)
    symbols = np.sort(rng.choice(TOKENS.scored, 50, replace=False))
    chain = np.append(rng.integers(0, 50, 70), UNREAD)
    rates = agreement_rates(TOKENS, "turns")[:, symbols]
    rough = RoughRatios(rates, Shape.of(schedule))
    found = rough.by_component(chain, NonceCoins(schedule, symbols))
    own = [i for i, c in enumerate(ROUGH_MIXTURE.components) if c.is_steady]
    for nonce in range(4):
        promoted = schedule.promoted_to(nonce, symbols)
        worths = {
            c.table: symbol_factors(promoted, rates[c.level], shares=schedule.shares)
            for c in STEADY
        }
        exact = PathRatios(promoted, worths, schedule.starts, STEADY).log_ratios(chain[None])[0]
        np.testing.assert_allclose(found[nonce, own], exact, atol=1e-3)


def test_the_mean_over_all_coins_is_one(secret: Secret) -> None:
    """Of every component: ratios of coarser paths, not mere scores."""
    schedule = TurnSchedule(secret, TOKENS, 8, block=4, nonces=1, starts=1)
    every = np.array(list(product([-1, 1], repeat=8)), dtype=np.float32).reshape(-1, 2, 4)
    rates = agreement_rates(TOKENS, "turns")[:, TOKENS.scored[:4]]
    chain = np.array([0, 1, 2, 3, UNREAD, 3, 1, 2, 0])  # each block meets a token once
    found = RoughRatios(rates, Shape.of(schedule)).by_component(chain[:8], KeyCoins(every))
    np.testing.assert_allclose(np.exp(found).mean(axis=0), 1.0, atol=1e-5)


@pytest.mark.slow
def test_sixteen_bits_are_read(secret: Secret, rng: np.random.Generator) -> None:
    key = key_of(secret, 65536)
    detector = Detector(key)
    for payload in (0, 40961, 65535):
        tokens = written(key.circle, payload, 200, 0.85, rng)
        whole = detector.detect(tokens)
        assert (whole.payload, whole.prediction) == (payload, True)
        assert whole.payload_error is not None
        assert whole.payload_error < 1e-3
        lost = np.delete(tokens, [31, 77, 140])
        found = detector.statistic.measure(detector.read([lost], None))[0]
        assert found.payload == payload


def test_a_payload_without_evidence_is_not_believed(
    secret: Secret, rng: np.random.Generator
) -> None:
    key = key_of(secret, 65536)
    plain = [reading_of(rng.choice(TOKENS.scored, 200, replace=False)) for _ in range(12)]
    errors = [likeliest_nonce(row)[1] for row in NonceScreen(key, None).log_ratios(plain)]
    assert np.median(np.array(errors, dtype=float)) > 0.5


@pytest.mark.slow
def test_what_is_said_of_errors_is_true(secret: Secret, rng: np.random.Generator) -> None:
    """Stated probabilities of errors against their number, for marks strong and weak."""
    key = key_of(secret, 1024)
    screen = NonceScreen(key, None)
    stated, wrong = [], []
    for number in range(240):
        nonce, rate = int(rng.integers(1024)), float(rng.choice([0.65, 0.72, 0.82]))
        tokens = written(key.circle, nonce, int(rng.integers(30, 160)), rate, rng)
        if number % 3 == 0:
            tokens = tokens[rng.random(len(tokens)) > 0.03]
        best, error = likeliest_nonce(screen.log_ratios([reading_of(tokens)])[0])
        stated.append(error)
        wrong.append(best != nonce)
    errors = np.array(stated, dtype=float)
    noise = np.sqrt((errors * (1 - errors)).sum())
    assert 20 < errors.sum() < 220  # neither never nor always
    assert sum(wrong) <= errors.sum() + 3 * noise
    sure = errors < 0.05
    assert sure.sum() > 30
    assert np.array(wrong)[sure].sum() <= errors[sure].sum() + 3 * np.sqrt(errors[sure].sum())


def test_chains_of_a_record_are_added_up(secret: Secret, rng: np.random.Generator) -> None:
    key = key_of(secret, 8)
    tokens = written(key.circle, 5, 40, 0.8, rng)
    twice = Reading(np.tile(tokens, 2), (slice(0, 40), slice(40, 80)))
    once = NonceScreen(key, None).log_ratios([reading_of(tokens), twice])
    assert once[1, 5] > once[0, 5] > 0
    nothing = NonceScreen(key, None).log_ratios([reading_of(np.full(9, UNREAD))])
    np.testing.assert_array_equal(nothing, 0.0)


def test_the_few_best_are_chosen() -> None:
    rows = np.array([[0.0, 3.0, -1.0, 2.0], [5.0, 0.0, 6.0, -np.inf]])
    assert np.sort(likeliest_nonces(rows), axis=1).tolist() == [[1, 3], [0, 2]]
    assert likeliest_nonces(rows[:, :NONCES_TESTED]).tolist() == [[0, 1], [0, 1]]
