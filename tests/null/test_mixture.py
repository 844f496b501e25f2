"""The null of the mixed likelihood ratio: simulated two ways, and as it is shipped."""

from functools import cache

import numpy as np
import pytest

from patternmark import PROTEIN, PROTEIN_BACKGROUND, Alphabet, Detector, Key, Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.cyclic import CyclicRatio
from patternmark.likelihood import Component, Mixture
from patternmark.null.mixture import GRID, CoinSimulation, MixtureNull, Simulation, token_table
from patternmark.rates import ANY_SYMBOL, agreement_rates
from patternmark.statistics.ratio import mixture_of

PAPER = Profile(scheme=Paper())
FREQUENCIES = np.array(PROTEIN_BACKGROUND) / sum(PROTEIN_BACKGROUND)


def draw_parts(rng: np.random.Generator) -> np.ndarray:
    return Key.of(Secret(rng.bytes(32)), PAPER).partition.members


@cache
def simulation() -> Simulation:
    return Simulation(
        draw_parts,
        starts=np.arange(2),
        rates=agreement_rates(PROTEIN, "paper"),
        frequencies=FREQUENCIES,
        mixture=mixture_of(PAPER),
    )


def chance_ratios(length: int, draws: int, seed: int) -> np.ndarray:
    """ln E of unmarked sequences under fresh keys."""
    model, rng, found = simulation(), np.random.default_rng(seed), []
    for _ in range(draws // 64):
        promoted = draw_parts(rng)
        symbols = rng.choice(21, size=(64, length), p=FREQUENCIES)
        ratio = CyclicRatio([promoted], model.rates, model.starts, model.mixture.components)
        scored = np.full(64, length)
        found.append(model.mixture.mix(ratio.log_ratios(symbols)[:, 0], scored))
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


def test_rare_ratios_are_simulated_right() -> None:
    """Draws from the alternative give the tail that counting gives, where counting can."""
    table = simulation().log_p(100, draws=2560, seed=3)
    ratios = chance_ratios(100, 12800, seed=6)
    for e in (0.5, 1.0, 2.0):
        tabled, counted = np.exp(table[e == GRID][0]), np.mean(ratios >= e)
        assert counted <= tabled * 1.05 + 4 * np.sqrt(counted / len(ratios))
        assert tabled <= 1.6 * counted  # five standard errors of few draws, no more


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
TEXT_PROFILES = {
    "paper, 2 starts": Profile(alphabet=TOKENS, scheme=Paper()),
    **{
        token_table(Turns.name, starts): Profile(TOKENS, Turns(starts=starts))
        for starts in (1, 4, 16)
    },
}


@pytest.mark.parametrize(
    ("name", "length", "texts", "num_keys"),
    [
        ("paper, 2 starts", 21, 400, 20),  # between the lengths of the table, and a few agree
        ("paper, 2 starts", 68, 400, 20),
        ("turns, 4 starts", 45, 128, 8),
        ("turns, 1 start", 90, 64, 8),
        ("turns, 16 starts", 35, 64, 8),
    ],
)
def test_the_tables_of_texts_are_not_below_what_is_counted(
    name: str, length: int, texts: int, num_keys: int, rng: np.random.Generator
) -> None:
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
        assert counted >= 0.3 * level - 4 * error  # and not idle


def test_rare_ratios_of_texts_are_simulated_right() -> None:
    simulation = CoinSimulation.of(
        70, 2, 2, np.arange(2), np.array(ANY_SYMBOL), mixture_of(TEXT_PROFILES["paper, 2 starts"])
    )
    table = simulation.log_p(70, draws=10240, seed=3)
    draws = 64 * 512
    ratios = simulation._unmarked(70, draws, np.random.default_rng(6))
    for e in (0.0, 1.0, 2.0, 3.0):
        tabled, counted = np.exp(table[e == GRID][0]), np.mean(ratios >= e)
        assert counted <= tabled + 4 * np.sqrt(counted / draws)
        assert tabled <= 3.0 * counted  # at most a step of the staircase above


def test_no_pair_is_met_twice_and_marks_agree_at_their_rate() -> None:
    steady = Mixture((Component(3),), (1.0,), (1.0,))
    simulation = CoinSimulation.of(40, 8, 4, np.arange(1), np.array(ANY_SYMBOL), steady)
    rng = np.random.default_rng(2)
    promoted = simulation.draw_schedule(rng)
    assert np.all(promoted[:, 0::2] != promoted[:, 1::2])
    assert np.all(promoted[0] != promoted[1])
    symbols = simulation._draw_marked(promoted, 40, rng)
    assert all(len(set(row.tolist())) == 40 for row in symbols // 2)
    agrees = promoted[np.arange(40) % 8, symbols].mean()
    assert agrees == pytest.approx(ANY_SYMBOL[3], abs=0.015)


def test_a_table_of_texts_speaks_for_its_rates_and_mixture_alone() -> None:
    profile = TEXT_PROFILES["paper, 2 starts"]
    rates = agreement_rates(TOKENS, "paper")[:, TOKENS.scored]
    digest = mixture_of(profile).digest
    assert MixtureNull.for_tokens("paper, 2 starts", rates, digest) is not None
    other = rates.copy()
    other[1, 7] += 0.01
    assert MixtureNull.for_tokens("paper, 2 starts", other, digest) is None
    assert MixtureNull.for_tokens("paper, 2 starts", rates[:3], digest) is None
    assert MixtureNull.for_tokens("paper, 2 starts", rates, "another") is None
    assert MixtureNull.for_tokens("paper, 3 starts", rates, digest) is None
    unusual = Profile(alphabet=TOKENS, scheme=Turns(starts=8, nonces=1))
    assert "null:markov" in Detector(Key.generate(unusual)).signature
