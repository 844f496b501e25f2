import numpy as np
import pytest

from patternmark import ParameterError
from patternmark.core.chain import KeyChain
from patternmark.null.automaton import counting_chain
from patternmark.statistics.patterns import Patterns


@pytest.mark.parametrize("m", range(2, 12))
def test_alternating_targets_need_the_states_of_algorithm_4(m: int) -> None:
    targets = Patterns.favoured(KeyChain.alternating(), m)
    assert counting_chain(targets, KeyChain.uniform(2)).num_states == m - 1


@pytest.mark.parametrize("num_keys", [2, 3, 7, 20])
def test_a_cycle_of_any_number_of_keys_needs_no_more(num_keys: int) -> None:
    targets = Patterns.favoured(KeyChain.cycle(num_keys), 5)
    assert counting_chain(targets, KeyChain.uniform(num_keys)).num_states == 4


def test_unequal_part_probabilities_keep_the_two_phases_apart() -> None:
    targets = Patterns.favoured(KeyChain.alternating(), 5)
    chain = counting_chain(targets, KeyChain.independent([0.375, 0.625]))
    assert chain.num_states == 8


def test_every_state_moves_somewhere() -> None:
    targets = Patterns.of([(0, 1, 2), (2, 2, 1), (1, 1, 1)], 3)
    null = KeyChain.of([[0.5, 0.25, 0.25], [0, 0.5, 0.5], [1, 0, 0]], [0.25, 0.25, 0.5])
    chain = counting_chain(targets, null)
    np.testing.assert_allclose((chain.miss + chain.hit).sum(axis=1), 1.0, rtol=1e-15)
    assert chain.start_miss.sum() + chain.start_hit.sum() == pytest.approx(1.0, abs=1e-15)


def test_patterns_and_null_must_speak_of_the_same_keys() -> None:
    with pytest.raises(ParameterError, match="3 keys do not fit a null of 2 keys"):
        counting_chain(Patterns.of([(0, 2)], 3), KeyChain.uniform(2))
