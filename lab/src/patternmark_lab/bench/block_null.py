"""`patternmark bench block-null`: the factor C between Markov's bound and the truth, by class.

For one sequence, C(t) = t P(E >= t) over random keys. Keys are drawn with probability proportional
to E, so that C(t) is an average of numbers between 0 and 1 (see `statistics.block_exact`). A few
thousand keys measure P = 1e-7 as well as P = 1e-2. The detector `auto` uses the largest C over all
classes, all lengths and all t from 20 on. It is one number for chains of any length, because an
author can make a short sequence longer with letters that carry almost no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.schemes import DEFAULT_BLOCK
from patternmark.null.block_bound import RARE
from patternmark.statistics.block_ratio import MIXTURE
from patternmark_lab.bench.block_batch import likely_words, mixed_log_ratios
from patternmark_lab.bench.hard_sequences import CLASSES, make_sequences, windows
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.report import environment

LENGTHS = (30, 40, 50, 60, 100, 200, 400, 800)
STEP = 0.5  # between values of ln t in the result
_FINE_STEP = 0.02  # of ln t, to find the largest C; fine, as E of one sequence may have few values
SMALLEST, PER_RESIDUE = 14.0, 0.4  # ln t goes up to 14 or 0.4 for each residue, whichever is larger
NATURAL = "natural chains"
_STANDARD_ERRORS = 2.0
MARGIN = 1.1  # a longer search, or other classes, may find a larger C
_LONG_CHAIN = 400  # residues, from which on fewer sequences are drawn, to save time
_LONG_CHAIN_DIVISOR = 2  # of the number of sequences of long chains


class Job(NamedTuple):
    """One class of sequences at one length, and the values of ln t at which to measure C."""

    name: str
    length: int  # scored residues
    letters: NDArray[np.int64]  # [B, n]
    seed: int
    log_t: NDArray[np.float64]


def grid(length: int) -> NDArray[np.float64]:
    """Return the values of ln t at which C is measured for chains of a length: 0, 0.5, ..."""
    return np.arange(0.0, max(SMALLEST, PER_RESIDUE * length) + STEP / 2, STEP)


def num_classes() -> int:
    """Return the number of classes of sequences."""
    return 1 + len(CLASSES)


def measure_c(
    natural: Sequence[NDArray[np.int64]],
    *,
    lengths: Sequence[int] | None = None,
    draws: int = 2048,
    seed: int = 1,
    workers: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return C of every class and length, and the table that ships with the package."""
    lengths = lengths or LENGTHS
    jobs = jobs_of(natural, lengths, draws, seed, grid)
    rows = measure_jobs(jobs, workers, step)
    return {
        "benchmark": "block-null",
        **environment(),
        "block": DEFAULT_BLOCK,
        "mixture": MIXTURE.digest,
        "seed": seed,
        "step": STEP,
        "rows": rows,
        "table": table_of(rows),
    }


def jobs_of(
    natural: Sequence[NDArray[np.int64]],
    lengths: Sequence[int],
    draws: int,
    seed: int,
    log_t: Callable[[int], NDArray[np.float64]],
) -> list[Job]:
    """Return a job for every class and length; `log_t(length)` gives the values of ln t."""
    jobs = []
    for number, name in enumerate((NATURAL, *CLASSES)):
        for n in lengths:
            rng = np.random.default_rng([seed, number, n])
            batch = max(2, draws // _LONG_CHAIN_DIVISOR if n >= _LONG_CHAIN else draws)
            if name != NATURAL:
                letters = make_sequences(name, n, batch, rng)
            elif any(len(chain) >= n for chain in natural):
                letters = windows(natural, n, batch, rng)
            else:
                continue  # no natural chain is long enough
            jobs.append(Job(name, n, letters, seed, log_t(n)))
    return jobs


def measure_jobs(
    jobs: Sequence[Job], workers: int, step: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return C(t) of every job, in order; `step` is called for each finished job."""
    found = {}
    for row in run_all(_measure, jobs, workers):
        found[row["class"], row["length"]] = row
        step(f"{row['class']}, {row['length']}")
    return [found[job.name, job.length] for job in jobs]


def _measure(job: Job) -> dict[str, Any]:
    rng = np.random.default_rng([job.seed, job.length, *job.name.encode()])
    words = likely_words(job.letters, DEFAULT_BLOCK, rng)
    log_e = mixed_log_ratios(job.letters, words, DEFAULT_BLOCK)
    terms = np.where(log_e[:, None] >= job.log_t, np.exp(job.log_t - log_e[:, None]), 0.0)
    error = terms.std(axis=0, ddof=1) / np.sqrt(len(log_e))
    largest = _largest(log_e, float(job.log_t[-1]))
    return {
        "class": job.name,
        "length": job.length,
        "draws": len(log_e),
        "c": terms.mean(axis=0).round(5).tolist(),
        "error": error.round(5).tolist(),
        **largest,
    }


def _largest(log_e: NDArray[np.float64], last: float) -> dict[str, float]:
    """Return the largest C for t >= RARE, its standard error, and its ln t."""
    descending = -np.sort(-log_e)
    log_t = np.arange(log(RARE), last, _FINE_STEP)
    reached = np.searchsorted(-descending, -log_t, side="right")  # how many have E >= t
    # Sums of 1 / E, and of its square, over the keys with E >= t.
    sums = [np.append(0.0, np.cumsum(np.exp(-power * descending)))[reached] for power in (1, 2)]
    mean = np.exp(log_t) * sums[0] / len(log_e)
    spread = np.maximum(np.exp(2.0 * log_t) * sums[1] / len(log_e) - mean**2, 0.0)
    best = int(np.argmax(mean))
    return {
        "largest": round(float(mean[best]), 5),
        "largest_error": round(float(np.sqrt(spread[best] / len(log_e))), 5),
        "largest_at": round(float(log_t[best]), 2),
    }


def table_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the largest C over all classes and lengths, with two standard errors and a margin."""
    return {
        "about": "the largest t P(E >= t) over all classes of `patternmark bench block-null`",
        "block": DEFAULT_BLOCK,
        "mixture": MIXTURE.digest,
        "lengths": [min(row["length"] for row in rows)],
        "c": [round(min(MARGIN * max(raised_c(row) for row in rows), 1.0), 4)],
    }


def raised_c(row: dict[str, Any]) -> float:
    """Return the largest C of a class and length plus two standard errors."""
    return float(row["largest"] + _STANDARD_ERRORS * row["largest_error"])
