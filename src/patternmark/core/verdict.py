"""A verdict on one sequence: numbers first, and the signature of all that shaped them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import isfinite, log
from typing import Any

LN10 = log(10.0)
CALL_BY_P = "call:p"  # in a signature: the p-value decides
CALL_BY_P_ANY = "call:p_any"  # or the one that holds for any sequence


class Status(StrEnum):
    """What can be said of a sequence. The values stand in JSON and do not change."""

    MARKED = "marked"
    NO_MARK = "no_mark"
    TOO_SHORT = "too_short"  # no sequence of its length could reach the false positive rate
    NOTHING_TO_SCORE = "nothing_to_score"  # none could reach any rate: p is 1 whatever it is


@dataclass(frozen=True)
class Verdict:
    """What the detector found. Field names follow the habit of the field.

    `statistic` is the detector's own (the pattern count), `expected_statistic` its mean without a
    mark. `p_value` is never rounded below the truth: where a float cannot hold it, it is the
    smallest positive float, and `log10_p` still tells the size. Only a count that is impossible
    under the null (one with forbidden steps) has p = 0, and null for `log10_p` in JSON. `p_any`
    holds for any sequence, whoever wrote it; None where the detector has no such p-value.
    `segment` is where a mark lies (positions from 0, half-open), for detectors that look for a
    stretch; `payload` the nonce a marked sequence carries, and `payload_error` how likely it is
    another; `p_keys` the key's rank among fresh keys, where it was asked for; `p_exact` the
    p-value of this very sequence, with its relative standard error `p_exact_error`, where that was
    asked for. `prediction` is true where `status` is MARKED. `note` is for people.
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
    status: Status
    note: str = ""
    p_any: float | None = None
    log10_p_any: float | None = None
    segment: tuple[int, int] | None = None
    payload: int | None = None
    payload_error: float | None = None
    p_keys: float | None = None
    p_exact: float | None = None
    log10_p_exact: float | None = None
    p_exact_error: float | None = None

    def to_json(self, **more: Any) -> str:
        """Return the verdict, with `more` fields, as one line of JSON."""
        table = asdict(self)
        for name in ("log10_p", "log10_p_any", "log10_p_exact"):
            table[name] = finite_or_none(table[name])
        return json.dumps(table | more, ensure_ascii=False, allow_nan=False)


def finite_or_none(log_p: float | None) -> float | None:
    """Return a logarithm for JSON, which has no infinity."""
    return log_p if log_p is not None and isfinite(log_p) else None
