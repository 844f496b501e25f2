"""The best segment: its coordinates, and its p-values against enumeration and whole numbers."""

from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark.errors import ParameterError
from patternmark.null import local
from patternmark.null.bounds import local_log_bound
from patternmark.null.local import LocalNull, LocalRules, local_scores

RELATIVE = 1e-9
LN2 = log(2.0)
RULES = [
    LocalRules(),
    LocalRules(2, 3, 4),
    LocalRules(1, 1, 1),
    LocalRules(3, 1, 2),
    LocalRules(1, 2, 3),
]
signs_with_gaps = st.lists(st.sampled_from([1, -1, 1, -1, 0]), max_size=40)
some_rules = st.builds(LocalRules, st.integers(1, 4), st.integers(1, 5), st.integers(1, 8))


def one_step(v: tuple[int, int], sign: int, rules: LocalRules) -> tuple[int, int]:
    gains = (rules.match, -rules.mismatch) if sign > 0 else (-rules.mismatch, rules.match)
    v0 = max(v[0], v[1] - rules.slip) + gains[0]
    v1 = max(v[1], v[0] - rules.slip) + gains[1]
    return v0, v1


def segment_score(signs: list[int], rules: LocalRules) -> int:
    """The best path through the whole of a segment: no floor."""
    v = (0, 0)
    for sign in filter(None, signs):
        v = one_step(v, sign, rules)
    return max(v)


def passage_counts(n: int, rules: LocalRules) -> list[int]:
    """2^n P(score >= s) in whole numbers, from (V0, V1, largest so far) as defined."""
    law = {(0, 0, 0): 1}
    for _ in range(n):
        following: dict[tuple[int, int, int], int] = {}
        for (v0, v1, best), ways in law.items():
            for sign in (1, -1):
                v = one_step((v0, v1), sign, rules)
                to = (max(v[0], 0), max(v[1], 0), max(best, *v))
                following[to] = following.get(to, 0) + ways
        law = following
    return [
        sum(w for (_, _, best), w in law.items() if best >= s) for s in range(n * rules.match + 1)
    ]


# --- the segment ---


@given(signs_with_gaps, some_rules)
def test_the_segment_is_the_best_of_all(signs: list[int], rules: LocalRules) -> None:
    found = local_scores(np.array([signs], dtype=np.int8).reshape(1, -1), rules)
    score, start, end = int(found.score[0]), int(found.start[0]), int(found.end[0])
    everywhere = [
        segment_score(signs[i:j], rules) for i in range(len(signs)) for j in range(i, len(signs))
    ]
    whole = [segment_score(signs[i:], rules) for i in range(len(signs))]
    assert score == max([0, *everywhere, *whole])
    assert segment_score(signs[start:end], rules) == score
    if score:
        assert signs[start] != 0
        assert signs[end - 1] != 0


def test_a_marked_stretch_with_a_deletion_is_found() -> None:
    signs = np.tile(np.array([1, -1], dtype=np.int8), (3, 250))  # at best one agreement of two
    signs[0, 200:280], signs[0, 280:350] = 1, -1
    signs[1, 451:] = -1
    signs[1, 470:480] = 0
    signs[2] = 0
    found = local_scores(signs)
    assert found.score.tolist() == [2 * 150 - 14, 2 * 39, 0]
    assert found.start.tolist() == [200, 451, 0]
    assert found.end.tolist() == [350, 500, 0]


@given(st.lists(signs_with_gaps, min_size=1, max_size=5))
def test_a_batch_is_its_rows(rows: list[list[int]]) -> None:
    width = max(map(len, rows))
    batch = np.array([row + [0] * (width - len(row)) for row in rows], dtype=np.int8)
    together = local_scores(batch.reshape(len(rows), width))
    for i, row in enumerate(rows):
        alone = local_scores(np.array([row], dtype=np.int8).reshape(1, -1))
        assert together.score[i] == alone.score[0]
        assert (together.start[i], together.end[i]) == (alone.start[0], alone.end[0])


# --- the null ---


@pytest.mark.parametrize("rules", RULES)
def test_local_null_agrees_with_enumeration(rules: LocalRules) -> None:
    null = LocalNull(rules)
    for n in (0, 1, 2, 5, 12):
        signs = np.array(list(product([1, -1], repeat=n)), dtype=np.int8).reshape(2**n, n)
        scores = local_scores(signs, rules).score
        at = np.arange(-1, n * rules.match + 2)
        share = np.array([np.mean(scores >= s) for s in at])
        np.testing.assert_allclose(np.exp(null.log_tail(at, n)), share, rtol=1e-12)
        assert null.mean(n) == pytest.approx(scores.mean(), rel=1e-7)


@pytest.mark.parametrize(("rules", "n"), [(LocalRules(), 32), (LocalRules(1, 2, 3), 45)])
def test_local_null_in_whole_numbers_at_every_score(rules: LocalRules, n: int) -> None:
    counts = passage_counts(n, rules)
    exact = [log(Fraction(count, 2**n)) for count in counts]
    found = LocalNull(rules).log_tail(np.arange(len(counts)), n)
    assert np.max(np.abs(np.expm1(found - exact))) < RELATIVE


@pytest.mark.parametrize("n", [20, 400, 1024, 1090])
def test_local_far_below_the_smallest_float(n: int) -> None:
    """All alike: 2 of 2^n. All but the first or the last: 6 of them; a slip would cost too much."""
    found = LocalNull().log_tail([2 * n + 1, 2 * n, 2 * n - 2], n)
    assert found[0] == -np.inf
    np.testing.assert_allclose(found[1:], np.log([2.0, 6.0]) - n * LN2, rtol=1e-13)


def test_long_sequences_by_the_series_and_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([200, 3000, 4000, 16_000])
    by_series = {s: LocalNull().log_tail(s, lengths) for s in (20, 45, 60)}
    assert len(LocalNull()._passage(45, 16_000).reached) < 3000
    monkeypatch.setattr(local, "_SETTLED", -1.0)  # never
    for s, found in by_series.items():
        exact = LocalNull().log_tail(s, lengths)
        assert np.max(np.abs(np.expm1(found - exact))) < RELATIVE
        assert np.all(found >= exact - 1e-11)


def test_a_series_begun_too_early_errs_to_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([400, 1000, 2000])
    exact = LocalNull().log_tail(60, lengths)
    monkeypatch.setattr(local, "_SETTLED", 0.05)
    early = LocalNull()
    assert np.all(early.log_tail(60, lengths) > exact + 1e-9)
    assert len(early._passage(60, 400).reached) < 400


def test_a_million_positions_are_a_look_up() -> None:
    """P(nothing found) falls geometrically: doubling a long n squares it, but for the start."""
    null, n = LocalNull(), 10**6
    once, twice = null.log_tail(90, [n, 2 * n])
    missed = np.log1p(-np.exp(null.log_tail(90, [n, 2 * n])))
    assert once < twice < 0.0
    assert missed[1] / missed[0] == pytest.approx(2.0, rel=1e-3)


def test_scores_beyond_the_exact_get_a_bound_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = LocalNull().log_tail([60, 80, 120, 240], 200)
    monkeypatch.setattr(local, "_MAX_STATES", 15 * 60)  # 60 is the highest exact score
    found = LocalNull().log_tail([60, 80, 120, 240], 200)
    assert found[0] == exact[0]
    assert np.all(found[1:] >= exact[1:])
    assert np.all(np.diff(found) <= 0.0)
    assert found[-1] < found[0] - 10.0


def test_longer_questions_renew_what_is_known() -> None:
    patient, fresh = LocalNull(), LocalNull()
    for n in (50, 300, 700):
        patient.log_tail([50, 70], n)
    np.testing.assert_array_equal(
        patient.log_tail([[50], [70]], [50, 700]), fresh.log_tail([[50], [70]], [50, 700])
    )


@pytest.mark.slow
def test_local_scores_of_fair_signs_follow_the_null(rng: np.random.Generator) -> None:
    n, runs = 300, 20_000
    signs = rng.choice(np.array([1, -1], dtype=np.int8), size=(runs, n))
    scores = local_scores(signs).score
    null = LocalNull()
    for s in np.quantile(scores, [0.1, 0.5, 0.9, 0.99, 0.999]).astype(int):
        p = float(np.exp(null.log_tail(s, n)))
        assert abs(np.mean(scores >= s) - p) < 4 * (p * (1 - p) / runs) ** 0.5
    assert abs(scores.mean() - float(null.mean(n))) < 4 * scores.std() / runs**0.5


def test_rules_out_of_their_domain_are_refused() -> None:
    with pytest.raises(ParameterError, match="from 1 up"):
        LocalRules(match=0)
    with pytest.raises(ParameterError, match="2 phases"):
        local_log_bound(10, 20, 1, 2, 3, 14)
