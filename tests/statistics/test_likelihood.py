"""Likelihood ratios against sums over every path, written out."""

from itertools import pairwise, product
from math import log

import numpy as np
import pytest

from patternmark.core.alphabet import UNREAD
from patternmark.statistics import cyclic
from patternmark.statistics.cyclic import CyclicRatio, PathRatios
from patternmark.statistics.likelihood import (
    PAPER_MIXTURE,
    TEXT_MIXTURE,
    ChainRatio,
    Component,
    factors,
    log_mean_exp,
    symbol_factors,
)
from patternmark.statistics.phase_sums import PartScreen, PhaseSums, double_period, quantise

PERIOD, SYMBOLS = 4, 4
PROMOTED = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], dtype=bool)
RATES = np.array([[0.6] * SYMBOLS, [0.7, 0.8, 0.55, 0.65]])
STARTS = np.array([0, 2])
MOVING = [
    Component(0, slip=0.3),
    Component(1, slip=0.3, anywhere=True),
    Component(1, slip=0.05),
    Component(0, slip=0.2, edge=0.1, anywhere=True),
    Component(1, slip=0.02, edge=0.15),
    Component(1, slip=0.004),
    Component(1, slip=0.005, edge=0.01, anywhere=True),
]


def rows(rng: np.random.Generator, batch: int, length: int) -> np.ndarray:
    symbols = rng.integers(0, SYMBOLS, size=(batch, length))
    symbols[rng.random(symbols.shape) < 0.15] = UNREAD
    return symbols


def steady_sum(symbols: np.ndarray, component: Component, promoted: np.ndarray) -> float:
    """The mean over first phases of the product of factors."""
    table = factors(promoted, RATES[component.level])
    firsts = range(len(promoted)) if component.anywhere else STARTS
    ratios = [
        np.prod([table[(phase + i) % len(promoted), s] for i, s in enumerate(symbols)])
        for phase in firsts
    ]
    return float(np.mean(ratios))


def path_sum(symbols: np.ndarray, component: Component) -> float:
    """The sum over all paths: a state for each stride, `before`, `after` or a phase."""
    table, stride = factors(PROMOTED, RATES[component.level]), component.stride
    slip, edge = component.per_step
    firsts = range(PERIOD) if component.anywhere else STARTS.tolist()
    prior = {phase: 1 / len(firsts) for phase in firsts}
    before, after = "before", "after"

    def step(here: str | int, to: str | int) -> float:
        if here == before:
            return (1 - edge) if to == before else edge * prior.get(to, 0.0)  # type: ignore[arg-type]
        if here == after:
            return float(to == after)
        if to == after:
            return edge
        if to == before:
            return 0.0
        moved = (int(to) - int(here)) % PERIOD
        return (1 - edge) * {0: 1 - slip, 1: slip / 2, PERIOD - 1: slip / 2}.get(moved, 0.0)

    def weight(state: str | int, number: int) -> float:
        if isinstance(state, str):
            return 1.0
        places = range(number * stride, min((number + 1) * stride, len(symbols)))
        return float(np.prod([table[(state + i) % PERIOD, symbols[i]] for i in places]))

    phases = list(range(PERIOD))
    states = [before, after, *phases] if edge else phases
    start = {before: 1.0} if edge else prior
    total = 0.0
    for path in product(start, *[states] * -(-len(symbols) // stride)):
        term = start[path[0]]
        for number, (here, to) in enumerate(pairwise(path)):
            term *= step(here, to) * weight(to, number)
            if not term:
                break
        total += term
    return total


@pytest.mark.parametrize("component", MOVING)
def test_slips_and_edges_are_summed_over_every_path(
    component: Component, rng: np.random.Generator
) -> None:
    length = 3 * component.stride + (component.stride > 1)
    symbols = rows(rng, 3, length)
    worths = {component.table: symbol_factors(PROMOTED, RATES[component.level])}
    found = PathRatios(PROMOTED, worths, STARTS, [component]).log_ratios(symbols)[:, 0]
    expected = [log(path_sum(row, component)) for row in symbols]
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6)  # single precision


@pytest.mark.parametrize("anywhere", [False, True])
def test_steady_paths_of_every_nonce(anywhere: bool, rng: np.random.Generator) -> None:
    component = Component(1, anywhere=anywhere)
    nonces = [PROMOTED, PROMOTED[::-1]]
    symbols = rows(rng, 5, 11)
    ratio = CyclicRatio(nonces, RATES, STARTS, [component])
    found = ratio.log_ratios(symbols)[..., 0]
    expected = [[log(steady_sum(row, component, p)) for p in nonces] for row in symbols]
    np.testing.assert_allclose(found, expected, rtol=0, atol=11 * 2.0**-20)


@pytest.mark.parametrize("shares", [None, np.array([0.5])])
def test_few_starts_are_summed_as_many_are(
    shares: np.ndarray | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbols, steady = rows(rng, 5, 11), [Component(0), Component(1)]

    def found() -> np.ndarray:
        ratio = CyclicRatio([PROMOTED], RATES, STARTS, steady, shares=shares)
        return ratio.log_ratios(symbols)

    by_starts = found()
    monkeypatch.setattr(cyclic, "_MAX_SINGLE_STARTS", 1)
    np.testing.assert_array_equal(by_starts, found())  # to the last bit


def test_phase_scores_are_sums_of_logarithms(rng: np.random.Generator) -> None:
    tables = np.stack([factors(PROMOTED, RATES[1]), factors(~PROMOTED, RATES[1])])
    symbols, first = rows(rng, 4, 10), 3
    found = PhaseSums(np.log(tables))(symbols, first)
    for b, r, phase in product(range(4), range(2), range(PERIOD)):
        terms = [tables[r, (phase + first + i) % PERIOD, s] for i, s in enumerate(symbols[b])]
        assert found[b, r, phase] == pytest.approx(np.log(terms).sum(), abs=1e-12)


def test_a_mark_is_seen_in_a_part_of_a_sequence(rng: np.random.Generator) -> None:
    """Where the second half is in another phase, the best of the whole is no guide."""
    schedules = rng.permuted(np.tile(np.arange(20) < 10, (8, 64, 1)), axis=2)
    tables = np.log(np.stack([factors(p, np.full(20, 0.8)) for p in schedules]))
    key = np.concatenate([np.arange(256), np.arange(257, 513)]) % 64
    symbols = np.array([[rng.choice(np.flatnonzero(schedules[5][k])) for k in key]])
    whole, scale = quantise(tables)
    best = PartScreen(double_period(whole), scale, np.arange(64)).best_in_part(symbols)[0]
    assert int(np.argmax(best)) == 5
    assert best[5] == pytest.approx(256 * log(1.6) * 31 / log(1 / 0.4), rel=0.2)


def test_the_mean_over_all_sequences_is_one() -> None:
    """An e-value: summed over every sequence with its probability under the null."""
    frequencies = np.array([0.1, 0.2, 0.3, 0.4])
    components = [Component(1), Component(1, anywhere=True), *MOVING]
    ratio = CyclicRatio([PROMOTED], RATES, STARTS, components, frequencies)
    symbols = np.array(list(product(range(SYMBOLS), repeat=5)))
    chances = frequencies[symbols].prod(axis=1)
    means = chances @ np.exp(ratio.log_ratios(symbols)[:, 0])
    np.testing.assert_allclose(means, 1.0, atol=5 * 2.0**-20)  # logarithms are rounded down
    assert (means < 1 + 1e-6).all()
    alike = CyclicRatio([PROMOTED], RATES[:1], STARTS, [Component(0, slip=0.3)])
    np.testing.assert_allclose(np.exp(alike.log_ratios(symbols)).mean(), 1.0, atol=2e-6)


def test_with_many_nonces_the_mean_is_at_most_one(rng: np.random.Generator) -> None:
    nonces = [rng.permuted(PROMOTED, axis=1) for _ in range(4)]
    ratio = CyclicRatio(nonces, RATES, STARTS, [Component(0), *MOVING[:2]], np.full(4, 0.25))
    symbols = np.array(list(product(range(SYMBOLS), repeat=5)))
    best = np.argsort(-ratio.log_ratios(symbols)[..., 0], axis=1)[:, :2]
    some = ratio.log_ratios(symbols, best)
    assert some.shape == (len(symbols), 2, 3)
    means = np.exp(log_mean_exp(some.transpose(0, 2, 1), total=True)).mean(axis=0) / len(nonces)
    assert (means < 1.0).all()  # two of four nonces are looked at
    assert (means > 0.3).all()


def test_chains_that_are_no_cycle(rng: np.random.Generator) -> None:
    transition = np.array([[0.1, 0.6, 0.2, 0.1], [0, 0, 1, 0], [0.5, 0, 0, 0.5], [1, 0, 0, 0]])
    initial = np.array([0.5, 0.25, 0.25, 0.0])
    components = [Component(0), Component(1, slip=0.2)]
    symbols = rows(rng, 4, 5)
    ratio = ChainRatio(PROMOTED, RATES, transition, initial, components)
    found = ratio.log_ratios(symbols)[:, 0]
    for c, component in enumerate(components):
        slip, table = component.slip, factors(PROMOTED, RATES[component.level])
        move = (1 - slip) * transition + slip / 2 * (np.eye(4) + transition @ transition)
        for row, value in zip(symbols, found[:, c], strict=True):
            total = 0.0
            for path in product(range(4), repeat=len(row)):
                steps = [move[a, b] for a, b in pairwise(path)]
                terms = [table[k, s] for k, s in zip(path, row, strict=True)]
                total += initial[path[0]] * np.prod(steps) * np.prod(terms)
            assert value == pytest.approx(log(total), abs=1e-12)


def test_what_stands_beside_a_sequence_changes_nothing(rng: np.random.Generator) -> None:
    nonces = [rng.permuted(PROMOTED, axis=1) for _ in range(5)]
    ratio = CyclicRatio(nonces, RATES, STARTS, [Component(0), *MOVING])
    batch = rows(rng, 40, 300)
    lengths = rng.integers(0, 301, size=40)
    batch[np.arange(300) >= lengths[:, None]] = UNREAD
    together = ratio.log_ratios(batch)
    for row, length, found in zip(batch, lengths.tolist(), together, strict=True):
        np.testing.assert_allclose(ratio.log_ratios(row[None, :length])[0], found, atol=1e-9)


def test_padding_and_nothing_leave_the_ratio_at_one() -> None:
    nothing = np.full((2, 9), UNREAD)
    ratio = CyclicRatio([PROMOTED], RATES, STARTS, [Component(0), *MOVING])
    np.testing.assert_allclose(ratio.log_ratios(nothing), 0.0, atol=1e-12)
    assert ratio.log_ratios(np.zeros((0, 9), dtype=np.int64)).shape == (0, 1, 8)
    np.testing.assert_allclose(ratio.log_ratios(np.zeros((2, 0), dtype=np.int64)), 0.0, atol=1e-12)


def test_long_sequences_neither_overflow_nor_vanish(rng: np.random.Generator) -> None:
    ratio = CyclicRatio([PROMOTED], np.full((2, 4), 0.9), STARTS, [Component(0), *MOVING])
    key = np.arange(6000) % PERIOD
    agreeing = np.array([np.flatnonzero(PROMOTED[k])[0] for k in key])
    found = ratio.log_ratios(np.stack([agreeing, rng.integers(0, 4, 6000)]))
    assert np.isfinite(found).all()
    assert found[0, 0, 0] == pytest.approx(6000 * log(1.8) - log(2), rel=1e-5)


def test_the_rarer_the_slips_the_longer_the_stride() -> None:
    assert [Component(0, slip=s).stride for s in (0.2, 0.05, 0.01, 0.0)] == [1, 2, 4, 4]
    slip, edge = Component(0, slip=0.05, edge=0.1).per_step
    assert (slip, edge) == pytest.approx((1 - 0.95**2, 1 - 0.9**2))


def test_weights_sum_to_one() -> None:
    for mixture in (PAPER_MIXTURE, TEXT_MIXTURE):
        for weights in (mixture.weights, mixture.short_weights, mixture.any_weights):
            if weights:
                assert len(weights) == len(mixture.components)
                assert sum(weights) == pytest.approx(1.0, abs=1e-12)


def test_what_holds_for_any_text_mixes_shared_components_alone() -> None:
    pairs = zip(TEXT_MIXTURE.components, TEXT_MIXTURE.any_weights, strict=True)
    assert all(component.is_shared for component, weight in pairs if weight)
    assert not any(component.is_shared for component in PAPER_MIXTURE.components)
