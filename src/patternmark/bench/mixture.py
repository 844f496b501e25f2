"""`patternmark bench mixture-null`: the table behind `auto`'s p-values, simulated anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.bench.jobs import run_all
from patternmark.derive import Secret
from patternmark.key import Key
from patternmark.null.mixture import GRID, Simulation
from patternmark.profile import HARDENED, PAPER, Profile
from patternmark.rates import agreement_rates
from patternmark.statistics.ratio import mixture_of

PROFILES = {PAPER: Profile(), HARDENED: Profile(scheme=HARDENED, nonces=1)}
LENGTHS = {
    PAPER: (20, 30, 40, 60, 80, 100, 130, 160, 199, 200, 250, 320, 400, 500, 650, 800, 1000),
    HARDENED: (
        *(20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100, 115, 130, 145, 160, 180, 199),
        *(200, 225, 250, 285, 320, 360, 400, 450, 500, 570, 650, 720, 800, 900, 1000),
    ),
}
DRAWS = {PAPER: 50_000, HARDENED: 60_000}


def simulate_tables(
    *,
    share: float = 1.0,
    workers: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return what `patternmark.null.mixture` ships, from `share` of the usual number of draws."""
    jobs = [(scheme, n, int(DRAWS[scheme] * share)) for scheme in PROFILES for n in LENGTHS[scheme]]
    found = {}
    for (scheme, length, _), log_p in run_all(_simulate_job, jobs, workers):
        found[scheme, length] = log_p
        step(f"{scheme}, {length} residues")
    about = (
        "ln P(E >= e) of the mixed likelihood ratio E on a grid of ln e from "
        f"{GRID[0]:g} to {GRID[-1]:g} in steps of {GRID[1] - GRID[0]:g}, for each number of scored "
        "residues; "
        "made by 'patternmark bench mixture-null'."
    )
    tables = {
        scheme: {
            "lengths": list(LENGTHS[scheme]),
            "log_p": [found[scheme, n].round(3).tolist() for n in LENGTHS[scheme]],
        }
        for scheme in PROFILES
    }
    return {"about": about, **tables}


Job = tuple[str, int, int]


def _simulate_job(job: Job) -> tuple[Job, NDArray[np.float64]]:
    return job, _simulate(*job)


def _simulate(scheme: str, length: int, draws: int) -> NDArray[np.float64]:
    profile = PROFILES[scheme]

    def draw_schedule(rng: np.random.Generator) -> NDArray[np.bool_]:
        return Key.of(Secret(rng.bytes(32)), profile).schedule.promoted(0)

    background = np.array(PROTEIN_BACKGROUND, dtype=float)
    simulation = Simulation(
        draw_schedule,
        starts=Key.of(Secret(bytes(32)), profile).schedule.starts,
        rates=agreement_rates(PROTEIN, scheme),
        frequencies=background / background.sum(),
        mixture=mixture_of(profile),
    )
    return simulation.log_p(length, draws, seed=1)
