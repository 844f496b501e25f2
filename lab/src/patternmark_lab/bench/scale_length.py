"""How long a marked design must be to reach a p-value, given how often its residues agree.

The p-value is that of the first stage of a scan and of the detector `phase`: the tail of a count of
fair coins, times the number of ways in which a key can agree. Marked residues agree at a rate. With
a `spread`, each design has its own rate, drawn from the beta distribution with that mean and
standard deviation. The count is then beta-binomial, with heavier tails than a binomial count.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.null.binomial import binomial_log_tail, least_count
from patternmark.plan.simulate import natural_frequencies, rates_at
from patternmark.scanning.block_stage import PHASES
from patternmark.scanning.keyset import LONGEST, KeySet
from patternmark.statistics.rates import DELTAS
from patternmark_lab.bench.protein import numbered_keys
from patternmark_lab.bench.scale_setting import Setting
from patternmark_lab.bench.scan_input import BLOCK_SCHEMES, SCHEMES

LENGTHS = np.arange(1, LONGEST + 1)  # of a segment, in residues
HALF, NEARLY_ALL = 0.5, 0.95  # shares of designs
FEWER_SCHEME, FEWER_DELTAS = "blocks", (1.0, 1.5)  # shown in the table of fewer tests


def num_ways(scheme: str) -> int:
    """Return the number of ways in which a sequence may agree with a key: phases and nonces."""
    return SCHEMES[scheme].scheme.nonces * (PHASES if scheme in BLOCK_SCHEMES else 2)


def screen_of(scheme: str, keys: int) -> KeySet:
    """Return a screen for a number of keys; only the number matters here, not which keys."""
    return KeySet(numbered_keys("bench scale", SCHEMES[scheme], 1) * keys)


def shares_found(log10_p: float, ways: int, rate: float, spread: float = 0.0) -> NDArray[Any]:
    """Return the share of designs of every length that reach a p-value: [LONGEST]."""
    least = least_count(LENGTHS, log10_p * log(10.0), ways)
    if spread == 0.0:
        return np.exp(binomial_log_tail(least, LENGTHS, rate))
    return _beta_binomial_tail(least, rate, spread)


def _beta_binomial_tail(
    least: NDArray[np.int64], rate: float, spread: float
) -> NDArray[np.float64]:
    """Return P(A >= least) for every length; the rate of A is drawn for each design."""
    size = rate * (1.0 - rate) / spread**2 - 1.0
    a, b = rate * size, (1.0 - rate) * size
    factorial, of_a, of_b, of_both = (_log_rising(x) for x in (1.0, a, b, a + b))
    tails = np.zeros(len(least))
    for row, (n, first) in enumerate(zip(LENGTHS.tolist(), least.tolist(), strict=True)):
        k = np.arange(first, n + 1)
        choose = factorial[n] - factorial[k] - factorial[n - k]
        tails[row] = np.exp(choose + of_a[k] + of_b[n - k] - of_both[n]).sum()
    return np.minimum(tails, 1.0)


def _log_rising(x: float) -> NDArray[np.float64]:
    """Return ln x (x + 1) ... (x + j - 1) for j = 0, ..., LONGEST."""
    return np.append(0.0, np.cumsum(np.log(x + np.arange(LONGEST))))


def least_length(shares: NDArray[np.float64], wanted: float) -> int | None:
    """Return the length from which on all shares are at least `wanted`, or None if none is.

    Shares go slightly up and down from one length to the next, because counts are whole numbers.
    """
    short = np.flatnonzero(shares < wanted)
    length = int(LENGTHS[short[-1]]) + 1 if len(short) else 1
    return length if length <= LONGEST else None


def lengths(log10_p: float, ways: int, rate: float, spread: float = 0.0) -> dict[str, int | None]:
    """Return the lengths from which on half and nearly all designs reach a p-value."""
    shares = shares_found(log10_p, ways, rate, spread)
    return {"half": least_length(shares, HALF), "most": least_length(shares, NEARLY_ALL)}


def length_rows(
    setting: Setting, log10_p: float, designs: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the length that half and nearly all designs need, by scheme and delta.

    They are computed twice: with the rates that ship with the package, which `patternmark power`
    uses, and with those of the designs that were made for this benchmark.
    """
    measured = {(row["scheme"], row["delta"]): row for row in designs["rows"]} if designs else {}
    deltas = sorted({*DELTAS, *(delta for _, delta in measured)})
    rows = []
    for scheme in SCHEMES:
        screen, ways = screen_of(scheme, setting.keys), num_ways(scheme)
        for delta in deltas:
            row: dict[str, Any] = {"scheme": scheme, "delta": delta, "ways": ways}
            if delta in DELTAS:
                rate = shipped_rate(scheme, delta)
                row["shipped"] = _lengths(screen, log10_p, ways, rate, 0.0)
            if (own := measured.get((scheme, delta))) is not None:
                row["measured"] = _lengths(screen, log10_p, ways, own["rate"], own["spread"])
                row["measured"]["error"] = (own["designs"]["high"] - own["designs"]["low"]) / 2
                row["alike"] = _lengths(screen, log10_p, ways, own["rate"], 0.0)
            rows.append(row)
    return rows


def shipped_rate(scheme: str, delta: float) -> float:
    """Return how often residues agree, averaged over letters with natural frequencies."""
    rates = rates_at(delta, PROTEIN, SCHEMES[scheme].scheme.name)
    return float(rates @ natural_frequencies(PROTEIN))


def _lengths(
    screen: KeySet, log10_p: float, ways: int, rate: float, spread: float
) -> dict[str, Any]:
    """Return the lengths, and the share that the first stage loses where half are found."""
    found = lengths(log10_p, ways, rate, spread)
    half = found["half"]
    lost = screen.lost(rate, half) if half is not None else None
    return {"rate": rate, "spread": spread, **found, "lost": lost}


def fewer_tests(
    setting: Setting, corrections: Sequence[dict[str, Any]], designs: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the lengths for fewer tests or another correction."""
    p, k = setting.proteins, setting.keys
    asked = [(p, k), (p, 100), (p, 1), (1_000_000, k), (1, k), (1, 1)]
    cases: list[dict[str, Any]] = [
        {"proteins": a, "keys": b, "hits": None, "log10_p": log10(setting.fpr) - log10(a * b)}
        for a, b in asked
    ]
    cases += [
        {"proteins": p, "keys": k, "hits": row["hits"], "log10_p": row["log10_p"]}
        for row in corrections
        if row["hits"] is not None and row["hits"] > 1
    ]
    laws = {delta: _law(delta, designs) for delta in FEWER_DELTAS}
    ways = num_ways(FEWER_SCHEME)
    for case in cases:
        case["lengths"] = {
            f"{delta:g}": lengths(case["log10_p"], ways, *laws[delta]) for delta in FEWER_DELTAS
        }
    return cases


def _law(delta: float, designs: dict[str, Any] | None) -> tuple[float, float]:
    """Return the measured rate and spread, or else the shipped rate without a spread."""
    for row in designs["rows"] if designs else ():
        if (row["scheme"], row["delta"]) == (FEWER_SCHEME, delta):
            return row["rate"], row["spread"]
    return shipped_rate(FEWER_SCHEME, delta), 0.0
