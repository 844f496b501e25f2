"""The null of the mixed likelihood ratio: simulated two ways, and as it is shipped."""

from functools import cache

import numpy as np
import pytest

from patternmark import PROTEIN, PROTEIN_BACKGROUND, Key, Profile
from patternmark.cyclic import CyclicRatio
from patternmark.derive import Secret
from patternmark.null.mixture import GRID, MixtureNull, Simulation
from patternmark.profile import HARDENED
from patternmark.rates import agreement_rates
from patternmark.statistics.ratio import mixture_of

PROFILES = {"paper": Profile(), "hardened": Profile(scheme=HARDENED, nonces=1)}
FREQUENCIES = np.array(PROTEIN_BACKGROUND) / sum(PROTEIN_BACKGROUND)


def schedule_of(profile: Profile, rng: np.random.Generator) -> np.ndarray:
    return Key.of(Secret(rng.bytes(32)), profile).schedule.promoted(0)


@cache
def simulation(scheme: str) -> Simulation:
    profile = PROFILES[scheme]
    return Simulation(
        lambda rng: schedule_of(profile, rng),
        starts=Key.of(Secret(bytes(32)), profile).schedule.starts,
        rates=agreement_rates(PROTEIN, scheme),
        frequencies=FREQUENCIES,
        mixture=mixture_of(profile),
    )


def chance_ratios(scheme: str, length: int, draws: int, seed: int) -> np.ndarray:
    """ln E of unmarked sequences under fresh keys."""
    model, rng, found = simulation(scheme), np.random.default_rng(seed), []
    for _ in range(draws // 64):
        promoted = schedule_of(PROFILES[scheme], rng)
        symbols = rng.choice(21, size=(64, length), p=FREQUENCIES)
        ratio = CyclicRatio([promoted], model.rates, model.starts, model.mixture.components)
        scored = np.full(64, length)
        found.append(model.mixture.mix(ratio.log_ratios(symbols)[:, 0], scored))
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("scheme", "length", "draws"), [("paper", 120, 6400), ("hardened", 80, 960)]
)
def test_the_shipped_table_is_not_below_what_is_counted(
    scheme: str, length: int, draws: int
) -> None:
    ratios = chance_ratios(scheme, length, draws, seed=5)
    log_p = MixtureNull.shipped(scheme).log_tail(ratios, np.full(draws, length))
    for level in (0.3, 0.1, 0.03, 0.01):
        counted = np.mean(log_p <= np.log(level))
        error = np.sqrt(level / draws)
        assert counted <= level + 4 * error
        if level >= 0.03:  # and not idle: within a factor of the level
            assert counted >= 0.4 * level - 4 * error


def test_rare_ratios_are_simulated_right() -> None:
    """Draws from the alternative give the tail that counting gives, where counting can."""
    table = simulation("paper").log_p(100, draws=2560, seed=3)
    ratios = chance_ratios("paper", 100, 12800, seed=6)
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
    null = MixtureNull.shipped("hardened")
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
    null = MixtureNull.shipped("hardened")
    ratios = np.array([0.0, 1e-12, 50.0, 1000.0])
    log_p = null.log_tail(ratios, np.full(4, 3000), nonces=64)
    assert np.all(np.isfinite(log_p))
    assert log_p[0] == 0.0
    assert -1010.0 < log_p[-1] <= -1000.0
