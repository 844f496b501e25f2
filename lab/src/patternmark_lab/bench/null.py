"""`patternmark bench null`: speed, growth and accuracy of the null, as ratios within one run."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import expm1, log, log2
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from patternmark.core.chain import KeyChain
from patternmark.null import PatternNull
from patternmark.null.automaton import CountingChain
from patternmark.null.direct import distributions
from patternmark.null.tilted import TiltedCount
from patternmark.statistics.patterns import Patterns
from patternmark_lab.bench.literal import algorithm_3
from patternmark_lab.bench.report import environment

PATTERN_LENGTH = 5
TABLE_LENGTH = 500
LENGTHS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
DIRECT_LENGTHS = (500, 1_000, 2_000, 4_000)
_REPEATS = 7


def run_null_benchmark(step: Callable[[str], None]) -> dict[str, Any]:
    """Measure everything; `step` is called with the name of each part."""
    chain = PatternNull(_alternating(PATTERN_LENGTH)).chain
    result: dict[str, Any] = {"benchmark": "null", **environment(), "m": PATTERN_LENGTH}
    step("the paper's Algorithm 3, line by line")
    result["table"] = _table_against_literal(chain)
    step("growth of one tail")
    result["growth"] = list(_growth(chain))
    result["growth_exponent"] = _exponent([(g["n"], g["time_ratio"]) for g in result["growth"]])
    step("growth of the dynamic programme")
    direct = [(n, _time(lambda n=n: distributions(chain, n))) for n in DIRECT_LENGTHS]  # type: ignore[misc]
    result["direct_growth_exponent"] = _exponent(direct)
    step("accuracy against exact arithmetic")
    result["accuracy"] = list(_accuracy())
    step("import")
    result["import_seconds"] = min(_import_seconds("patternmark") for _ in range(_REPEATS))
    result["import_numpy_share"] = (
        min(_import_seconds("numpy") for _ in range(_REPEATS)) / result["import_seconds"]
    )
    return result


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    table, last = result["table"], result["growth"][-1]
    lines = [
        "# Speed and growth of the exact null",
        "",
        f"Made by `patternmark bench null -o docs/results` with patternmark {result['version']}, "
        f"Python {result['python']}, numpy {result['numpy']}, {result['machine']}. "
        "All speeds are ratios within one run; the numbers on this page come from `null.json`.",
        "",
        f"**Table of P(T, n) for all n up to {table['n']}, m = {result['m']}**: "
        f"{table['speedup']:,.0f} times faster than Algorithm 3 of the paper transcribed line by "
        f"line (one run of which also gives all n), with {table['states']} states instead of "
        f"{table['literal_states']}. The largest relative difference over {table['entries']:,} "
        f"probabilities is {table['max_difference']:.1g}.",
        "",
        f"**One tail** (the p-value of one count), with times relative to n = {LENGTHS[0]:,}:",
        "",
        "| n | time | n log n | n^2 | peak memory (KiB) | log10 p |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["growth"]:
        ratio = row["n"] / LENGTHS[0]
        lines.append(
            f"| {row['n']:,} | {row['time_ratio']:.1f} "
            f"| {ratio * log2(row['n']) / log2(LENGTHS[0]):,.0f} | {ratio**2:,.0f} "
            f"| {row['peak_kib']:,.0f} | {row['log10_p']:,.1f} |"
        )
    lines += [
        "",
        f"The fitted growth is n^{result['growth_exponent']:.2f} from {LENGTHS[0]:,} to "
        f"{last['n']:,}. The dynamic programme for all n grows as "
        f"n^{result['direct_growth_exponent']:.2f} from {DIRECT_LENGTHS[0]:,} to "
        f"{DIRECT_LENGTHS[-1]:,}.",
        "",
        "**Accuracy** compared with whole-number arithmetic (m = 2, where the count is binomial):",
        "",
        "| n | count | log10 p | relative error |",
        "|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {a['n']:,} | {a['count']:,} | {a['log10_p']:,.1f} | {a['relative_error']:.1g} |"
        for a in result["accuracy"]
    ]
    lines += [
        "",
        f"**Import** of `patternmark`: {result['import_seconds']:.2f} s, of which numpy "
        f"{result['import_numpy_share']:.0%} (best of {_REPEATS}).",
    ]
    return "\n".join(lines) + "\n"


def _alternating(length: int) -> Patterns:
    return Patterns.favoured(KeyChain.alternating(), length)


def _table_against_literal(chain: CountingChain) -> dict[str, Any]:
    targets = set(_alternating(PATTERN_LENGTH).patterns)
    started = perf_counter()
    literal = algorithm_3(TABLE_LENGTH, PATTERN_LENGTH, targets, 2)
    literal_time = perf_counter() - started
    ours_time = _time(lambda: distributions(chain, TABLE_LENGTH))
    ours = distributions(chain, TABLE_LENGTH)
    differences = [
        float(np.max(np.abs(ours[n, : len(row)] / np.array(row) - 1.0)))
        for n, row in enumerate(literal, start=PATTERN_LENGTH - 1)
    ]
    return {
        "n": TABLE_LENGTH,
        "speedup": literal_time / ours_time,
        "states": chain.num_states,
        "literal_states": 2 ** (PATTERN_LENGTH - 1),
        "entries": sum(map(len, literal)),
        "max_difference": max(differences),
    }


def _growth(chain: CountingChain) -> Iterator[dict[str, float]]:
    """Time one tail well above the mean at each length, relative to the first length."""
    times = {n: _time(lambda n=n: _one_tail(chain, n)) for n in LENGTHS}  # type: ignore[misc]
    for n in LENGTHS:
        tracemalloc.start()
        log_p = _one_tail(chain, n)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield {
            "n": n,
            "time_ratio": times[n] / times[LENGTHS[0]],
            "peak_kib": peak / 1024,
            "log10_p": log_p / log(10.0),
        }


def _one_tail(chain: CountingChain, n: int) -> float:
    return TiltedCount(chain, [n]).log_tail(n // 5)  # chance gives n / 16


def _accuracy() -> Iterator[dict[str, float]]:
    """Compare with exact tails for m = 2, where the count is Binomial(n - 1, 1/2)."""
    chain = PatternNull(_alternating(2)).chain
    for n in (1_000, 10_000, 100_000):
        for share in (0.51, 0.6, 0.9, 1.0):
            count = int((n - 1) * share)
            log_p = TiltedCount(chain, [n]).log_tail(count)
            yield {
                "n": n,
                "count": count,
                "log10_p": log_p / log(10.0),
                "relative_error": abs(expm1(log_p - _log_binomial_tail(n - 1, count))),
            }


def _log_binomial_tail(trials: int, count: int) -> float:
    """Return ln P(Bin(trials, 1/2) >= count), summed in whole numbers."""
    term, total = 1, 0  # from the far end: C(trials, trials), C(trials, trials - 1), ...
    for k in range(trials, count - 1, -1):
        total += term
        term = term * k // (trials - k + 1)
    shift = total.bit_length() - 64  # the leading 64 bits carry the logarithm
    leading = Fraction(total, 1 << shift) if shift > 0 else Fraction(total)
    return log(leading) + (max(shift, 0) - trials) * log(2.0)


def _time(work: Callable[[], Any]) -> float:
    work()  # warm up
    times = []
    for _ in range(_REPEATS):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return median(times)


def _exponent(points: list[tuple[int, float]]) -> float:
    """Fit time = constant * n^exponent."""
    n, time = np.array(points).T
    return float(np.polyfit(np.log(n), np.log(time), 1)[0])


def _import_seconds(module: str) -> float:
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout)
