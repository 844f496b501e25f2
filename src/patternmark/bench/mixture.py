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
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, Turns
from patternmark.core.secret import Secret
from patternmark.likelihood import (
    PAPER_MIXTURE,
    TEXT_PAPER_MIXTURE,
    TEXT_TURNS_MIXTURE,
    Mixture,
)
from patternmark.null.mixture import GRID, CoinSimulation, Simulation, token_table
from patternmark.rates import ANY_SYMBOL, agreement_rates

LENGTHS = (20, 30, 40, 60, 80, 100, 130, 160, 199, 200, 250, 320, 400, 500, 650, 800, 1000)
DRAWS = 50_000


class OfTokens(NamedTuple):
    """What is simulated of a scheme's texts."""

    period: int
    block: int
    starts: tuple[int, ...]
    draws: int
    mixture: Mixture


TOKENS = {
    Paper.name: OfTokens(2, 2, (2,), 20_000, TEXT_PAPER_MIXTURE),
    Turns.name: OfTokens(Turns.period, Turns.block, (1, 4, 16), 8_000, TEXT_TURNS_MIXTURE),
}
TOKEN_LENGTHS = (
    *(10, 13, 17, 22, 30, 40, 50, 60, 75, 100, 130, 160, 199),
    *(200, 250, 320, 450, 650, 1000),
)
_MANY_TOKENS, _FEWER = 400, 2  # a long text has evidence to spare: fewer draws do


class Job(NamedTuple):
    """One row of one table."""

    table: str
    scheme: str
    starts: int | None  # of tokens; of proteins the usual ones
    length: int
    draws: int


def protein_jobs(share: float = 1.0) -> list[Job]:
    """Return the rows of the table for proteins, from `share` of the usual number of draws.

    It is that of the paper's scheme: blocks have an exact ratio, and a null of their own.
    """
    return [Job(Paper.name, Paper.name, None, n, int(DRAWS * share)) for n in LENGTHS]


def token_jobs(share: float = 1.0) -> list[Job]:
    """Return the rows of the tables for texts, likewise."""
    jobs = []
    for (scheme, about), length in product(TOKENS.items(), TOKEN_LENGTHS):
        draws = int(about.draws * share / (_FEWER if length > _MANY_TOKENS else 1))
        for starts in about.starts:
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
    return {"rates": list(ANY_SYMBOL), "mixture": TOKENS[job.scheme].mixture.digest}


def _simulate_job(job: Job) -> tuple[Job, NDArray[np.float64]]:
    simulation = _of_proteins(job) if job.starts is None else _of_tokens(job, job.starts)
    return job, simulation.log_p(job.length, job.draws, seed=1)


def _of_proteins(job: Job) -> Simulation:
    profile = Profile(scheme=Paper())

    def draw_schedule(rng: np.random.Generator) -> NDArray[np.bool_]:
        return Key.of(Secret(rng.bytes(32)), profile).partition.members

    background = np.array(PROTEIN_BACKGROUND, dtype=float)
    return Simulation(
        draw_schedule,
        starts=np.arange(profile.scheme.num_keys),
        rates=agreement_rates(PROTEIN, job.scheme),
        frequencies=background / background.sum(),
        mixture=PAPER_MIXTURE,
    )


def _of_tokens(job: Job, starts: int) -> CoinSimulation:
    about = TOKENS[job.scheme]
    return CoinSimulation.of(
        job.length,
        about.period,
        about.block,
        starts=np.arange(starts) * (about.period // starts),
        rates=np.array(ANY_SYMBOL),
        mixture=about.mixture,
    )
