"""Weights with random signs: tails held against enumeration and whole numbers."""

from itertools import pairwise, product
from math import comb, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark.errors import ParameterError
from patternmark.null import signs
from patternmark.null.signs import SignedSum

small_weights = st.lists(st.integers(-40, 40), max_size=10)


def enumerated_tail(weights: list[int], value: int) -> float:
    outcomes = [
        sum(sign * weight for sign, weight in zip(one, weights, strict=True))
        for one in product([1, -1], repeat=len(weights))
    ]
    return sum(outcome >= value for outcome in outcomes) / len(outcomes)


def same(log_p: float, p: float) -> bool:
    return log_p == -inf if p == 0.0 else bool(np.isclose(log_p, log(p), rtol=0, atol=1e-12))


@given(small_weights, st.integers(-420, 420))
def test_tails_are_those_of_all_outcomes(weights: list[int], value: int) -> None:
    assert same(
        SignedSum(np.array(weights, dtype=int)).log_tail(value), enumerated_tail(weights, value)
    )


@given(small_weights, st.integers(-420, 420))
def test_tilted_tails_are_those_of_all_outcomes(weights: list[int], value: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signs, "_MAX_TABLE_WEIGHTS", -1)
        found = SignedSum(np.array(weights, dtype=int)).log_tail(value)
    assert same(found, enumerated_tail(weights, value))


def test_twelve_weights_at_every_value(rng: np.random.Generator) -> None:
    weights = rng.integers(0, 60, 12).tolist()
    null = SignedSum(weights)
    for value in range(-null.most - 1, null.most + 2, 7):
        assert same(null.log_tail(value), enumerated_tail(weights, value))


@pytest.mark.parametrize("count", [900, 1500, 3000])
def test_equal_weights_are_a_binomial_far_below_the_smallest_float(count: int) -> None:
    null = SignedSum(np.full(count, 3))
    for agreeing in (count // 2, 3 * count // 5, 4 * count // 5, count - 1, count):
        exact = sum(comb(count, k) for k in range(agreeing, count + 1))
        log_p = null.log_tail(3 * (2 * agreeing - count))
        assert log_p == pytest.approx(log(exact) - count * log(2.0), abs=1e-9)
    assert null.log_floor == null.log_tail(null.most) == pytest.approx(-count * log(2.0))
    assert null.log_tail(null.most + 1) == -inf


def test_a_tail_never_grows(rng: np.random.Generator) -> None:
    null = SignedSum(rng.integers(0, 100, 1200))
    tails = [null.log_tail(value) for value in range(0, null.most, null.most // 25)]
    assert all(a >= b for a, b in pairwise(tails))


def test_nothing_is_certain_and_fractions_are_refused() -> None:
    empty = SignedSum([])
    assert (empty.log_tail(0), empty.log_tail(1)) == (0.0, -inf)
    with pytest.raises(ParameterError, match="whole numbers"):
        SignedSum([0.5])
