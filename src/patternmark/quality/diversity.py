"""The diversity of a set of proteins: the entropy of its n-grams, in bits.

All n-grams of all proteins are counted together; none crosses the end of a chain or an unknown
residue. The entropy is that of the counted shares, without correction. As in the paper's table, it
grows with the number of n-grams, so compare only sets of equal size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.errors import InputError, ParameterError
from patternmark.quality.measured import Measured, with_error

_LETTERS = PROTEIN.num_scored
_MAX_LENGTH = 4  # of n-grams: 160,000 counts for each protein


def ngram_entropy(sequences: Sequence[str | NDArray[np.int64]], n: int) -> float:
    """Return the entropy of the n-grams of a set.

    >>> ngram_entropy(["ACAC", "DEDE"], 1)
    2.0
    >>> ngram_entropy(["ACA", "X"], 2)
    1.0
    """
    return _entropy(_counts(sequences, n).sum(axis=0))


def entropies(
    sequences: Sequence[str | NDArray[np.int64]], orders: Sequence[int] = (1, 2, 3)
) -> list[Measured]:
    """Return the entropy for each n, with an interval from a jackknife over proteins."""
    return [_with_interval(_counts(sequences, n), n) for n in orders]


def _with_interval(counts: NDArray[np.int64], n: int) -> Measured:
    total = counts.sum(axis=0)
    value, size = _entropy(total), len(counts)
    without = np.array([_entropy(total - own) for own in counts])
    # With one protein there is no jackknife.
    spread = float(((without - without.mean()) ** 2).sum()) if size > 1 else np.nan
    return with_error(
        f"{n}-gram entropy", value, sqrt((size - 1) / size * spread), size, "proteins"
    )


def _counts(sequences: Sequence[str | NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    """Count the n-grams of each protein: [proteins, 20^n]."""
    if not 1 <= n <= _MAX_LENGTH:
        raise ParameterError(f"n-grams must have 1 to {_MAX_LENGTH} letters, not {n}")
    if not len(sequences):
        raise InputError("n-grams need at least one protein")
    counts = np.zeros((len(sequences), _LETTERS**n), dtype=np.int64)
    for row, sequence in zip(counts, sequences, strict=True):
        ids = PROTEIN.encode(sequence)
        if len(ids) < n:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(ids, n)
        known = windows[PROTEIN.is_scored(windows).all(axis=1)]
        np.add.at(row, known @ _LETTERS ** np.arange(n), 1)
    if not counts.any():
        raise InputError(f"no protein has {n} known residues in a row")
    return counts


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())
