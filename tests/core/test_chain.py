import numpy as np
import pytest

from patternmark import ParameterError
from patternmark.core.chain import KeyChain
from patternmark.core.secret import Secret


def test_the_default_alternates_from_either_key() -> None:
    chain = KeyChain.alternating()
    assert chain.transition == ((0.0, 1.0), (1.0, 0.0))
    assert chain.initial == (0.5, 0.5)
    assert chain.draw_first(np.array([0.0, 0.49, 0.5, 0.999])).tolist() == [0, 0, 1, 1]
    assert chain.follow(0, [0.999, 0.0, 0.5]).tolist() == [0, 1, 0, 1]
    assert chain.orbits(4).tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert chain.is_deterministic
    assert not KeyChain.uniform(2).is_deterministic


def test_any_chain_is_drawn_with_its_own_frequencies(secret: Secret) -> None:
    A = np.array([[0.1, 0.6, 0.3], [0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
    chain = KeyChain.of(A, [0.2, 0.2, 0.6])
    keys = chain.follow(2, secret.uniforms("chain", 60_000))
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (keys[:-1], keys[1:]), 1)
    assert np.all(pairs[A == 0] == 0)
    np.testing.assert_allclose(pairs / pairs.sum(axis=1, keepdims=True), A, atol=0.02)
    starts = chain.draw_first(secret.uniforms("starts", 20_000))
    np.testing.assert_allclose(np.bincount(starts) / 20_000, chain.initial, atol=0.02)


@pytest.mark.parametrize(
    ("A", "Q", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], [0.5, 0.5], "row 1 of the transition matrix A sums to 0.9"),
        ([[0, 1], [1, 0.1]], [0.5, 0.5], "row 2 of the transition matrix A sums to 1.1"),
        ([[-0.5, 1.5], [1, 0]], [0.5, 0.5], "row 1 .* outside 0..1"),
        ([[float("nan"), 1], [1, 0]], [0.5, 0.5], "row 1 .* outside 0..1"),
        ([[0, 1], [1, 0]], [0.5, 0.6], "initial distribution Q sums to 1.1"),
        ([[0, 1, 0], [1, 0, 0]], [0.5, 0.5], "row 1 .* has 3 entries, not 2"),
        ([[0, 1]], [0.5, 0.5], "A has 1 rows"),
        ([[1]], [1], "at least 2 keys"),
        ([["a", "b"], [1, 0]], [0.5, 0.5], "rows of numbers"),
        ([1, 0], [0.5, 0.5], "rows of numbers"),
    ],
)
def test_what_is_no_chain_is_refused_readably(A: list, Q: list, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        KeyChain.of(A, Q)


def test_rounding_never_lets_an_impossible_key_through() -> None:
    cases = [([1 / 3, 1 / 3, 1 / 3], 2), ([0.1] * 10, 9), ([0.7, 0.3, 0.0], 1)]
    for row, last in cases:
        chain = KeyChain.independent(row)
        assert chain.draw_first(np.array([1 - 2.0**-53])).tolist() == [last]
        assert chain.follow(0, [1 - 2.0**-53]).tolist() == [0, last]
    never_first = KeyChain.independent([0.0, 1.0])
    assert never_first.draw_first(np.array([0.0])).tolist() == [1]
    assert never_first.follow(1, [0.0]).tolist() == [1, 1]
