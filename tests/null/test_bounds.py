"""Bounds for many phases: never below the truth, and near it where they should be."""

from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from patternmark.null.bounds import _growth, local_log_bound, slip_log_bound
from patternmark.null.local import LocalNull, LocalRules
from patternmark.null.walk import SlipNull

LN2 = log(2.0)


def slip_on_a_ring(gains: np.ndarray, cost: int, floor: float = -np.inf) -> np.ndarray:
    """Return the best value over phases at the end, or ever if there is a floor.

    gains: [B, F, n]. Slips of one phase, up or down the ring, before every position.
    """
    value = np.zeros(gains.shape[:2])
    best = np.zeros(len(gains))
    for gain in np.moveaxis(gains, 2, 0):
        up, down = np.roll(value, 1, axis=1), np.roll(value, -1, axis=1)
        value = np.maximum(value, np.maximum(up, down) - cost) + gain
        value = np.maximum(value, floor)
        best = np.maximum(best, value.max(axis=1))
    return best if np.isfinite(floor) else value.max(axis=1)


def joint_signs(rng: np.random.Generator, kind: str, runs: int, phases: int, n: int) -> np.ndarray:
    """Fair signs for each phase, in one of several dependences between them: [runs, phases, n]."""
    fair = rng.choice([-1.0, 1.0], size=(runs, phases, n))
    if kind == "independent":
        return fair
    one = fair[:, :1]
    if kind == "opposed":  # neighbours never agree
        return one * np.where(np.arange(phases) % 2, -1.0, 1.0)[:, None]
    first = rng.integers(0, phases, size=(runs, 1, n))  # half the ring agrees, from anywhere on
    return np.where((np.arange(phases)[:, None] - first) % phases < phases / 2, 1.0, -1.0)


def raised(value: np.ndarray, cost: int) -> np.ndarray:
    """Raise every phase to what a slip from any other gives it."""
    phases = len(value)
    apart = np.abs(np.subtract.outer(np.arange(phases), np.arange(phases)))
    return (value - cost * np.minimum(apart, phases - apart)).max(axis=1)


@given(
    st.lists(st.integers(-12, 12), min_size=2, max_size=6),
    st.sampled_from([(1, 1), (2, 3), (3, 1)]),
    st.integers(1, 12),
    st.floats(0.01, 2.0),
)
@example([0, -40, -40], (2, 3), 9, 0.2)
@example([0, -40, -40, -40], (1, 1), 1, 1.0)
def test_no_step_multiplies_the_sum_by_more_than_r(
    values: list[int], gains: tuple[int, int], cost: int, x: float
) -> None:
    """The step of the proof, for signs that are one vector or its opposite: fair, all of them."""
    start = raised(np.array(values), cost)
    r = float(_growth(np.array(x), *gains, cost, len(values)))
    for signs in product([1, -1], repeat=len(values)):
        mean = 0.0
        for way in (np.array(signs), -np.array(signs)):
            after = raised(start + np.where(way > 0, gains[0], -gains[1]), cost)
            mean += 0.5 * np.exp(x * after).sum()
        assert mean <= r * np.exp(x * start).sum() * (1 + 1e-12)


@pytest.mark.parametrize("cost", [1, 2, 3])
def test_bounds_hold_for_all_joint_signs_of_three_phases(cost: int) -> None:
    n, phases = 4, 3
    signs = np.array(list(product([1.0, -1.0], repeat=n * phases))).reshape(-1, phases, n)
    slips = slip_on_a_ring(signs, cost)
    gains = np.where(signs > 0, 2.0, -3.0)
    locals_ = slip_on_a_ring(gains, cost, floor=0.0)
    for s in range(1, 2 * n + 1):
        assert np.mean(slips >= s) <= np.exp(slip_log_bound(s, n, phases, cost)) + 1e-12
        bound = np.exp(local_log_bound(s, n, phases, 2, 3, cost))
        assert np.mean(locals_ >= s) <= bound + 1e-12
    assert slip_log_bound(n + 1, n, phases, cost) == -np.inf
    assert local_log_bound(2 * n + 1, n, phases, 2, 3, cost) == -np.inf


@pytest.mark.parametrize("kind", ["independent", "opposed", "half"])
@pytest.mark.parametrize("phases", [4, 12])
def test_bounds_hold_in_simulation(rng: np.random.Generator, kind: str, phases: int) -> None:
    n, runs = 60, 3000
    signs = joint_signs(rng, kind, runs, phases, n)
    assert np.abs(signs.mean(axis=(0, 2))).max() < 0.02  # fair, each of them
    gaps = np.zeros((runs, phases, 2 * n))
    gaps[:, :, ::2] = signs  # an unscored position after each: slips there change no bound
    informative = 0
    for cost in (6, 16):
        slips = slip_on_a_ring(gaps, cost)
        gains = np.where(gaps == 0, 0.0, np.where(gaps > 0, 2.0, -3.0))
        locals_ = slip_on_a_ring(gains, cost, floor=0.0)
        for s in range(8, 60, 2):
            share, p = np.mean(slips >= s), float(np.exp(slip_log_bound(s, n, phases, cost)))
            assert share <= p + 4 * (p / runs) ** 0.5
            informative += p < 0.5 and share > 0
            p = float(np.exp(local_log_bound(s, n, phases, 2, 3, cost)))
            assert np.mean(locals_ >= s) <= p + 4 * (p / runs) ** 0.5
    if kind == "independent":
        assert informative > 0


@pytest.mark.parametrize("cost", [1, 6, 16])
def test_for_two_phases_the_slip_bound_lies_above_the_exact_null(cost: int) -> None:
    for n in (1, 10, 100, 1000):
        scores = np.arange(1, n + 1)
        exact = SlipNull(cost).log_tail(scores, n)
        bound = slip_log_bound(scores, n, 2, cost)
        assert np.all(bound >= exact - 1e-9)
        assert bound[-1] == pytest.approx(exact[-1], abs=1e-6)


@pytest.mark.parametrize("rules", [LocalRules(), LocalRules(2, 3, 40), LocalRules(1, 2, 9)])
def test_for_two_phases_the_local_bound_lies_above_the_exact_null(rules: LocalRules) -> None:
    scores = np.array([1, 5, 20, 50, 100, 150])
    for n in (5, 150, 1000):
        exact = LocalNull(rules).log_tail(scores, n)
        bound = local_log_bound(scores, n, 2, rules.match, rules.mismatch, rules.slip)
        assert np.all(bound >= exact - 1e-9)


@pytest.mark.parametrize("phases", [3, 12])
def test_a_perfect_mark_is_bounded_as_by_a_union(phases: int) -> None:
    n = np.array([10, 400, 5000])
    np.testing.assert_allclose(slip_log_bound(n, n, phases, 6), log(phases) - n * LN2, atol=1e-6)
    local = local_log_bound(2 * n, n, phases, 2, 3, 14)
    np.testing.assert_allclose(local, log(phases) - n * LN2, atol=1e-3)


def test_the_slip_bound_is_below_that_of_a_union_over_all_paths() -> None:
    x = np.linspace(1e-3, 3.0, 3000)
    for n, phases, cost, s in ((400, 3, 16, 100), (400, 12, 6, 200), (100, 5, 8, 50)):
        per_step = np.log(np.cosh(x)) + np.log1p(2 * np.exp(-x * cost))
        union = np.min(log(phases) - x * s + n * per_step)
        assert slip_log_bound(s, n, phases, cost) < union - 0.5


def test_with_dear_slips_the_local_bound_grows_as_the_length() -> None:
    """Where r(x) = 1 has a root x the bound is n F e^(-x s): two scores tell x."""
    low, high, longer = local_log_bound([200, 300, 300], [10**4, 10**4, 10**5], 12, 2, 3, 40)
    root = (low - high) / 100
    growth = 0.5 * (np.exp(2 * root) + np.exp(-3 * root))
    assert 0.15 < root < 0.1645  # 0.1644 solves it without slips
    assert growth < 1.0
    assert high == pytest.approx(log(12 * 10**4) - root * 300, abs=0.05)
    assert longer - high == pytest.approx(log(10.0), abs=0.01)
