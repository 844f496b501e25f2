"""The null of the mixed likelihood ratio, simulated and counted."""

import numpy as np
import pytest

from patternmark import PROTEIN
from patternmark.null.mixture import GRID
from patternmark.statistics.rates import agreement_rates
from patternmark.statistics.ratio import mixture_of
from patternmark_lab.simulation import Simulation
from tests.null.test_mixture import FREQUENCIES, PAPER, chance_ratios, draw_parts


@pytest.mark.slow
def test_rare_ratios_are_simulated_right() -> None:
    """Draws from the alternative give the tail that counting gives, where counting can."""
    simulation = Simulation(
        draw_parts,
        starts=np.arange(2),
        rates=agreement_rates(PROTEIN, "paper"),
        frequencies=FREQUENCIES,
        mixture=mixture_of(PAPER),
    )
    table = simulation.log_p(100, draws=2560, seed=3)
    ratios = chance_ratios(100, 12800, seed=6)
    for e in (0.5, 1.0, 2.0):
        tabled, counted = np.exp(table[e == GRID][0]), np.mean(ratios >= e)
        assert counted <= tabled * 1.05 + 4 * np.sqrt(counted / len(ratios))
        assert tabled <= 1.6 * counted  # five standard errors of few draws, no more
