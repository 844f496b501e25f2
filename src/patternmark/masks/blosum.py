"""BLOSUM62: how much more often two letters are aligned in related proteins than by chance."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN

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
