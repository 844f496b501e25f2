"""Sequences written on purpose, judged by `patternmark bench validity`.

Single chains are judged by drawing likely keys (see `block_null`), with another seed than the table
of C. A few hundred keys give rates of 1e-4 to a few percent. Records of many short chains, and
repeats under keys of the paper's scheme, are counted directly under fresh keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.core.schemes import DEFAULT_BLOCK
from patternmark.detector import Detector
from patternmark.intervals import rate_interval
from patternmark.null.block_bound import log_c
from patternmark.statistics.block_ratio import MIXTURE
from patternmark_lab.bench.block_null import jobs_of, measure_jobs, num_classes
from patternmark_lab.bench.detector_designs import SCHEMES
from patternmark_lab.bench.hard_sequences import CLASSES, natural_letters
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.protein import numbered_keys

LENGTHS = (60, 100, 400)
LEVELS = (1e-2, 1e-3, 1e-4)
COUNTED = ("paper", "blocks")  # schemes under which records are counted
_SEED_OFFSET = 7919  # added to the seed, because the table of C was made with small seeds
_JOB_KEYS = 4  # keys of a job

Symbols = NDArray[np.int64]
Maker = Callable[[np.random.Generator], Symbols]


def num_steps(record_keys: int) -> int:
    """Return the total number of calls of `step`."""
    return num_classes() * len(LENGTHS) + len(COUNTED) * -(-record_keys // _JOB_KEYS)


def judge_written(
    natural: Sequence[Symbols],
    *,
    draws: int,
    seed: int,
    workers: int,
    step: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Return the measured over the nominal rates of every class and length, with their errors."""
    log_c_of = {n: log_c.at(DEFAULT_BLOCK, MIXTURE.digest, n) for n in LENGTHS}

    def log_t(n: int) -> NDArray[np.float64]:
        wanted = -np.log(LEVELS)
        return np.concatenate([wanted + log_c_of[n], wanted])

    jobs = jobs_of(natural, LENGTHS, draws, seed + _SEED_OFFSET, log_t)
    rows = []
    for row in measure_jobs(jobs, workers, step):
        c, error = np.array(row["c"]), np.array(row["error"])
        table, count = exp(log_c_of[row["length"]]), len(LEVELS)
        rows.append(
            {
                "class": row["class"],
                "length": row["length"],
                "draws": row["draws"],
                "table": table,
                "ratio": (c[:count] / table).tolist(),
                "error": (error[:count] / table).tolist(),
                "any": c[count:].tolist(),
                "any_error": error[count:].tolist(),
            }
        )
    return rows


def _join(chains: Sequence[Symbols]) -> Symbols:
    parts = [part for chain in chains for part in (chain, np.array([SEPARATOR]))]
    return np.concatenate(parts[:-1])


def _change(ids: Symbols, share: float, rng: np.random.Generator) -> Symbols:
    return np.where(rng.random(len(ids)) < share, natural_letters(len(ids), rng), ids)


def _peptides(rng: np.random.Generator) -> Symbols:
    anchors = dict(zip((1, 8), PROTEIN.encode("LV").tolist(), strict=True))
    chains = [natural_letters(9, rng) for _ in range(100)]
    for chain in chains:
        chain[list(anchors)] = list(anchors.values())
    return _join(chains)


def _with_prefix(length: int) -> Maker:
    def make(rng: np.random.Generator) -> Symbols:
        prefix = natural_letters(4, rng)
        rest = [natural_letters(length - 4, rng) for _ in range(100)]
        return _join([np.concatenate([prefix, own]) for own in rest])

    return make


def _mutated_copies(count: int, length: int, share: float) -> Maker:
    def make(rng: np.random.Generator) -> Symbols:
        first = natural_letters(length, rng)
        return _join([first] + [_change(first, share, rng) for _ in range(count - 1)])

    return make


def _of_class(name: str, n: int) -> Maker:
    return lambda rng: CLASSES[name](n, rng)


RECORDS: dict[str, Maker] = {
    "100 peptides of 9 with anchors L2, V9": _peptides,
    "100 chains of 8 with a common 4-prefix": _with_prefix(8),
    "100 chains of 5 with a common 4-prefix": _with_prefix(5),
    "30 copies of 12, half of the letters changed": _mutated_copies(30, 12, 0.5),
    "4 copies of 60, 40 % of the letters changed": _mutated_copies(4, 60, 0.4),
    "A and X in turn, 100 A": _of_class("A and X in turn", 100),
    "hydrophobic and polar letters in turn, 200": _of_class(
        "strands: hydrophobic and polar in turn", 200
    ),
    "tandem repeats of 2, 30 % changed, 200": _of_class("tandem repeats of 2, 30% changed", 200),
}


class _Keys(NamedTuple):
    """Some fresh keys of a scheme, each of which judges one record of every kind."""

    scheme: str
    first: int
    seed: int
    records: tuple[str, ...]


def count_records(
    num_keys: dict[str, int], *, seed: int, workers: int, step: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Count the records called marked at each level; return a row for every scheme and kind."""
    jobs = [
        _Keys(scheme, first, seed, tuple(RECORDS))
        for scheme in COUNTED
        for first in range(0, num_keys[scheme], _JOB_KEYS)
    ]
    logs: dict[tuple[str, str], list[list[float | None]]] = {}
    for job, found in run_all(_judge_records, jobs, workers):
        step(f"records of many chains: {job.scheme}")
        for name, pairs in found.items():
            logs.setdefault((job.scheme, name), []).extend(pairs)
    return [_count(scheme, name, pairs) for (scheme, name), pairs in sorted(logs.items())]


def _judge_records(job: _Keys) -> tuple[_Keys, dict[str, list[list[float | None]]]]:
    """Return log10 of p_value and of p_any of every record under its key."""
    found: dict[str, list[list[float | None]]] = {name: [] for name in job.records}
    for number in range(job.first, job.first + _JOB_KEYS):
        rngs = [np.random.default_rng([job.seed, number, *n.encode()]) for n in job.records]
        label = f"bench validity records {job.seed} {job.scheme} {number}"
        detector = Detector(numbered_keys(label, SCHEMES[job.scheme], 1)[0])
        made = [RECORDS[name](rng) for name, rng in zip(job.records, rngs, strict=True)]
        for name, verdict in zip(job.records, detector.detect_many(made), strict=True):
            found[name].append([verdict.log10_p, verdict.log10_p_any])
    return job, found


def _count(scheme: str, name: str, pairs: list[list[float | None]]) -> dict[str, Any]:
    row: dict[str, Any] = {"scheme": scheme, "record": name, "pairs": len(pairs)}
    for column, label in enumerate(("p_value", "p_any")):
        values = [pair[column] for pair in pairs]
        if any(value is None for value in values):
            row[label] = None
            continue
        row[label] = []
        for level in LEVELS:
            hits = sum(value <= log(level) / log(10.0) for value in values if value is not None)
            low, high = rate_interval(hits, len(pairs))
            ends = {"low": low / level, "high": high / level}
            row[label].append({"hits": hits, "ratio": hits / len(pairs) / level, **ends})
    return row
