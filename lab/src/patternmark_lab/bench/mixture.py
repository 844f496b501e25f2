"""`patternmark bench mixture-null`: the null of `auto` for proteins and keys of the paper's scheme.

Block keys have another null (`block_null`), and so have texts (`text_null`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.null.mixture import GRID
from patternmark.statistics.likelihood import PAPER_MIXTURE
from patternmark.statistics.rates import agreement_rates
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.simulation import Simulation

LENGTHS = (20, 30, 40, 60, 80, 100, 130, 160, 199, 200, 250, 320, 400, 500, 650, 800, 1000)
DRAWS = 50_000


class Job(NamedTuple):
    """One row of the table."""

    length: int
    draws: int


def jobs_of(share: float = 1.0) -> list[Job]:
    """Return the rows of the table, from `share` of the usual number of draws."""
    return [Job(length, int(DRAWS * share)) for length in LENGTHS]


def simulate_tables(
    jobs: list[Job],
    *,
    workers: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return the table that ships with the package (`patternmark.null.mixture`)."""
    found = {}
    for job, log_p in run_all(_simulate, jobs, workers):
        found[job] = log_p.round(3).tolist()
        step(f"{job.length} residues")
    return {
        "about": "ln P(E >= e) of the mixed likelihood ratio E on a grid of ln e from "
        f"{GRID[0]:g} to {GRID[-1]:g} in steps of {GRID[1] - GRID[0]:g}, for each number of scored "
        "residues; made by 'patternmark bench mixture-null'.",
        Paper.name: {
            "lengths": [job.length for job in jobs],
            "log_p": [found[job] for job in jobs],
        },
    }


def _simulate(job: Job) -> tuple[Job, NDArray[np.float64]]:
    profile = Profile(scheme=Paper())

    def draw_schedule(rng: np.random.Generator) -> NDArray[np.bool_]:
        return Key.of(Secret(rng.bytes(32)), profile).partition.members

    background = np.array(PROTEIN_BACKGROUND, dtype=float)
    simulation = Simulation(
        draw_schedule,
        starts=np.arange(profile.scheme.num_keys),
        rates=agreement_rates(PROTEIN, Paper.name),
        frequencies=background / background.sum(),
        mixture=PAPER_MIXTURE,
    )
    return job, simulation.log_p(job.length, job.draws, seed=1)
