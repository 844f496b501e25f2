"""Exact tails against rational arithmetic and against every way that draws can end."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import ParameterError
from patternmark.null.binomial import (
    binomial_log_tail,
    hypergeometric_log_tail,
    least_count,
    trinomial_log_tail,
)


def ln(x: Fraction) -> float:
    """Return ln of a fraction far below the smallest float."""
    shift = x.denominator.bit_length() - x.numerator.bit_length()
    return log(float(x * 2**shift if shift > 0 else x / 2**-shift)) - shift * log(2.0)


def exact_tail(k: int, n: int, p: Fraction) -> Fraction:
    return sum((comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)), Fraction(0))


@given(st.integers(1, 120), st.integers(1, 255), st.data())
def test_binomial_tails_are_exact(n: int, of_256: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    p = Fraction(of_256, 256)
    found = float(binomial_log_tail(k, n, float(p)))
    assert found == pytest.approx(ln(exact_tail(k, n, p)), rel=1e-12, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "ways"), [(Fraction(1, 10), 2), (Fraction(1, 10**9), 1024)])
def test_the_least_count_is_that_of_rational_arithmetic(p: Fraction, ways: int) -> None:
    n = np.arange(90)
    wanted = [
        next((k for k in range(i + 1) if ways * exact_tail(k, i, Fraction(1, 2)) <= p), i + 1)
        for i in n.tolist()
    ]
    assert least_count(n, ln(p), ways).tolist() == wanted
    assert wanted[3] == 4  # too few: not even all of them


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 4), Fraction(7, 16)])
def test_they_stay_exact_far_out(p: Fraction) -> None:
    for k in (700, 1100, 1999, 2000):
        exact = ln(exact_tail(k, 2000, p))
        assert float(binomial_log_tail(k, 2000, float(p))) == pytest.approx(exact, rel=1e-12)
    assert float(binomial_log_tail(2000, 2000, float(p))) < -1000


def test_ends_of_a_binomial() -> None:
    found = binomial_log_tail([0, -3, 5, 0, 0, 1], [4, 4, 4, 0, 4, 4], [0.5] * 4 + [0.0] * 2)
    assert found.tolist() == [0.0, 0.0, -np.inf, 0.0, 0.0, -np.inf]
    assert binomial_log_tail([4, 5], 4, 1.0).tolist() == [0.0, -np.inf]
    with pytest.raises(ParameterError, match="chance"):
        binomial_log_tail(1, 2, 1.5)


@pytest.mark.parametrize(
    ("drawn", "listed", "symbols"), [(3, 4, 9), (6, 5, 8), (4, 4, 4), (0, 2, 5)]
)
def test_hypergeometric_tails_count_every_draw(drawn: int, listed: int, symbols: int) -> None:
    draws = [sum(s < listed for s in draw) for draw in combinations(range(symbols), drawn)]
    for k in range(drawn + 2):
        share = np.mean([count >= k for count in draws])
        found = float(np.exp(hypergeometric_log_tail(k, drawn, listed, symbols)))
        assert found == pytest.approx(share, rel=1e-12)


def test_hypergeometric_tails_are_exact_far_out() -> None:
    exact = Fraction(comb(4000, 300), comb(8000, 300))
    found = float(hypergeometric_log_tail(300, 300, 4000, 8000))
    assert found == pytest.approx(ln(exact), rel=1e-12)
    both = hypergeometric_log_tail([3, 9], [10, 9], 5, 20)
    assert both.shape == (2,)
    assert both[1] == -np.inf


@pytest.mark.parametrize("weights", [(1.0, 2.0), (0.4337, 1.0), (0.0, 0.0), (2.0, 1.0)])
def test_trinomial_tails_count_every_outcome(weights: tuple[float, float]) -> None:
    chances = (Fraction(1, 4), Fraction(3, 8))
    p = [1 - sum(chances), *chances]
    outcomes = list(product(range(3), repeat=5))
    chance = [np.prod([float(p[c]) for c in outcome]) for outcome in outcomes]
    value = [sum((0.0, *weights)[c] for c in outcome) for outcome in outcomes]
    for counts in ((0, 0), (2, 1), (1, 3), (0, 5), (5, 0)):
        here = counts[0] * weights[0] + counts[1] * weights[1]
        exact = sum(c for c, v in zip(chance, value, strict=True) if v >= here - 1e-9)
        found = trinomial_log_tail([counts], 5, (0.25, 0.375), weights)
        assert float(np.exp(found[0])) == pytest.approx(exact, rel=1e-12)


def test_trinomial_tails_are_exact_far_out() -> None:
    found = trinomial_log_tail([[0, 400], [400, 0]], 400, (0.5, 0.25), (0.4, 1.0))
    assert found[0] == pytest.approx(400 * log(0.25), rel=1e-12)
    assert -1 < found[1] <= 0.0
    # One class that never is: what is left is binomial.
    alone = trinomial_log_tail([[0, 30]], 40, (0.0, 0.5), (0.4, 1.0))
    assert alone[0] == pytest.approx(float(binomial_log_tail(30, 40, 0.5)), rel=1e-12)
