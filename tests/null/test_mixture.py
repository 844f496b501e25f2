"""The null of the mixed likelihood ratio as it is shipped, against what is counted."""

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet, Detector, Key, Profile
from patternmark.core.alphabet import PROTEIN_BACKGROUND
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.null.mixture import MixtureNull, text_null
from patternmark.statistics.cyclic import CyclicRatio
from patternmark.statistics.likelihood import TEXT_MIXTURE
from patternmark.statistics.rates import agreement_rates
from patternmark.statistics.ratio import mixture_of

PAPER = Profile(scheme=Paper())
SCHEMES = {"turns": Turns(), "paper": Paper()}
FREQUENCIES = np.array(PROTEIN_BACKGROUND) / sum(PROTEIN_BACKGROUND)


def draw_parts(rng: np.random.Generator) -> np.ndarray:
    return Key.of(Secret(rng.bytes(32)), PAPER).partition.members


def chance_ratios(length: int, draws: int, seed: int) -> np.ndarray:
    """ln E of unmarked sequences under fresh keys."""
    mixture, rates = mixture_of(PAPER), agreement_rates(PROTEIN, "paper")
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws // 64):
        promoted = draw_parts(rng)
        symbols = rng.choice(21, size=(64, length), p=FREQUENCIES)
        ratio = CyclicRatio([promoted], rates, np.arange(2), mixture.components)
        scored = np.full(64, length)
        found.append(mixture.mix(ratio.log_ratios(symbols)[:, 0], scored))
    return np.concatenate(found)


@pytest.mark.parametrize(("length", "draws"), [(120, 6400), (45, 3200)])
def test_the_shipped_table_is_not_below_what_is_counted(length: int, draws: int) -> None:
    ratios = chance_ratios(length, draws, seed=5)
    log_p = MixtureNull.shipped("paper").log_tail(ratios, np.full(draws, length))
    for level in (0.3, 0.1, 0.03, 0.01):
        counted = np.mean(log_p <= np.log(level))
        error = np.sqrt(level / draws)
        assert counted <= level + 4 * error
        if level >= 0.03:  # and not idle: within a factor of the level
            assert counted >= 0.4 * level - 4 * error


def test_a_tail_falls_and_stays_below_markov() -> None:
    null = MixtureNull.shipped("paper")
    ratios = np.linspace(-30, 120, 400)
    for length in (5, 25, 100, 199, 200, 401, 5000):
        log_p = null.log_tail(ratios, np.full(400, length))
        assert np.all(np.diff(log_p) <= 1e-9)
        assert np.all(log_p <= np.minimum(-ratios, 0.0) + 1e-12)
        assert log_p[0] == 0.0


def test_nonces_share_the_chances() -> None:
    null = MixtureNull.shipped("paper")
    scored = np.full(3, 400)
    ratios = np.array([3.0, 8.0, 20.0])
    one, many = (null.log_tail(ratios, scored, nonces) for nonces in (1, 64))
    assert np.all(many >= null.log_tail(ratios + np.log(64), scored) + np.log(64) - 1e-9)
    assert np.all(many <= -ratios)
    assert np.all(one <= -ratios)


def test_too_short_for_the_table_is_markov() -> None:
    null = MixtureNull.shipped("paper")
    assert null.log_tail(np.array([4.0]), np.array([10])) == pytest.approx(-4.0)


def test_ratios_beyond_floats_have_a_p_value() -> None:
    """A long marked record: e^1000 is no float, its p-value is as small as Markov's bound."""
    null = MixtureNull.shipped("paper")
    ratios = np.array([0.0, 1e-12, 50.0, 1000.0])
    log_p = null.log_tail(ratios, np.full(4, 3000), nonces=64)
    assert np.all(np.isfinite(log_p))
    assert log_p[0] == 0.0
    assert -1010.0 < log_p[-1] <= -1000.0


TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(2000)], unscored=[0])
TEXT_PROFILES = {name: Profile(TOKENS, scheme) for name, scheme in SCHEMES.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "length", "texts", "num_keys"),
    [
        ("turns", 45, 128, 12),  # between the lengths of the table
        ("turns", 90, 64, 12),
        ("paper", 68, 400, 20),
    ],
)
def test_the_tables_of_texts_are_not_below_what_is_counted(
    name: str, length: int, texts: int, num_keys: int, rng: np.random.Generator
) -> None:
    """Of texts in which every token stands once; `bench text-validity` has natural ones."""
    found = []
    for _ in range(num_keys):
        key = Key.of(Secret(rng.bytes(32)), TEXT_PROFILES[name])
        detector = Detector(key)
        assert "null:markov" not in detector.signature
        some = [rng.permutation(TOKENS.scored)[:length] for _ in range(texts)]
        found += [one.log_p for one in detector.statistic.measure(detector.read(some))]
    for level in (0.1, 0.03, 0.01):
        counted, error = np.mean(np.array(found) <= np.log(level)), np.sqrt(level / len(found))
        assert counted <= level + 4 * error
        assert counted >= 0.2 * level - 4 * error  # and not idle


@pytest.mark.parametrize("name", SCHEMES)
def test_tails_of_texts_fall_and_stay_below_markov(name: str) -> None:
    null = text_null(name, TEXT_MIXTURE.digest)
    assert null is not None
    ratios = np.linspace(-30, 120, 400)
    for length in (5, 25, 75, 200, 401, 5000):
        log_p = null.log_tail(ratios, np.full(400, length))
        assert np.all(np.diff(log_p) <= 1e-9)
        assert np.all(log_p <= np.minimum(-ratios, 0.0) + 1e-12)
        assert log_p[0] == 0.0


def test_a_table_of_texts_speaks_for_its_scheme_shape_and_mixture_alone() -> None:
    digest = TEXT_MIXTURE.digest
    assert mixture_of(TEXT_PROFILES["turns"]).digest == digest
    assert text_null("turns", digest) is not None
    assert text_null("turns", "another") is None
    assert text_null("blocks", digest) is None
    unusual = [Turns(starts=4), Turns(block=64), Turns(period=1024), Paper(KeyChain.cycle(3))]
    for scheme in unusual:
        detector = Detector(Key.generate(Profile(TOKENS, scheme)))
        assert "null:markov" in detector.signature
    assert "null:markov" not in Detector(Key.generate(Profile(TOKENS, Turns(nonces=64)))).signature
    few = Alphabet.from_symbols("few", [f"t{i}" for i in range(100)], unscored=[0])
    assert "null:markov" in Detector(Key.generate(Profile(few, Turns()))).signature
