"""`patternmark bench speed`: the time of the default detector per sequence, and its growth.

The compiled loops and numpy alone are timed in turn, in one run. Times are of one thread of the
machine named in the result. The best of several rounds counts, because other work on the machine
can only make times longer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark.detector import Detector
from patternmark.fast import compiled
from patternmark_lab.bench.detector_designs import SCHEMES
from patternmark_lab.bench.protein import numbered_keys
from patternmark_lab.bench.report import environment

LENGTHS = (250, 500, 1000, 2000, 4000)
GOAL_LENGTH, GOAL_MS = 500, 1.0
_BATCH, _ROUNDS = 128, 5
_NUMPY_BATCH, _NUMPY_ROUNDS = 2, 1  # without the compiled loops
_NUMPY_MAX_LENGTH = 1000  # residues; longer sequences are not timed without the compiled loops


def run_speed_benchmark(step: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Time `auto` on random sequences; `step` is called for every scheme and length."""
    background = np.array(PROTEIN_BACKGROUND, dtype=float)
    rng = np.random.default_rng(1)
    rows = []
    for scheme, profile in SCHEMES.items():
        detector = Detector(numbered_keys("bench speed", profile, 1)[0])
        for length in LENGTHS:
            law = background / background.sum()
            sequences = list(rng.choice(PROTEIN.size, size=(_BATCH, length), p=law))
            row: dict[str, Any] = {"scheme": scheme, "length": length}
            with compiled.force_loops(True) as are_there:
                if are_there:
                    row["ms"] = _best_ms(detector, sequences, _ROUNDS)
            if length <= _NUMPY_MAX_LENGTH or "ms" not in row:
                with compiled.force_loops(False):
                    row["ms_numpy"] = _best_ms(detector, sequences[:_NUMPY_BATCH], _NUMPY_ROUNDS)
            rows.append(row)
            step(f"{scheme}, {length} residues")
    result: dict[str, Any] = {"benchmark": "speed", **environment()}
    return result | {"batch": _BATCH, "numba": _numba_version(), "rows": rows}


def _best_ms(detector: Detector, sequences: list[Any], rounds: int) -> float:
    detector.detect_many(sequences)  # warm-up: compiles, and fills caches
    times = []
    for _ in range(rounds):
        began = perf_counter()
        detector.detect_many(sequences)
        times.append(perf_counter() - began)
    return 1e3 * min(times) / len(sequences)


def _numba_version() -> str | None:
    return getattr(sys.modules.get("numba"), "__version__", None)


def growth(result: dict[str, Any], scheme: str) -> float:
    """Return the power of the length by which time grows, from the goal's length to the longest."""
    times = {r["length"]: r["ms"] for r in result["rows"] if r["scheme"] == scheme and "ms" in r}
    if not times:
        times = {r["length"]: r["ms_numpy"] for r in result["rows"] if r["scheme"] == scheme}
    ratio = times[LENGTHS[-1]] / times[GOAL_LENGTH]
    return float(np.log(ratio) / np.log(LENGTHS[-1] / GOAL_LENGTH))


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    lines = [
        "# The default detector: time per sequence",
        "",
        f"Made by `patternmark bench speed -o docs/results` with patternmark {result['version']}, "
        f"Python {result['python']}, numpy {result['numpy']}, numba {result['numba'] or 'absent'}, "
        f"on {result['machine']}: one thread, batches of {result['batch']} after warm-up, the best "
        f"of {_ROUNDS} rounds, including reading and masking of repeats. The goal is "
        f"{GOAL_MS:g} ms at {GOAL_LENGTH} residues.",
        "",
        "| scheme | residues | ms | numpy alone: ms | times faster |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        fast, plain = row.get("ms"), row.get("ms_numpy")
        times = " | ".join("" if value is None else f"{value:.2f}" for value in (fast, plain)) + (
            f" | {plain / fast:.1f}" if fast and plain else " | "
        )
        lines.append(f"| {row['scheme']} | {row['length']:,} | {times} |")
    lines += ["", "| scheme | time grows as |", "|---|---|"]
    schemes = dict.fromkeys(row["scheme"] for row in result["rows"])
    lines += [f"| {scheme} | length^{growth(result, scheme):.2f} |" for scheme in schemes]
    return "\n".join(lines) + "\n"
