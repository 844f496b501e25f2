"""Count how often residues of marked designs agree, and which designs `auto` finds at a p-value.

Every backbone gets its own keys. Agreement is counted in all residues, with the position keys that
marked them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.marker import Marker
from patternmark.designing.plan import plan_design
from patternmark.detector import Detector
from patternmark.intervals import mean_interval, rate_interval
from patternmark.io.structures import Backbone
from patternmark.null.binomial import binomial_log_tail
from patternmark_lab.bench.protein import TEMPERATURE, design_all, numbered_keys, visible
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.scale_length import num_ways, shares_found
from patternmark_lab.bench.scan_input import SCHEMES

DELTAS = (0.5, 0.75, 1.0, 1.5, 2.0)
SHORTEST, LONGEST = 80, 1000  # residues of a chain
EDGES = (80, 200, 300, 400, 500, 1000)  # of classes of length
KEYS = 2  # of each scheme, for each backbone

Design = tuple[str, float, int, int, float]  # scheme, delta, residues, agreements, log10 p of auto


def measure_designs(
    weights: Path,
    backbones: Sequence[Backbone],
    log10_p: float,
    passing: int,
    *,
    seed: int = 1,
    device: str = "cpu",
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return agreement rates, and the designs found at a p-value.

    The first stage of a scan passes p-values up to 10^-passing.
    """
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    model = ProteinMPNN.load(weights, device)
    made: list[Design] = []
    for backbone in backbones:
        made += _designs(model, backbone, seed)
        step(backbone.name)
    return {
        **environment(),
        "model": weights.stem,
        "temperature": TEMPERATURE,
        "seed": seed,
        "backbones": len(backbones),
        "keys": KEYS,
        "log10_p": log10_p,
        "rows": [
            _row(scheme, delta, made, log10_p, passing) for scheme in SCHEMES for delta in DELTAS
        ],
    }


def _designs(model: Any, backbone: Backbone, seed: int) -> Iterator[Design]:
    """Design with each scheme, key and delta; yield the counts of each design."""
    keys = [
        (scheme, key)
        for scheme, profile in SCHEMES.items()
        for key in numbered_keys(f"bench scale {seed} {scheme} {backbone.name}", profile, KEYS)
    ]
    conditions = [(scheme, key, delta) for scheme, key in keys for delta in DELTAS]
    plan = plan_design(backbone)
    sequences = design_all(model, backbone, [row[1:] for row in conditions], seed)["sequences"]
    for row, (scheme, key, delta) in enumerate(conditions):
        drawn = plan.keys(Marker(key), seed, [row])[0][plan.designed]
        letters = sequences[row][plan.designed]
        promoted = key.schedule.promoted_rows(drawn)
        agreements = promoted[np.arange(len(letters)), letters].sum()
        verdict = Detector(key).detect(visible(sequences[row], backbone))
        yield scheme, delta, len(letters), int(agreements), float(verdict.log10_p)


def _row(
    scheme: str, delta: float, made: Sequence[Design], log10_p: float, passing: int
) -> dict[str, Any]:
    """Return the rates of the designs with a scheme and delta, in all and by class of length."""
    own = [design[2:] for design in made if design[:2] == (scheme, delta)]
    residues, agreements, of_auto = (np.array(column) for column in zip(*own, strict=True))
    ways = num_ways(scheme)
    rate, spread = rate_and_spread(residues, agreements)
    of_count = (log(ways) + binomial_log_tail(agreements, residues, 0.5)) / log(10.0)
    found = of_auto <= log10_p
    return {
        "scheme": scheme,
        "delta": delta,
        "rate": rate,
        "spread": spread,
        "designs": mean_interval(agreements / residues),
        "found": int(found.sum()),
        "lost": int(np.sum(found & (of_count > -passing))),
        "classes": [
            _class(low, high, residues, found, of_count <= log10_p, (ways, rate, spread), log10_p)
            for low, high in pairwise(EDGES)
        ],
    }


def rate_and_spread(
    residues: NDArray[np.int64], agreements: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the rate of agreement, and the standard deviation of designs' rates beyond chance.

    If the rates of designs have mean q and standard deviation s, the count of a design with n
    residues has the variance n q (1 - q) + n (n - 1) s^2.
    """
    n = residues.astype(float)
    rate = float(agreements.sum() / n.sum())
    more = (agreements - n * rate) ** 2 - n * rate * (1.0 - rate)
    return rate, float(np.sqrt(max(0.0, more.sum() / (n * (n - 1.0)).sum())))


def _class(
    low: int,
    high: int,
    residues: NDArray[np.int64],
    by_auto: NDArray[np.bool_],
    by_count: NDArray[np.bool_],
    law: tuple[int, float, float],
    log10_p: float,
) -> dict[str, Any]:
    """Return the number of designs found in a class of lengths, and the expected share."""
    own = (residues >= low) & (residues < high)
    trials, hits = int(own.sum()), int(by_auto[own].sum())
    ways, rate, spread = law
    expected = {
        name: float(shares_found(log10_p, ways, rate, s)[residues[own] - 1].mean())
        for name, s in (("alike", 0.0), ("different", spread))
        if trials
    }
    interval = rate_interval(hits, trials) if trials else (0.0, 1.0)
    return {
        "from": low,
        "below": high,
        "designs": trials,
        "found": hits,
        "low": interval[0],
        "high": interval[1],
        "by_count": int(by_count[own].sum()),
        "expected": expected,
    }
