from math import isnan

import numpy as np
import pytest

from patternmark.intervals import beta_fraction, mean_interval, rate_interval, student_quantile
from patternmark.null.binomial import binomial_log_tail


@pytest.mark.parametrize(
    ("n", "t"), [(2, 12.7062), (3, 4.3027), (11, 2.2281), (31, 2.0423), (1001, 1.9623)]
)
def test_the_interval_of_a_mean_is_students(n: int, t: float) -> None:
    values = np.arange(n, dtype=float)
    found = mean_interval(values)
    assert found["mean"] == pytest.approx((n - 1) / 2)
    assert found["half"] == pytest.approx(t * values.std(ddof=1) / n**0.5, rel=1e-4)
    assert found["low"] == pytest.approx(found["mean"] - found["half"])
    assert found["high"] == pytest.approx(found["mean"] + found["half"])
    assert found["n"] == n


def test_one_value_has_no_interval() -> None:
    found = mean_interval([3.0])
    assert (found["mean"], found["n"]) == (3.0, 1)
    assert all(isnan(found[name]) for name in ("low", "high", "half"))


def test_degrees_of_freedom_need_not_be_whole() -> None:
    assert student_quantile(3) > student_quantile(3.5) > student_quantile(4)


@pytest.mark.slow
def test_the_interval_of_a_mean_covers_it_as_often_as_it_says(rng: np.random.Generator) -> None:
    samples = rng.normal(size=(2000, 4))
    found = [mean_interval(sample) for sample in samples]
    covered = sum(one["low"] <= 0.0 <= one["high"] for one in found)
    low, high = rate_interval(covered, 2000, confidence=0.9999)
    assert low <= 0.95 <= high  # 1.96 standard errors would cover 85 %


def test_numbers_and_arrays_share_one_continued_fraction() -> None:
    a, b = np.array([5.0, 300.0, 0.5]), np.array([8.0, 900.0, 20.0])
    x = np.array([0.3, 0.2, 0.01])
    together = beta_fraction(x, a, b, 1000)
    alone = [beta_fraction(*map(float, row), 1000) for row in zip(x, a, b, strict=True)]
    assert together.tolist() == pytest.approx(alone, rel=1e-13)
    # At the ends of an exact interval either tail of the count is 2.5 %.
    low, high = rate_interval(300, 1000)
    assert np.exp(binomial_log_tail(300, 1000, low)) == pytest.approx(0.025, rel=1e-9)
    assert np.exp(binomial_log_tail(301, 1000, high)) == pytest.approx(0.975, rel=1e-9)
