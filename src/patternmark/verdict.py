"""A verdict on one sequence: numbers first, and the signature of all that shaped them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import exp, isfinite, log

LN10 = log(10.0)
SMALLEST_POSITIVE = 5e-324


@dataclass(frozen=True)
class Verdict:
    """What the detector found. Field names follow the habit of the field.

    `statistic` is the detector's own (the pattern count), `expected_statistic` its mean without a
    mark. `p_value` is never rounded below the truth: where a float cannot hold it, it is the
    smallest positive float, and `log10_p` still tells the size. Only a count that is impossible
    under the null (one with forbidden steps) has p = 0, and null for `log10_p` in JSON. `segment`
    is where a mark lies (positions from 0, half-open), for detectors that look for a stretch;
    `payload` the nonce a marked sequence carries, and `payload_error` how likely it is another;
    `p_keys` the key's rank among fresh keys, where it was asked for.
    """

    id: str
    length: int
    num_tokens_scored: int
    detector: str
    statistic: float
    expected_statistic: float | None
    p_value: float
    log10_p: float
    prediction: bool
    fpr: float
    key_id: str
    signature: str
    note: str = ""
    segment: tuple[int, int] | None = None
    payload: int | None = None
    payload_error: float | None = None
    p_keys: float | None = None

    def to_json(self, **more: str) -> str:
        """Return the verdict, with `more` fields, as one line of JSON."""
        fields = asdict(self) | {"log10_p": self.log10_p if isfinite(self.log10_p) else None}
        return json.dumps(fields | more, ensure_ascii=False, allow_nan=False)


def p_value_of(log_p: float) -> float:
    """Return exp(log_p), rounded up to a positive float where it would underflow.

    >>> p_value_of(-3465.0)
    5e-324
    """
    return max(exp(log_p), SMALLEST_POSITIVE) if isfinite(log_p) else 0.0


def format_p(log10_p: float) -> str:
    """Write a p-value of any size for people.

    >>> format_p(-2.5), format_p(-1504.85)
    ('0.0032', '10^-1504.8')
    """
    if not isfinite(log10_p):
        return "0"
    if log10_p < -300:
        return f"10^{log10_p:.1f}"
    return f"{10.0**log10_p:.2g}"
