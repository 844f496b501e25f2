"""`patternmark bench detectors`: the weakest marks that each detector finds, intact and attacked.

Every backbone gets its own keys, and one design for each key, scheme and delta. Every third
backbone is left out, because agreement rates and mixture weights were chosen on it. Designs may be
made on one machine and judged on another: see `detector_designs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.edits import cut_window, insert_and_delete, splice, substitute
from patternmark.core.alphabet import PROTEIN
from patternmark.detector import Detector
from patternmark.intervals import mean_interval, rate_interval
from patternmark.io.structures import Backbone
from patternmark.statistics import DETECTORS as DETECTORS_OF
from patternmark_lab.bench.detector_designs import SCHEMES, UNMARKED, case_name, fresh_keys
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.report import environment

LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
REPORTED = 1e-3
DETECTORS = {name: DETECTORS_OF[profile.scheme.name] for name, profile in SCHEMES.items()}
LETTERS = PROTEIN.scored


@dataclass(frozen=True)
class Case:
    """An attack on designs of one delta, with the rates that `auto` should reach (percent)."""

    attack: str
    delta: float
    goals: dict[str, float]


def _case(attack: str, delta: float, paper: float | None, one: float, default: float) -> Case:
    goals = {"blocks R=1": one, "blocks": default}
    return Case(attack, delta, goals if paper is None else {"paper": paper, **goals})


CASES = (
    _case("none", 0.5, 68, 75, 48),
    _case("none", 0.75, 95, 99.5, 97),
    _case("none", 1.0, 99.5, 100, 99.5),
    _case("30 % substitutions", 1.0, 92, 95, 85),
    _case("1 % indels", 0.75, 78, 97, 90),
    _case("5 % indels", 1.0, 76, 97, 92),
    _case("10 % indels", 1.0, None, 95, 85),
    _case("20 % indels", 1.5, 68, 97, 93),
    _case("window of 100", 1.0, 68, 60, 30),
    _case("window of 50", 1.5, None, 40, 12),
    _case("150 inside 450", 1.0, 60, 50, 35),
)
DELTAS = sorted({case.delta for case in CASES})


def reported_backbones(backbones: Sequence[Backbone]) -> list[Backbone]:
    """Return the backbones on which no defaults were chosen."""
    return [backbone for number, backbone in enumerate(backbones) if number % 3]


def attack_design(
    attack: str, ids: NDArray[np.int64], host: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Apply an attack by its name."""
    if attack == "none":
        return ids
    if attack.startswith("window of"):
        return cut_window(ids, int(attack.rsplit(maxsplit=1)[-1]), rng)
    if attack == "150 inside 450":
        return splice(ids, 150, host, 450, rng)
    share = float(attack.split(maxsplit=1)[0]) / 100
    edit = insert_and_delete if attack.endswith("indels") else substitute
    return edit(ids, share, LETTERS, rng)


def run_detector_benchmark(
    made: dict[str, Any],
    *,
    workers: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Attack and judge the designs of `make_designs`; `step` is called for each finished job."""
    rows = made["backbones"]
    jobs = [
        # The host is of the next backbone: in a host of its own backbone, a stretch would look like
        # a repeat of its surroundings.
        Job(name, own, rows[(at + 1) % len(rows)]["designs"][UNMARKED][-1], made["seed"])
        for name in SCHEMES
        for at, own in enumerate(rows)
    ]
    found: dict[tuple[str, str, float, str], list[NDArray[np.float64]]] = {}
    for name, measured in run_all(_measure, jobs, workers):
        step(f"detecting: {name}")
        for (attack, delta, detector), log_p in measured.items():
            found.setdefault((name, attack, delta, detector), []).append(log_p)
    result: dict[str, Any] = {"benchmark": "detectors", **environment()}
    return result | {
        **{name: made[name] for name in ("model", "temperature", "seed", "num_keys")},
        "backbones": [row["name"] for row in rows],
        "rates": _rates(found),
        "quality": _quality([row["nll"] for row in rows]),
    }


@dataclass(frozen=True)
class Job:
    """The designs of one scheme on one backbone."""

    scheme: str
    made: dict[str, Any]  # of the backbone
    host: str  # the unmarked design that a marked stretch is inserted into
    seed: int


Measured = dict[tuple[str, float, str], NDArray[np.float64]]


def _measure(job: Job) -> tuple[str, Measured]:
    """Return log10 p of every attack, delta and detector, for the keys of one backbone."""
    found: dict[tuple[str, float, str], list[float]] = {}
    host, designs = PROTEIN.encode(job.host), job.made["designs"]
    keys = fresh_keys(job.made["name"], len(designs[UNMARKED]), job.seed)[job.scheme]
    for number, key in enumerate(keys):
        rng = np.random.default_rng([job.seed, int(key.key_id, 16) % 2**32])
        detectors = {detector: Detector(key, detector) for detector in DETECTORS[job.scheme]}
        for case in CASES:
            letters = designs[case_name(job.scheme, case.delta)][number]
            ids = attack_design(case.attack, PROTEIN.encode(letters), host, rng)
            for detector, judge in detectors.items():
                log_p = judge.detect(ids).log10_p
                found.setdefault((case.attack, case.delta, detector), []).append(log_p)
    return job.scheme, {case: np.array(log_ps) for case, log_ps in found.items()}


def _rates(
    found: dict[tuple[str, str, float, str], list[NDArray[np.float64]]],
) -> list[dict[str, Any]]:
    rows = []
    order = list(SCHEMES)  # processes finish in any order
    for (scheme, attack, delta, detector), by_backbone in sorted(
        found.items(), key=lambda item: order.index(item[0][0])
    ):
        log_p = np.array(by_backbone)  # [backbones, keys]
        for level in LEVELS:
            hits = log_p <= np.log10(level)
            low, high = rate_interval(int(hits.sum()), hits.size)
            rows.append(
                {
                    "scheme": scheme,
                    "attack": attack,
                    "delta": delta,
                    "detector": detector,
                    "fpr": level,
                    "trials": hits.size,
                    "hits": int(hits.sum()),
                    "tpr": float(hits.mean()),
                    "low": low,
                    "high": high,
                }
            )
    return rows


def _quality(by_backbone: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Return the model's negative log-likelihood of each scheme and delta."""
    cases = [(scheme, delta) for scheme in SCHEMES for delta in DELTAS]
    rows = []
    for scheme, delta in [*cases, (UNMARKED, 0.0)]:
        found = mean_interval(np.array([own[case_name(scheme, delta)] for own in by_backbone]))
        half = found["half"] if found["n"] > 1 else 0.0
        rows.append({"scheme": scheme, "delta": delta, "nll": found["mean"], "half": half})
    return rows
