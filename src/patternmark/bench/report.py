"""What every benchmark result says about where it was measured, and how it is kept."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from math import lgamma, log, log1p, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark._version import __version__
from patternmark.errors import InputError


def environment() -> dict[str, str]:
    """Return the versions and the kind of machine behind a measurement."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def keep(result: dict[str, Any], page: str, folder: Path) -> None:
    """Write a result as JSON and as the page made from it."""
    name = result["benchmark"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        (folder / f"{name}.md").write_text(page)
    except OSError as error:
        raise InputError(f"{folder}: the results cannot be written: {error.strerror}") from None


def mean_interval(values: NDArray[np.float64]) -> dict[str, float]:
    """Return the mean of independent values with its 95 % interval and their number."""
    half = 1.96 * float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else float("nan")
    mean = float(values.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half, "n": len(values)}


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a rate.

    >>> [round(x, 4) for x in clopper_pearson(0, 10)]
    [0.0, 0.3085]
    >>> [round(x, 4) for x in clopper_pearson(5, 10)]
    [0.1871, 0.8129]
    """
    alpha = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else _bisect(lambda p: _upper_tail(hits, trials, p), alpha)
    high = 1.0 if hits == trials else _bisect(lambda p: _upper_tail(hits + 1, trials, p), 1 - alpha)
    return low, high


def _upper_tail(hits: int, trials: int, p: float) -> float:
    """P(Bin(trials, p) >= hits), which grows with p."""
    if not 0.0 < p < 1.0:
        return float(p >= 1.0)
    k = np.arange(hits, trials + 1)
    log_choose = np.array([lgamma(trials + 1) - lgamma(i + 1) - lgamma(trials - i + 1) for i in k])
    return float(np.exp(log_choose + k * log(p) + (trials - k) * log1p(-p)).sum())


def _bisect(rising: Callable[[float], float], target: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2.0
