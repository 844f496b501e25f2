"""The p-values are the product: they are held against enumeration and rational arithmetic."""

from fractions import Fraction
from functools import reduce
from math import comb, expm1, inf, log

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patternmark.core.chain import KeyChain
from patternmark.null import PatternNull, automaton
from patternmark.null.direct import distributions
from patternmark.null.pattern import signature_of
from patternmark.null.tilted import TiltedCount
from patternmark.statistics.patterns import Patterns
from patternmark_lab.bench.literal import algorithm_3
from tests.oracles import algorithm_4, convolve, enumerate_distribution, log_ratio

RELATIVE = 1e-9
SHARED_FIXTURE = [HealthCheck.function_scoped_fixture]


def alternating(m: int) -> Patterns:
    return Patterns.favoured(KeyChain.alternating(), m)


def assert_tails_are(null: PatternNull, lengths: list[int], law: list[Fraction]) -> None:
    """Both ways to a tail agree with an exact distribution at every count."""
    tilted = TiltedCount(null.chain, lengths)
    tail = Fraction(0)
    for count in range(len(law) - 1, -1, -1):
        tail += law[count]
        for log_p in (null.log_tail(count, lengths), tilted.log_tail(count)):
            if tail == 0:
                assert log_p == -inf
            else:
                assert abs(expm1(log_p - log(min(tail, Fraction(1))))) < RELATIVE


@st.composite
def target_sets(draw: st.DrawFn) -> Patterns:
    num_keys = draw(st.integers(2, 3))
    m = draw(st.integers(1, 4))
    pattern = st.tuples(*[st.integers(0, num_keys - 1)] * m)
    return Patterns.of(draw(st.sets(pattern, min_size=1, max_size=6)), num_keys)


@st.composite
def null_chains(draw: st.DrawFn, num_keys: int) -> KeyChain:
    def row() -> list[float]:
        weights = draw(st.lists(st.integers(0, 4), min_size=num_keys, max_size=num_keys))
        weights[draw(st.integers(0, num_keys - 1))] += 1
        return [w / sum(weights) for w in weights]

    kind = draw(st.sampled_from(["uniform", "independent", "markov"]))
    if kind == "uniform":
        return KeyChain.uniform(num_keys)
    if kind == "independent":
        return KeyChain.independent(row())
    return KeyChain.of([row() for _ in range(num_keys)], row())


@pytest.fixture(params=["matrices", "moves"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test as for few states and as for many."""
    if request.param == "moves":
        monkeypatch.setattr(automaton, "DENSE_STATES", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("either_way")
@given(st.data())
@settings(suppress_health_check=SHARED_FIXTURE)
def test_any_targets_and_null_agree_with_enumeration(data: st.DataObject) -> None:
    targets = data.draw(target_sets())
    null = data.draw(null_chains(targets.num_keys))
    n = data.draw(st.integers(1, 7 if targets.num_keys == 2 else 5))
    law = enumerate_distribution(n, set(targets.patterns), null)
    fast = PatternNull(targets, null)
    assert_tails_are(fast, [n], law)
    assert fast.mean([n]) == pytest.approx(float(sum(c * p for c, p in enumerate(law))), rel=1e-12)
    assert fast.largest_count([n]) == max(c for c, p in enumerate(law) if p)


@pytest.mark.slow
@pytest.mark.usefixtures("either_way")
@given(st.data())
@settings(suppress_health_check=SHARED_FIXTURE)
def test_segments_convolve(data: st.DataObject) -> None:
    targets = data.draw(target_sets())
    null = data.draw(null_chains(targets.num_keys))
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
    laws = [enumerate_distribution(n, set(targets.patterns), null) for n in lengths]
    assert_tails_are(PatternNull(targets, null), lengths, reduce(convolve, laws))


@pytest.mark.slow
@pytest.mark.parametrize(("num_keys", "m", "n"), [(2, 5, 40), (3, 3, 25), (4, 3, 14)])
def test_algorithm_3_in_rational_arithmetic(num_keys: int, m: int, n: int) -> None:
    targets = Patterns.favoured(KeyChain.cycle(num_keys), m)
    null = PatternNull(targets)
    for i, law in enumerate(
        algorithm_3(n, m, set(targets.patterns), num_keys, Fraction(1)), start=m - 1
    ):
        assert_tails_are(null, [i], law)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(60, 3), (400, 5), (512, 4)])
def test_algorithm_4_at_every_count(n: int, m: int) -> None:
    law = [Fraction(weight, 2 ** (n - 1)) for weight in algorithm_4(n, m)]
    assert_tails_are(PatternNull(alternating(m)), [n], law)


@pytest.mark.slow
def test_algorithm_4_far_beyond_the_table() -> None:
    n = 2500
    law = algorithm_4(n, 5)
    tilted = TiltedCount(PatternNull(alternating(5)).chain, [n])
    tails = np.cumsum(np.array(law[::-1], dtype=object))[::-1]
    for count in [1, 50, 150, 156, 160, 200, 400, 1000, 2000, 2490, 2495, 2496]:
        exact = log_ratio(int(tails[count]), 2 ** (n - 1))
        assert abs(expm1(tilted.log_tail(count) - exact)) < RELATIVE


def test_a_perfectly_alternating_sequence_of_5000() -> None:
    log_p = PatternNull(alternating(5)).log_tail(4996, [5000])
    assert abs(log_p / log(2.0) + 4999) < 1e-9


def test_twenty_keys_far_below_the_smallest_float() -> None:
    targets = Patterns.favoured(KeyChain.cycle(20), 3)
    log_p = PatternNull(targets).log_tail(398, [400])  # 20 of 20^400 sequences: 1e-519
    assert abs(expm1(log_p + 399 * log(20.0))) < RELATIVE


@pytest.mark.parametrize("n", [1000, 100_000])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.505, 0.7, 0.999, 1.0])
def test_pairs_are_binomial_at_any_length(n: int, share: float) -> None:
    trials, count = n - 1, int((n - 1) * share)
    term, total = 1, 0
    for k in range(trials, count - 1, -1):
        total += term
        term = term * k // (trials - k + 1)
    exact = log_ratio(total, 2**trials)
    log_p = PatternNull(alternating(2)).log_tail(count, [n])
    assert abs(expm1(log_p - exact)) < RELATIVE


def test_many_segments_of_long_sequences_convolve() -> None:
    """Counts over segments cut from one long binomial add up to a binomial again."""
    lengths = [3, 3, 3, 700, 700, 41, 1, 2000]
    trials = sum(n - 1 for n in lengths)
    count = trials * 6 // 10
    term, total = 1, 0
    for k in range(trials, count - 1, -1):
        total += term
        term = term * k // (trials - k + 1)
    log_p = PatternNull(alternating(2)).log_tail(count, lengths)
    assert abs(expm1(log_p - log_ratio(total, 2**trials))) < RELATIVE


def test_long_and_short_distributions_are_distributions() -> None:
    null = PatternNull(alternating(5))
    for lengths in ([300], [1025], [4000], [600, 500]):
        law = null.distribution(lengths)
        assert law.sum() == pytest.approx(1.0, abs=1e-10)
        assert law @ np.arange(len(law)) == pytest.approx(null.mean(lengths), rel=1e-9)


def test_table_and_transform_meet_at_their_border() -> None:
    null = PatternNull(alternating(5))
    by_table = [null.log_tail(c, [1024]) for c in range(1, 900, 31)]
    by_transform = [TiltedCount(null.chain, [1024]).log_tail(c) for c in range(1, 900, 31)]
    np.testing.assert_allclose(by_transform, by_table, rtol=0, atol=1e-11)


def test_too_short_a_sequence_proves_nothing() -> None:
    null = PatternNull(alternating(5))
    assert null.log_tail(0, []) == 0.0
    assert null.log_tail(0, [4]) == 0.0
    assert null.log_tail(1, [4]) == -inf
    assert null.mean([4, 3]) == 0.0


def test_a_large_target_set(rng: np.random.Generator) -> None:
    """Hundreds of states: tails of both kinds agree with each other and with the mean."""
    patterns = {tuple(row) for row in rng.integers(0, 4, size=(150, 6)).tolist()}
    null = PatternNull(Patterns.of(patterns, 4))
    assert null.chain.num_states > 200
    assert null.mean([300]) == pytest.approx(len(patterns) * 295 / 4**6, rel=1e-12)
    law = distributions(null.chain, 120)[120]
    assert law @ np.arange(121) == pytest.approx(null.mean([120]), rel=1e-12)
    tilted = TiltedCount(null.chain, [120])
    for count in (1, 5, 12, 25):
        assert tilted.log_tail(count) == pytest.approx(log(law[count:].sum()), abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "n", "count"), [(26, 400, 1), (40, 500, 150), (60, 400, 1), (44, 500, 80)]
)
def test_long_patterns_that_come_in_clumps(m: int, n: int, count: int) -> None:
    """Under the best tilt little mass lies at the count: the transform alone would be noise."""
    exact = log_ratio(sum(algorithm_4(n, m)[count:]), 2 ** (n - 1))
    tilted = TiltedCount(PatternNull(alternating(m)).chain, [n])
    assert abs(expm1(tilted.log_tail(count) - exact)) < RELATIVE


EXTREME_NULLS = [
    ([[0.997, 0.003], [0.003, 0.997]], [(0, 1, 0, 1, 0), (1, 0, 1, 0, 1)]),
    ([[7.4e-4, 0.99926], [0.715, 0.285]], [(1, 0, 1), (0, 0, 0)]),
    ([[0.0, 1.0], [1 - 2e-13, 2e-13]], [(1, 0, 1), (1, 1, 0)]),
    ([[0.0, 1.0], [0.5, 0.5]], [(1, 1)]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("A", "patterns"), EXTREME_NULLS)
def test_nulls_that_stick_or_hardly_move(A: list, patterns: list) -> None:
    """The dynamic programme in whole numbers of 1e-40, at every count where a tail is left."""
    n, unit = 150, 10**40
    null = KeyChain.of(A, [0.5, 0.5])
    chain = PatternNull(Patterns.of(patterns, 2), null).chain
    law = {(s, 0): Fraction(p) for s, p in enumerate(chain.start_miss) if p}
    for _ in range(n - 1):
        following: dict[tuple[int, int], Fraction] = {}
        for (state, hits), weight in law.items():
            for a, b, hit, p in zip(
                chain.source, chain.target, chain.is_hit, chain.probability, strict=True
            ):
                if a == state:
                    to = (int(b), hits + int(hit))
                    following[to] = following.get(to, Fraction(0)) + weight * Fraction(p)
        law = {k: Fraction(round(v * unit**4), unit**4) for k, v in following.items()}
    tails = [sum((w for (_, hits), w in law.items() if hits >= c), Fraction(0)) for c in range(n)]
    tilted = TiltedCount(chain, [n])
    for count in range(1, n, 6):
        if tails[count] > Fraction(1, unit**3):
            log_p = tilted.log_tail(count)
            assert abs(expm1(log_p - log(min(tails[count], Fraction(1))))) < RELATIVE


@pytest.mark.parametrize("n", [9, 12, 30, 200])
def test_single_keys_are_binomial(n: int) -> None:
    """m = 1, where every key may be a hit: lengths around the stride and beyond."""
    null = PatternNull(Patterns.of([(0,)], 2), KeyChain.independent([0.875, 0.125]))
    p = Fraction(7, 8)
    law = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    assert_tails_are(null, [n], law)


def test_a_null_that_sums_to_one_but_for_rounding_is_that_null() -> None:
    thirds = PatternNull(
        Patterns.favoured(KeyChain.cycle(3), 3), KeyChain.independent([0.3333333333] * 3)
    )
    exact = PatternNull(Patterns.favoured(KeyChain.cycle(3), 3))
    for count, n in ((2000, 10_000), (300, 1000)):
        assert abs(expm1(thirds.log_tail(count, [n]) - exact.log_tail(count, [n]))) < RELATIVE


@pytest.mark.slow
def test_where_nothing_can_be_exact_the_p_value_errs_to_the_safe_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("patternmark.null.tilted._MAX_WORK", 0)
    for m, n, count in ((26, 400, 1), (40, 500, 150)):
        exact = log_ratio(sum(algorithm_4(n, m)[count:]), 2 ** (n - 1))
        assert TiltedCount(PatternNull(alternating(m)).chain, [n]).log_tail(count) >= exact


def test_signatures_tell_nulls_apart() -> None:
    assert signature_of(KeyChain.uniform(2)) == "uniform"
    assert signature_of(KeyChain.independent([0.25, 0.75])) == "0.25,0.75"
    markov = [signature_of(KeyChain.cycle(2)), signature_of(KeyChain.cycle(3))]
    assert markov[0] != markov[1]
    assert all(s.startswith("markov-") for s in markov)
