"""The rules that turn evidence into one p-value. Each rule stands here and nowhere else.

- **Bonferroni**: the best of k tests, however they depend on each other: p times k.
- **Fisher**: the product of independent p-values.
- **Markov**: an e-value E has mean 1 or less without a mark, so that P(E >= 1/p) <= p.
- **rank**: the place of a key among fresh keys that had no part in a sequence.
- **Benjamini and Hochberg**: a bound on the expected share of false hits.

All take and give natural logarithms, because p-values of long sequences are smaller than any float.
Which rule holds for several records of one key is decided by `combine.combine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.results import CALL_BY_P, LN10, Status, Verdict, p_value_of

DEFAULT_FPR = 1e-3  # the false positive rate wherever none is given


def checked_fpr(fpr: float) -> float:
    """Return a false positive rate, or refuse it."""
    if not 0.0 < fpr < 1.0:
        raise ParameterError(f"a false positive rate lies between 0 and 1, not {fpr}")
    return float(fpr)


def is_below(log_p: float, fpr: float) -> bool:
    """Whether a p-value is small enough to call a sequence marked: p <= FPR."""
    return log_p <= log(fpr)


def bonferroni(log_p: ArrayLike, chances: ArrayLike) -> NDArray[np.float64]:
    """Return ln p of the best of several tests, given ln p of that one: at most 0.

    >>> round(float(bonferroni(log(0.01), 5)), 6) == round(log(0.05), 6)
    True
    >>> float(bonferroni(-1.0, 100))
    0.0
    """
    with_chances = np.asarray(log_p, dtype=np.float64) + np.log(np.maximum(chances, 1))
    return np.asarray(np.minimum(with_chances, 0.0))


def fisher(log_ps: Sequence[float]) -> float:
    """Return ln p of independent p-values together, given ln p of each.

    -2 ln of their product is at most chi-squared with two degrees of freedom for each.

    >>> fisher([-3.0])
    -3.0
    >>> round(fisher([-3.0, -3.0]), 3)  # -6 + ln(1 + 6)
    -4.054
    """
    if len(log_ps) == 0:
        return 0.0
    total = -float(np.sum(log_ps))
    if total == 0.0 or not np.isfinite(total):
        return 0.0 - total
    term, terms = 0.0, [0.0]
    for number in range(1, len(log_ps)):
        term += log(total) - log(number)
        terms.append(term)
    highest = max(terms)
    return min(0.0, -total + highest + log(sum(np.exp(np.array(terms) - highest))))


def markov(log_e: ArrayLike) -> NDArray[np.float64]:
    """Return ln p of an e-value, given ln E: p = 1 / E, at most 1."""
    return np.asarray(np.minimum(-np.asarray(log_e, dtype=np.float64), 0.0))


def rank_p_value(as_good: ArrayLike, num_keys: int) -> NDArray[np.float64]:
    """Return the p-value of a key that so many of the fresh keys equal or exceed.

    If the key had no part in a sequence, it is one of 1 + K keys drawn alike, and its rank among
    them is uniform: this holds whatever the sequence is.

    >>> float(rank_p_value(0, 999))
    0.001
    """
    return np.asarray((1 + np.asarray(as_good)) / (1 + num_keys))


def benjamini_hochberg(log_ps: ArrayLike, tests: int) -> Callable[[float], float]:
    """Return what corrects one of these ln p for the number of all tests, by its rank.

    Tests that are not given count as p = 1. A smaller p-value never has a larger corrected one.

    >>> correct = benjamini_hochberg([log(0.001), log(0.004)], 10)
    >>> [round(float(np.exp(correct(log(p)))), 6) for p in (0.001, 0.004)]
    [0.01, 0.02]
    """
    ranked = np.sort(np.asarray(log_ps, dtype=np.float64))
    corrected = ranked + log(max(tests, 1)) - np.log(np.arange(1, len(ranked) + 1))
    smallest = np.minimum(np.minimum.accumulate(corrected[::-1])[::-1], 0.0)
    return lambda log_p: float(smallest[np.searchsorted(ranked, log_p)])


def called_by_rank(verdict: Verdict, p_keys: float, num_keys: int, *, decides: bool) -> Verdict:
    """Return a verdict with its rank among fresh keys; where the rank `decides`, call by it."""
    if not decides:
        signature = f"{verdict.signature}|null_keys:{num_keys}"
        return replace(verdict, p_keys=p_keys, signature=signature)
    called = _called(verdict, is_below(log(p_keys), verdict.fpr), f"call:rank{num_keys}")
    return replace(called, p_keys=p_keys)


def called_exactly(verdict: Verdict, log_p: float, error: float, draws: int, seed: int) -> Verdict:
    """Return a verdict called by the p-value of this very sequence, from drawn keys."""
    how = f"exact:{draws}|seed:{seed}|call:exact"
    return replace(
        _called(verdict, is_below(log_p, verdict.fpr), how),
        p_exact=p_value_of(log_p),
        log10_p_exact=log_p / LN10 + 0.0,  # never minus zero
        p_exact_error=error,
    )


def _called(verdict: Verdict, is_marked: bool, how: str) -> Verdict:
    """Return a verdict with a call decided by something else than its p-value."""
    status = verdict.status if verdict.status is not Status.MARKED else Status.NO_MARK
    return replace(
        verdict,
        prediction=is_marked,
        status=Status.MARKED if is_marked else status,
        payload=verdict.payload if is_marked else None,
        payload_error=verdict.payload_error if is_marked else None,
        signature=verdict.signature.replace(f"|{CALL_BY_P}", f"|{how}"),
    )
