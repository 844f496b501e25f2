"""Rates of `patternmark bench secrecy`, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patternmark.intervals import mean_interval, rate_interval


def rate(by_key: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return a rate with its number, its exact 95 % interval, and how far keys make it vary."""
    hits, n = (sum(count[i] for count in by_key) for i in (0, 1))
    low, high = rate_interval(hits, n)
    shares = [count[0] / count[1] for count in by_key]
    half = mean_interval(shares)["half"] if len(shares) > 1 else 0.0
    result = {"rate": hits / n, "hits": hits, "n": n, "low": low, "high": high}
    return result | {"half_width_over_keys": half}
