"""The rules that turn evidence into one p-value. Each rule is written here and nowhere else.

- **Bonferroni**: the best of k tests, however they depend on each other: p times k.
- **Fisher**: the product of independent p-values.
- **Markov**: without a mark an e-value E has a mean of at most 1, so P(E >= 1/p) <= p.
- **rank**: the rank of a key among fresh keys that did not mark the sequence.
- **Benjamini and Hochberg**: a bound on the expected share of false hits.

All take and return natural logarithms: p-values of long sequences can be smaller than any float.
`combination.combine` decides which rule holds for several records of one key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.errors import ParameterError
from patternmark.results import CALL_BY_P, LN10, Status, Verdict, p_value_of

DEFAULT_FPR = 1e-3  # the false positive rate if none is given


def check_fpr(fpr: float) -> float:
    """Return the false positive rate as a float; raise ParameterError if it is out of range."""
    if not 0.0 < fpr < 1.0:
        raise ParameterError(f"a false positive rate must lie between 0 and 1, not be {fpr}")
    return float(fpr)


def is_below(log_p: float, fpr: float) -> bool:
    """Whether a p-value is small enough to call a sequence marked: p <= FPR."""
    return log_p <= log(fpr)


def bonferroni(log_p: ArrayLike, chances: ArrayLike) -> NDArray[np.float64]:
    """Return ln p for the best of `chances` tests, given ln p of that test: at most 0.

    >>> round(float(bonferroni(log(0.01), 5)), 6) == round(log(0.05), 6)
    True
    >>> float(bonferroni(-1.0, 100))
    0.0
    """
    with_chances = np.asarray(log_p, dtype=np.float64) + np.log(np.maximum(chances, 1))
    return np.asarray(np.minimum(with_chances, 0.0))


def fisher(log_ps: Sequence[float]) -> float:
    """Return ln p of several independent tests together, given ln p of each.

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
    """Return ln p for an e-value, given ln E: p = 1 / E, at most 1."""
    return np.asarray(np.minimum(-np.asarray(log_e, dtype=np.float64), 0.0))


def rank_p_value(as_good: ArrayLike, num_keys: int) -> NDArray[np.float64]:
    """Return the p-value of a key if `as_good` of `num_keys` fresh keys equal or exceed it.

    If the key did not mark the sequence, it is one of 1 + K keys that were drawn in the same way,
    and its rank among them is uniform: this holds for any sequence.

    >>> float(rank_p_value(0, 999))
    0.001
    """
    return np.asarray((1 + np.asarray(as_good)) / (1 + num_keys))


def benjamini_hochberg(log_ps: ArrayLike, tests: int) -> Callable[[float], float]:
    """Return a function that corrects one of these ln p for the number of tests, by its rank.

    Tests beyond `log_ps` count as p = 1. A smaller p-value never gets a larger corrected p-value.

    >>> correct = benjamini_hochberg([log(0.001), log(0.004)], 10)
    >>> [round(float(np.exp(correct(log(p)))), 6) for p in (0.001, 0.004)]
    [0.01, 0.02]
    """
    ranked = np.sort(np.asarray(log_ps, dtype=np.float64))
    corrected = ranked + log(max(tests, 1)) - np.log(np.arange(1, len(ranked) + 1))
    smallest = np.minimum(np.minimum.accumulate(corrected[::-1])[::-1], 0.0)
    return lambda log_p: float(smallest[np.searchsorted(ranked, log_p)])


def call_by_rank(verdict: Verdict, p_keys: float, num_keys: int, *, decides: bool) -> Verdict:
    """Return a verdict with its rank among fresh keys; if it `decides`, the rank makes the call."""
    if not decides:
        signature = f"{verdict.signature}|null_keys:{num_keys}"
        return replace(verdict, p_keys=p_keys, signature=signature)
    called = _with_call(verdict, is_below(log(p_keys), verdict.fpr), f"call:rank{num_keys}")
    return replace(called, p_keys=p_keys)


def call_by_exact_p(verdict: Verdict, log_p: float, error: float, draws: int, seed: int) -> Verdict:
    """Return a verdict that is called by the p-value of this sequence, from drawn keys."""
    how = f"exact:{draws}|seed:{seed}|call:exact"
    return replace(
        _with_call(verdict, is_below(log_p, verdict.fpr), how),
        p_exact=p_value_of(log_p),
        log10_p_exact=log_p / LN10 + 0.0,  # never minus zero
        p_exact_error=error,
    )


def _with_call(verdict: Verdict, is_marked: bool, how: str) -> Verdict:
    """Return a verdict whose call does not depend on its p-value; `how` names the rule."""
    status = verdict.status if verdict.status is not Status.MARKED else Status.NO_MARK
    return replace(
        verdict,
        prediction=is_marked,
        status=Status.MARKED if is_marked else status,
        payload=verdict.payload if is_marked else None,
        payload_error=verdict.payload_error if is_marked else None,
        signature=verdict.signature.replace(f"|{CALL_BY_P}", f"|{how}"),
    )
