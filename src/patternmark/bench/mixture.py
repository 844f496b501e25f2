"""`patternmark bench mixture-null`: the tables behind `auto`'s p-values, simulated anew."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.bench.jobs import run_all
from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.core.key import Key
from patternmark.core.profile import HARDENED, PAPER, Profile
from patternmark.core.schedule import DEFAULT_BLOCK, DEFAULT_PERIOD
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.likelihood import TEXT_HARDENED_MIXTURE, TEXT_PAPER_MIXTURE, Mixture
from patternmark.null.mixture import GRID, CoinSimulation, Simulation, token_table
from patternmark.rates import ANY_SYMBOL, agreement_rates
from patternmark.statistics.ratio import mixture_of

PROFILES = {PAPER: Profile(scheme=Paper()), HARDENED: Profile(scheme=Blocks(nonces=1))}
LENGTHS = {
    PAPER: (20, 30, 40, 60, 80, 100, 130, 160, 199, 200, 250, 320, 400, 500, 650, 800, 1000),
    HARDENED: (
        *(20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100, 115, 130, 145, 160, 180, 199),
        *(200, 225, 250, 285, 320, 360, 400, 450, 500, 570, 650, 720, 800, 900, 1000),
    ),
}
DRAWS = {PAPER: 50_000, HARDENED: 60_000}
TOKEN_STARTS = {PAPER: (2,), HARDENED: (1, 4, 16)}
TOKEN_LENGTHS = (
    *(10, 13, 17, 22, 30, 40, 50, 60, 75, 100, 130, 160, 199),
    *(200, 250, 320, 450, 650, 1000),
)
TOKEN_DRAWS = {PAPER: 20_000, HARDENED: 8_000}
_MANY_TOKENS, _FEWER = 400, 2  # a long text has evidence to spare: fewer draws do


class Job(NamedTuple):
    """One row of one table."""

    table: str
    scheme: str
    starts: int | None  # of tokens; of proteins the usual ones
    length: int
    draws: int


def protein_jobs(share: float = 1.0) -> list[Job]:
    """Return the rows of the tables for proteins, from `share` of the usual number of draws."""
    return [
        Job(scheme, scheme, None, length, int(DRAWS[scheme] * share))
        for scheme in PROFILES
        for length in LENGTHS[scheme]
    ]


def token_jobs(share: float = 1.0) -> list[Job]:
    """Return the rows of the tables for texts, likewise."""
    jobs = []
    for scheme, length in product(TOKEN_STARTS, TOKEN_LENGTHS):
        draws = int(TOKEN_DRAWS[scheme] * share / (_FEWER if length > _MANY_TOKENS else 1))
        for starts in TOKEN_STARTS[scheme]:
            jobs.append(Job(token_table(scheme, starts), scheme, starts, length, draws))
    return jobs


def simulate_tables(
    jobs: list[Job],
    *,
    workers: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return what `patternmark.null.mixture` ships."""
    found = {}
    for job, log_p in run_all(_simulate_job, jobs, workers):
        found[job] = log_p
        step(f"{job.table}, {job.length} symbols")
    about = (
        "ln P(E >= e) of the mixed likelihood ratio E on a grid of ln e from "
        f"{GRID[0]:g} to {GRID[-1]:g} in steps of {GRID[1] - GRID[0]:g}, for each number of scored "
        f"{'residues' if jobs[0].starts is None else 'tokens'}; "
        "made by 'patternmark bench mixture-null'."
    )
    tables: dict[str, Any] = {}
    for job in jobs:
        table = tables.setdefault(job.table, _described(job) | {"lengths": [], "log_p": []})
        table["lengths"].append(job.length)
        table["log_p"].append(found[job].round(3).tolist())
    return {"about": about, **tables}


def _described(job: Job) -> dict[str, Any]:
    """Return what a table of tokens holds for: others need another."""
    if job.starts is None:
        return {}
    return {"rates": list(ANY_SYMBOL), "mixture": _token_mixture(job.scheme).digest}


def _simulate_job(job: Job) -> tuple[Job, NDArray[np.float64]]:
    simulation = _of_proteins(job) if job.starts is None else _of_tokens(job, job.starts)
    return job, simulation.log_p(job.length, job.draws, seed=1)


def _of_proteins(job: Job) -> Simulation:
    profile = PROFILES[job.scheme]

    def draw_schedule(rng: np.random.Generator) -> NDArray[np.bool_]:
        return Key.of(Secret(rng.bytes(32)), profile).schedule.promoted(0)

    background = np.array(PROTEIN_BACKGROUND, dtype=float)
    return Simulation(
        draw_schedule,
        starts=Key.of(Secret(bytes(32)), profile).schedule.starts,
        rates=agreement_rates(PROTEIN, job.scheme),
        frequencies=background / background.sum(),
        mixture=mixture_of(profile),
    )


def _of_tokens(job: Job, starts: int) -> CoinSimulation:
    period, block = (DEFAULT_PERIOD, DEFAULT_BLOCK) if job.scheme == HARDENED else (2, 2)
    return CoinSimulation.of(
        job.length,
        period,
        block,
        starts=np.arange(starts) * (period // starts),
        rates=np.array(ANY_SYMBOL),
        mixture=_token_mixture(job.scheme),
    )


def _token_mixture(scheme: str) -> Mixture:
    return TEXT_HARDENED_MIXTURE if scheme == HARDENED else TEXT_PAPER_MIXTURE
