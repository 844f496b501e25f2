"""Phase and slip: p-values held against enumeration, whole numbers and simulation."""

from decimal import Decimal, localcontext
from itertools import pairwise, product
from math import expm1, inf, log, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark.errors import ParameterError
from patternmark.null.tilted import TiltedCount
from patternmark.null.walk import (
    TABLE_LENGTH,
    SlipNull,
    phase_log_tail,
    phase_mean,
    slip_scores,
)
from tests.oracles import log_ratio

RELATIVE = 1e-9
LN2 = log(2.0)


def all_signs(n: int) -> np.ndarray:
    return np.array(list(product([1, -1], repeat=n)), dtype=np.int8).reshape(2**n, n)


def naive_slip_score(signs: list[int], cost: int) -> int:
    """The recursion as it is defined, over scored positions alone."""
    v0 = v1 = 0
    for a in signs:
        if a:
            v0, v1 = max(v0, v1 - cost) + a, max(v1, v0 - cost) - a
    return max(v0, v1)


def best_path(signs: list[int], cost: int) -> int:
    """The best of all 2^n ways to assign phases to positions: what the recursion stands for."""
    return max(
        sum(a if phase == 0 else -a for a, phase in zip(signs, path, strict=True))
        - cost * sum(p != q for p, q in pairwise(path))
        for path in product([0, 1], repeat=len(signs))
    )


def slip_tails(n: int, cost: int) -> list[int]:
    """2^n P(S >= s) for s = 0..n in whole numbers, from (V0 - V1, V0) as the definition has it."""
    width = 2 * n + 1
    laws = {0: np.zeros(width, dtype=object)}
    laws[0][n] = 1  # V0 = 0 stands at n
    for _ in range(n):
        following: dict[int, np.ndarray] = {}
        for d, law in laws.items():
            raised_0 = max(-d - cost, 0)  # by how much V0 = max(V0, V1 - c) is raised
            raised_1 = max(d - cost, 0)
            for a in (1, -1):
                to = d + raised_0 - raised_1 + 2 * a
                moved = np.roll(law, raised_0 + a)
                following[to] = following[to] + moved if to in following else moved
        laws = following
    tails = [0] * (n + 1)
    for d, law in laws.items():
        for at in np.flatnonzero(law):
            tails[int(at) - n + max(-d, 0)] += law[at]
    return [int(t) for t in np.cumsum(np.array(tails[::-1], dtype=object))[::-1]]


# --- phase ---


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 9, 12])
def test_two_phases_agree_with_enumeration(n: int) -> None:
    agreements = (all_signs(n) == 1).sum(axis=1)
    best = np.maximum(agreements, n - agreements)
    for k in range(n + 1):
        share = np.mean(best >= k)
        assert float(np.exp(phase_log_tail(k, n))) == pytest.approx(share, rel=1e-12)
    assert phase_log_tail(n + 1, n) == -inf
    assert phase_mean(n) == pytest.approx(best.mean(), rel=1e-12)


@pytest.mark.parametrize("n", [30, 31, 400, 4001])
@pytest.mark.parametrize("phases", [2, 12])
def test_phase_tails_in_whole_numbers_at_every_count(n: int, phases: int) -> None:
    term, total, exact = 1, 0, [0.0] * (n + 1)
    for k in range(n, n // 2, -1):
        total += term
        term = term * k // (n - k + 1)
        exact[k] = min(log_ratio(phases * total, 2**n), 0.0)
    found = phase_log_tail(np.arange(n + 1), n, phases)
    assert np.max(np.abs(np.expm1(found - exact))) < 1e-10
    assert np.all(found[: n // 2 + 1] == 0.0)


def precise_log_factorial(n: int) -> Decimal:
    """Stirling's series, good to n^-7, but for ln(2 pi) / 2."""
    x = Decimal(n)
    return (x + Decimal("0.5")) * x.ln() - x + 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)


@pytest.mark.parametrize("k", [500_001, 500_400, 502_500, 530_000, 760_000])
def test_phase_of_a_million(k: int) -> None:
    n = 10**6
    with localcontext() as context:
        context.prec = 50
        term = total = Decimal(1)
        for j in range(k, n):
            term = term * (n - j) / (j + 1)
            total += term
            if term < total * Decimal("1e-25"):
                break
        log_ways = precise_log_factorial(n) - precise_log_factorial(k)
        log_ways -= precise_log_factorial(n - k) + Decimal(2 * pi).ln() / 2
        exact = float(log_ways - (n - 1) * Decimal(2).ln() + total.ln())
    assert abs(expm1(float(phase_log_tail(k, n)) - exact)) < 2e-10  # a unit in the last place


def test_phases_of_any_dependence_are_bounded() -> None:
    n, phases = 4, 3
    signs = np.array(list(product([1, -1], repeat=n * phases))).reshape(-1, phases, n)
    best = (signs == 1).sum(axis=2).max(axis=1)
    for k in range(n + 1):
        assert np.mean(best >= k) <= np.exp(phase_log_tail(k, n, phases)) * (1 + 1e-12)
    assert phase_log_tail(4, 4, 3) == pytest.approx(log(3 / 16))


def test_phase_answers_arrays_as_it_answers_one_by_one(rng: np.random.Generator) -> None:
    n = rng.integers(0, 3000, size=(4, 50))
    k = rng.integers(0, n + 1)
    together = phase_log_tail(k, n)
    assert together.shape == (4, 50)
    alone = [float(phase_log_tail(int(a), int(b))) for a, b in zip(k.flat, n.flat, strict=True)]
    np.testing.assert_allclose(together.ravel(), alone, rtol=1e-12)


# --- slip ---


@given(st.lists(st.sampled_from([1, -1]), min_size=1, max_size=9), st.integers(1, 5))
def test_the_slip_score_is_that_of_the_best_path(signs: list[int], cost: int) -> None:
    assert slip_scores(np.array([signs], dtype=np.int8), cost)[0] == best_path(signs, cost)


@given(st.lists(st.sampled_from([1, 0, -1]), max_size=60), st.integers(1, 8))
def test_unscored_positions_are_skipped(signs: list[int], cost: int) -> None:
    batch = np.array([signs, signs[::-1]], dtype=np.int8)
    expected = [naive_slip_score(signs, cost), naive_slip_score(signs[::-1], cost)]
    assert slip_scores(batch, cost).tolist() == expected


@pytest.mark.parametrize("cost", [1, 2, 3, 4, 5, 6, 9, 30])
def test_slip_null_agrees_with_enumeration(cost: int) -> None:
    null = SlipNull(cost)
    for n in (0, 1, 2, 3, 8, 13):
        scores = slip_scores(all_signs(n), cost)
        share = np.array([np.mean(scores >= s) for s in range(-1, n + 2)])
        found = np.exp(null.log_tail(np.arange(-1, n + 2), n))
        np.testing.assert_allclose(found, share, rtol=1e-12)
        assert null.mean(n) == pytest.approx(scores.mean(), rel=1e-12)


@pytest.mark.parametrize(("n", "cost"), [(301, 6), (300, 7), (250, 1), (256, 16)])
def test_slip_table_in_whole_numbers_at_every_score(n: int, cost: int) -> None:
    exact = [log_ratio(tail, 2**n) for tail in slip_tails(n, cost)]
    found = SlipNull(cost).log_tail(np.arange(n + 1), n)
    assert np.max(np.abs(np.expm1(found - exact))) < RELATIVE


@pytest.mark.parametrize(("n", "cost"), [(TABLE_LENGTH, 6), (1100, 10), (1101, 3)])
def test_slip_far_below_the_smallest_float(n: int, cost: int) -> None:
    tails = slip_tails(n, cost)
    scores = [1, 30, 80, 150, 151, 222, 500, 600, 601, 900, 985, n - 3, n - 1, n]
    exact = [log_ratio(tails[s], 2**n) for s in scores]
    found = SlipNull(cost).log_tail(scores, n)
    assert found[-1] == pytest.approx((1 - n) * LN2, rel=1e-13)  # p = 1e-308 or less
    assert np.max(np.abs(np.expm1(found - exact))) < RELATIVE


@pytest.mark.parametrize("cost", [6, 7, 16])
def test_slip_table_and_transform_meet_at_their_border(cost: int) -> None:
    null, n = SlipNull(cost), TABLE_LENGTH
    for score in range(2, 1000, 77):
        chain = null._chains[(score + n) % 2]
        by_transform = TiltedCount(chain, [n]).log_tail((score + n + 1) // 2)
        assert abs(expm1(by_transform - float(null.log_tail(score, n)))) < RELATIVE


def test_slips_too_dear_to_take_leave_the_phase_test() -> None:
    n = 21
    null = SlipNull(cost=2 * n)
    for score in range(n % 2, n + 1, 2):
        assert null.log_tail(score, n) == pytest.approx(float(phase_log_tail((n + score) // 2, n)))


def test_a_perfect_mark_of_any_length() -> None:
    null = SlipNull(cost=6)
    n = np.array([1, 50, 1024, 1025, 5000])
    np.testing.assert_allclose(null.log_tail(n, n), (1 - n) * LN2, rtol=1e-12)


def test_slip_scores_of_fair_signs_follow_the_null(rng: np.random.Generator) -> None:
    n, runs = 400, 20_000
    signs = rng.choice(np.array([1, -1], dtype=np.int8), size=(runs, n))
    for cost in (5, 16):
        null = SlipNull(cost)
        scores = slip_scores(signs, cost)
        for s in np.quantile(scores, [0.2, 0.5, 0.9, 0.99, 0.999]).astype(int):
            p = float(np.exp(null.log_tail(s, n)))
            assert abs(np.mean(scores >= s) - p) < 4 * (p * (1 - p) / runs) ** 0.5
        spread = scores.std() / runs**0.5
        assert abs(scores.mean() - float(null.mean(n))) < 4 * spread


def test_parameters_out_of_their_domain_are_refused() -> None:
    with pytest.raises(ParameterError, match="from 1 up, not 0"):
        SlipNull(0)
    with pytest.raises(ParameterError, match="from 1 up, not 0"):
        slip_scores(np.ones((1, 3), dtype=np.int8), 0)
    with pytest.raises(ParameterError, match="2 phases, not 1"):
        phase_log_tail(3, 4, phases=1)
    with pytest.raises(TypeError):
        phase_log_tail(3.7, 4)
