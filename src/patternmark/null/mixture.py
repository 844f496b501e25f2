"""How often chance reaches a mixed likelihood ratio: a table sharper than Markov's bound.

An e-value E has mean 1 under the null, so P(E >= t) <= 1/t. This bound is too large by a factor
1/C,

    C(t) = t P(E >= t) = mean over the alternative of (t / E if E >= t, else 0),

because E is the density of the alternative (the mixture of marks that E looks for) relative to the
null. The right side is easy to simulate even for a tiny P: draw marked sequences and average
numbers between 0 and 1. For t < 1, unmarked sequences are simply counted. The table that ships
with the package has these averages, each raised by five standard errors, for sequences of many
lengths, with random keys and the natural frequencies of amino acids. A p-value is never above 1/E.

For texts, P(E >= t) was counted on natural English under random keys (`bench text-null`).
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

PROTEIN_TABLES, TEXT_TABLES = "mixture_null.json", "text_null.json"
GRID = np.arange(-20.0, 60.5, 0.5)  # ln E


class MixtureNull:
    """Look up ln P(E >= e) for sequences of any length: `log_p` [lengths, grid].

    The last row is also used for longer sequences, because C falls with length.
    """

    def __init__(self, lengths: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        self._lengths = lengths
        # Between two lengths, take the larger p of the two; below the first, Markov's bound.
        markov = np.minimum(-GRID, 0.0)[None]
        self._log_p = np.maximum(log_p, np.concatenate([markov, log_p[:-1]]))
        self._log_c = np.max(self._log_p + GRID, axis=1)  # [lengths] ln of the largest C

    @property
    def digest(self) -> str:
        """A hash that identifies this table."""
        return sha256(self._log_p.tobytes()).hexdigest()[:8]

    @classmethod
    def shipped(cls, scheme: str) -> MixtureNull:
        """Return the table for a scheme's default parameters."""
        return cls.of_table(_shipped(PROTEIN_TABLES)[scheme])

    @classmethod
    def of_table(cls, table: dict[str, Any]) -> MixtureNull:
        return cls(np.array(table["lengths"]), np.array(table["log_p"]))

    def log_tail(
        self,
        log_ratio: NDArray[np.float64],
        scored: NDArray[np.int64],
        nonces: int = 1,
        longest: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return ln p for ln E [B] of records with `scored` symbols [B].

        E of several nonces is their mean. If one of R nonces stands out, the mean reaches t when
        that one reaches R t (minus what the others add, 1 on average), and any of R may do so.

        E of several chains is a product. Given the other chains, whose product is E', the factor of
        one chain must reach t / E': P(E >= t) = mean of C(t / E') / t over the alternative of the
        others, which is at most (largest C of that chain) / t. The `longest` chain [B] has the
        smallest C.
        """
        lone = log_of_lone(log_ratio, nonces)
        inside = np.minimum(lone, GRID[-1])
        rows = self._rows(scored)
        found = [np.interp(e, GRID, self._log_p[r]) for e, r in zip(inside, rows, strict=True)]
        sharpened = np.where(lone < GRID[0], 0.0, np.array(found) - (lone - inside))
        if longest is not None:
            bound = np.minimum(self._log_c[self._rows(longest)] - lone, 0.0)
            sharpened = np.where(longest < scored, bound, sharpened)
        markov = np.minimum(-np.asarray(log_ratio), 0.0)
        return np.asarray(np.minimum(sharpened + np.log(nonces), markov))

    def _rows(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._lengths, lengths), len(self._lengths) - 1)


def log_of_lone(log_ratio: ArrayLike, nonces: int) -> NDArray[np.float64]:
    """Return ln of the ratio that one nonce needs so that the mean over nonces is this ratio.

    The other nonces add 1 each, on average.
    """
    alone = np.asarray(log_ratio, dtype=np.float64)
    if nonces > 1:
        less = np.log(-np.expm1(-np.maximum(alone, 1e-300)))  # ln (E - 1) - ln E
        alone = np.where(alone > 0.0, alone + less, -1e3)
    return np.asarray(alone + np.log(nonces))


@cache
def _shipped(name: str) -> dict[str, Any]:
    content = files("patternmark").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return dict(json.loads(content))


def text_null(scheme: str, mixture: str) -> MixtureNull | None:
    """Return the null counted on natural texts for a scheme's default shape, if there is one.

    `mixture` is the digest of the mixture behind E: counts for another E would be wrong.
    """
    table = _shipped(TEXT_TABLES).get(scheme)
    if table is None or table["mixture"] != mixture:
        return None
    return MixtureNull.of_table(table)
