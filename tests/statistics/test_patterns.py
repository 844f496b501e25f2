import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import ParameterError
from patternmark.core.chain import KeyChain
from patternmark.statistics.patterns import Patterns
from tests.oracles import count_naively


@given(st.data())
def test_counting_any_targets(data: st.DataObject) -> None:
    num_keys = data.draw(st.integers(2, 4))
    m = data.draw(st.integers(1, 5))
    key = st.integers(0, num_keys - 1)
    targets = data.draw(st.sets(st.tuples(*[key] * m), min_size=1, max_size=20))
    keys = data.draw(st.lists(st.integers(-1, num_keys - 1), max_size=60))
    patterns = Patterns.of(targets, num_keys)
    assert patterns.count(np.array(keys, dtype=np.int64)) == count_naively(keys, targets)
    hits = patterns.hits(np.array(keys, dtype=np.int64))
    assert len(hits) == max(len(keys) - m + 1, 0)


def test_patterns_longer_than_a_machine_word_can_code() -> None:
    m = 60  # 3^60 does not fit 64 bits
    patterns = Patterns.favoured(KeyChain.cycle(3), m)
    assert patterns.count(np.arange(100) % 3) == 41


def test_favoured_patterns_follow_the_chain() -> None:
    lazy = KeyChain.of([[0.3, 0.7], [0.7, 0.3]], [0.5, 0.5])
    assert Patterns.favoured(lazy, 4).patterns == ((0, 1, 0, 1), (1, 0, 1, 0))
    sticky = KeyChain.of([[0.8, 0.2], [0.2, 0.8]], [0.5, 0.5])
    assert Patterns.favoured(sticky, 3).patterns == ((0, 0, 0), (1, 1, 1))
    cycle = Patterns.favoured(KeyChain.cycle(3), 4)
    assert cycle.patterns == ((0, 1, 2, 0), (1, 2, 0, 1), (2, 0, 1, 2))


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ([], "is empty"),
        ([(0, 1), (0, 1, 0)], r"mixes lengths \[2, 3\]"),
        ([()], "at least one key"),
        ([(0, 2)], r"\[0, 2\] uses a key outside 0..1"),
        ([(0, 1), (0, 1)], "a pattern twice"),
    ],
)
def test_what_is_no_target_set_is_refused(patterns: list, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Patterns.of(patterns, 2)


def test_chains_without_favourites_are_refused() -> None:
    with pytest.raises(ParameterError, match="favours no pattern"):
        Patterns.favoured(KeyChain.uniform(3), 3)
    with pytest.raises(ParameterError, match="at least 2 keys, not 1"):
        Patterns.favoured(KeyChain.alternating(), 1)
    half = np.kron(np.ones((2, 2)), np.full((10, 10), 0.05)) + np.kron(
        np.eye(2), np.full((10, 10), 0.01)
    )
    wide = KeyChain.of(half / half.sum(axis=1, keepdims=True), [0.05] * 20)
    with pytest.raises(ParameterError, match="more than 100000 patterns"):
        Patterns.favoured(wide, 6)
