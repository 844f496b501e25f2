"""Rates of positions, held against the marked law itself."""

from dataclasses import replace

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key, ParameterError, Profile
from patternmark.core.alphabet import Alphabet
from patternmark.core.blocks import PROTEIN_PAIRS
from patternmark.core.schemes import Blocks, Paper
from patternmark.statistics import make_backbone
from patternmark.statistics.expected_rates import (
    _UNEXPECTED_SHARE,
    STRENGTHS,
    position_rates,
    random_halves,
)

PROFILES = {"paper": Profile(scheme=Paper()), "blocks": Profile(scheme=Blocks())}
both = pytest.mark.parametrize("scheme", PROFILES)
TEMPERATURE = 0.1


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def letters(text: str) -> np.ndarray:
    return PROTEIN.encode(text)


def law(**shares: float) -> np.ndarray:
    law = np.zeros(PROTEIN.size)
    for letter, share in shares.items():
        law[letters(letter)] = share
    return law[None, None]


@both
@pytest.mark.parametrize("delta_at", ["logits", "tempered"])
def test_rates_are_those_of_the_marked_law(
    scheme: str, delta_at: str, rng: np.random.Generator
) -> None:
    profile = replace(PROFILES[scheme], delta_at=delta_at)
    logits = rng.normal(size=(1, 30, PROTEIN.size))
    logits[..., letters("X")] = -np.inf
    symbols = rng.choice(PROTEIN.scored, 30)
    found = position_rates(softmax(logits / TEMPERATURE), symbols, profile, TEMPERATURE)
    halves, at = random_halves(profile), np.arange(30)
    for level, delta in enumerate(STRENGTHS):
        where = np.where(halves[:, None], 1.0, 0.0)  # [halves, 1, V]
        if delta_at == "logits":
            marked = softmax((logits + delta * where) / TEMPERATURE)
        else:
            marked = softmax(logits / TEMPERATURE + delta * where)
        chosen = marked[:, at, symbols]
        inside = halves[:, symbols]
        a, b = (np.where(some, chosen, 0.0).sum(axis=0) for some in (inside, ~inside))
        expected = (1 - _UNEXPECTED_SHARE) * a / (a + b) + _UNEXPECTED_SHARE / 2
        np.testing.assert_allclose(found[level], expected, rtol=1e-9)


@both
def test_a_position_without_a_choice_carries_nothing(scheme: str) -> None:
    rates = position_rates(law(A=1.0), letters("A"), PROFILES[scheme], TEMPERATURE)
    np.testing.assert_allclose(rates, 0.5, atol=1e-6)


def test_a_pair_decides_between_its_letters() -> None:
    wavering = law(A=0.5, E=0.5)
    blocks = position_rates(wavering, letters("A"), PROFILES["blocks"], TEMPERATURE)[:, 0]
    paper = position_rates(wavering, letters("A"), PROFILES["paper"], TEMPERATURE)[:, 0]
    assert blocks[-1] > 0.98
    assert np.all(blocks > paper)  # a random half splits the pair half of the time
    assert np.all(np.diff(blocks) > 0)


@both
def test_no_rate_is_below_a_half_nor_certain(scheme: str, rng: np.random.Generator) -> None:
    laws = rng.dirichlet(np.full(20, 0.1), size=(4, 200))
    laws = np.concatenate([laws, np.zeros((4, 200, 1))], axis=2)
    rates = position_rates(laws, rng.integers(0, 20, 200), PROFILES[scheme], 0.05)
    assert np.all(rates >= 0.5 - 1e-9)
    assert rates.max() <= 1.0 - _UNEXPECTED_SHARE / 2


def test_halves_take_one_of_each_pair() -> None:
    first, second = np.array([letters(pair) for pair in PROTEIN_PAIRS]).T
    halves = random_halves(PROFILES["blocks"])
    assert len(np.unique(halves, axis=0)) > 100
    assert np.all(halves[:, first] ^ halves[:, second])


def test_other_alphabets_are_refused() -> None:
    words = Profile(alphabet=Alphabet("words", 100, (), "0" * 64), scheme=Paper())
    with pytest.raises(ParameterError, match="exist only for proteins"):
        position_rates(np.full((1, 1, 100), 0.01), np.zeros(1, dtype=int), words, 1.0)


@both
def test_at_a_temperature_near_zero_rates_are_still_rates(
    scheme: str, rng: np.random.Generator
) -> None:
    laws = softmax(rng.normal(size=(2, 40, PROTEIN.size)) / 1e-4)
    symbols = rng.choice(PROTEIN.scored, 40)
    found = position_rates(laws, symbols, PROFILES[scheme], 1e-4)
    assert np.all((found > 0.0) & (found < 1.0))


@both
def test_what_is_no_rate_is_refused(scheme: str, rng: np.random.Generator) -> None:
    key = Key.generate(PROFILES[scheme])
    detector = Detector(key, make_backbone(key))
    sequence = rng.choice(PROTEIN.scored, 30)
    for rates in (np.full((3, 30), np.nan), np.full((3, 30), 1.0), np.full((3, 29), 0.6)):
        with pytest.raises(ParameterError, match="rates"):
            detector.detect_many([sequence], rates=[rates])
