"""What a pair of letters shows of its coin, and sets of matchings that share few pairs."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from patternmark_lab.bench.exchanges import agreement_after, effect_of, pair_weights, tournament
from patternmark_lab.bench.matchings import (
    best_matching,
    certain_share,
    partners,
    spread_matchings,
    total_weight,
)

LOGITS = np.log([[0.4, 0.3, 0.2, 0.1]])  # the law of one position


def test_two_letters_by_hand() -> None:
    """Laws 3:1, tripled: 9:1 for heads and 3:3 for tails, so 0.9 + 0.5 of the first letter."""
    shown = effect_of(
        np.log([[0.75, 0.25]]),
        np.array([[0, 1]]),
        np.array([[True]]),
        delta=np.log(3),
        temperature=1.0,
    )
    assert shown.rates == pytest.approx([0.9 / 1.4, 0.5 / 0.6])
    first = 0.9 * np.log(2 * 0.9 / 1.4) + 0.5 * np.log(2 * 0.5 / 1.4)
    second = 0.5 * np.log(2 * 0.5 / 0.6) + 0.1 * np.log(2 * 0.1 / 0.6)
    assert shown.evidence == pytest.approx([first / 2, second / 2])
    assert shown.lost == pytest.approx((0.75 - 0.7) * np.log(0.75 / 0.25))


def test_evidence_is_information_on_the_coin() -> None:
    """With all coins of four letters in turn: mutual information from the whole joint law."""
    pairs = np.array([[0, 2], [1, 3]])
    coins = np.array(list(product([True, False], repeat=2)))
    laws = np.repeat(LOGITS, len(coins), axis=0)
    shown = effect_of(laws, pairs, coins, delta=0.2, temperature=0.1)
    joint = np.zeros((2, 2, 4))  # coin of each pair, letter
    for first, second in product([0, 1], repeat=2):
        raised = LOGITS[0].copy()
        raised[[pairs[0, 1 - first], pairs[1, 1 - second]]] += 0.2
        law = np.exp(raised / 0.1)
        joint[first, second] = law / law.sum() / 4
    of_coin = [joint.sum(axis=1), joint.sum(axis=0)]  # [coin, letter]
    for pair, both in zip(pairs, of_coin, strict=True):
        own = both[:, pair]
        expected = (own * np.log(2 * own / own.sum(axis=0))).sum()
        assert shown.evidence[pair].sum() == pytest.approx(expected)


def test_no_mark_shows_and_costs_nothing() -> None:
    shown = effect_of(LOGITS, np.array([[0, 1], [2, 3]]), np.array([[True, False]]), delta=0.0)
    assert shown.rates == pytest.approx([0.5] * 4)
    assert shown.evidence == pytest.approx([0.0] * 4)
    assert shown.lost == pytest.approx(0.0)


def test_certain_positions_show_nothing() -> None:
    """A letter far ahead of all others comes out under either coin, and costs nothing."""
    shown = effect_of(np.array([[9.0, 0.0]]), np.array([[0, 1]]), np.array([[True]]))
    assert shown.evidence == pytest.approx([0.0, 0.0], abs=1e-9)
    assert shown.lost == pytest.approx(0.0, abs=1e-9)


def test_letters_that_compete_are_the_heavy_pair() -> None:
    logits = np.repeat([[5.0, 4.9, 0.0, -1.0]], 50, axis=0)
    weights = pair_weights(logits, np.random.default_rng(1), rounds=2)
    assert np.array_equal(weights, weights.T)
    assert np.all(np.diag(weights) == 0)
    assert weights[0, 1] == weights.max()
    assert weights[2, 3] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("size", [2, 4, 6, 20])
def test_a_tournament_has_every_pair_once(size: int) -> None:
    counts = partners(np.array(tournament(size)), size)
    assert np.array_equal(counts, 1 - np.eye(size, dtype=np.int64))


def test_best_matching_is_best_of_all() -> None:
    rng = np.random.default_rng(3)
    for size in (2, 4, 6, 8):
        weights = rng.normal(size=(size, size))
        weights += weights.T
        everything = np.array(list(permutations(range(size)))).reshape(-1, size // 2, 2)
        found = best_matching(weights)
        assert sorted(found.ravel().tolist()) == list(range(size))
        best = total_weight(weights, everything).max()
        assert total_weight(weights, found[None])[0] == pytest.approx(best)


def test_spreading_parts_matchings() -> None:
    rng = np.random.default_rng(4)
    weights = rng.random((8, 8))
    weights += weights.T
    often = np.full(8, 1 / 8)
    same = spread_matchings(weights, often, 3, spreading=0.0, rng=rng)
    assert np.array_equal(same, np.repeat(best_matching(weights)[None], 3, axis=0))
    assert certain_share(same, often) == pytest.approx(1.0)
    apart = spread_matchings(weights, often, 3, spreading=100.0, rng=rng)
    assert certain_share(apart, often) == pytest.approx(1 / 3)
    assert partners(apart, 8).max() == 1


def test_certain_share_counts_letters_as_they_occur() -> None:
    """Of two matchings all of whose letters but 0 and 1 change partners."""
    matchings = np.array([[[0, 1], [2, 3], [4, 5]], [[0, 1], [2, 4], [3, 5]]])
    often = np.array([0.3, 0.1, 0.2, 0.2, 0.1, 0.1])
    assert certain_share(matchings, often) == pytest.approx(0.4 + 0.6 / 2)


def test_swaps_turn_votes_as_often_as_matchings_share_the_pair() -> None:
    """Four letters alike under a mark so strong that the letter always agrees."""
    logits, weights = np.zeros((4000, 4)), np.zeros((4, 4))
    every = np.array(tournament(4))
    for matchings, flips in ((every[:1], 1.0), (every, 1 / 3)):
        rng = np.random.default_rng(6)
        found = agreement_after(logits, matchings, weights, rng, delta=50.0)
        assert found["none"] == 1.0
        assert found["partner"] == pytest.approx((1 - flips) / 2, abs=0.03)
        assert found["any"] == pytest.approx(1 / 3, abs=0.03)


def test_a_models_second_choice_was_probably_not_promoted() -> None:
    """Not even with matchings in which the two best letters never are a pair."""
    logits = np.repeat([[5.0, 4.9, 0.0, -1.0]], 4000, axis=0)
    matchings = np.array([[[0, 2], [1, 3]], [[0, 3], [1, 2]]])
    found = agreement_after(logits, matchings, np.zeros((4, 4)), np.random.default_rng(7))
    # Where one of the two is promoted alone, it comes out; else both agree, or neither does.
    assert found["none"] == pytest.approx(0.75, abs=0.03)
    assert found["second"] == pytest.approx(0.25, abs=0.03)
