"""Substitutions as evolution makes them: what BLOSUM62 says letters are replaced by."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from patternmark.alphabet import PROTEIN

_TABLE = "data/blosum62.tsv"


@cache
def blosum62() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log-odds in half bits [20, 20] and the background frequencies [20]."""
    text = files("patternmark").joinpath(_TABLE).read_text(encoding="utf-8")
    head, *rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    letters = "".join(head[2:])
    assert letters == PROTEIN.letters[: len(letters)]  # noqa: S101  # ids are rows and columns
    numbers = np.array([[float(entry) for entry in row[1:]] for row in rows])
    return numbers[:, 1:], numbers[:, 0] / numbers[:, 0].sum()


@cache
def replacement_law() -> NDArray[np.float64]:
    """Return how likely each letter is replaced by each other, given that it is: [20, 20].

    Two letters stand aligned p(b) 2^(s/2) times as often as their frequencies say.
    """
    scores, frequencies = blosum62()
    law = frequencies * 2.0 ** (scores / 2.0)
    np.fill_diagonal(law, 0.0)
    return np.asarray(law / law.sum(axis=1, keepdims=True))
