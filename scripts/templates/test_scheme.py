"""Whether the mark of `example` is found, and chance is not."""

import numpy as np
import pytest

from patternmark import PROTEIN
from patternmark.core.secret import Secret
from patternmark_lab.schemes import EMPTY, Canvas
from patternmark_lab.schemes.example import Example

LENGTH = 120


@pytest.fixture
def scheme() -> Example:
    return Example(Secret(bytes(32)), PROTEIN, delta=2.0)


def generated(scheme: Example, rng: np.random.Generator) -> np.ndarray:
    """Write letters in a random order, from logits of 0 and the bias alone."""
    tokens = np.full((1, LENGTH), EMPTY)
    for place in rng.permutation(LENGTH):
        bias = scheme.bias(Canvas(tokens, np.array([0]), np.array([place])))[0]
        logits = np.where(PROTEIN.is_scored(np.arange(PROTEIN.size)), bias, -np.inf)
        tokens[0, place] = np.argmax(logits + rng.gumbel(size=PROTEIN.size))
    return tokens[0]


def test_a_marked_sequence_is_found_with_its_secret_alone(
    scheme: Example, rng: np.random.Generator
) -> None:
    marked = generated(scheme, rng)
    assert scheme.log10_p(marked) < -6
    assert Example(Secret(b"x" * 32), PROTEIN, delta=2.0).log10_p(marked) > -3


def test_p_values_are_rarely_small_without_a_mark(
    scheme: Example, rng: np.random.Generator
) -> None:
    plain = rng.choice(PROTEIN.scored, size=(2000, LENGTH))
    p = 10.0 ** scheme.judge(plain).log10_p
    for level in (0.1, 0.01):  # 4 standard errors
        assert np.mean(p <= level) <= level + 4 * np.sqrt(level * (1 - level) / len(p))
