"""How often marked symbols agree with their keys: what detectors expect of a mark.

For proteins the rates were measured, amino acid by amino acid, on designs of ProteinMPNN
(`patternmark bench agreement`): K and E follow the key often, G and P hardly ever. A detector with
wrong rates is weaker, never invalid.

A table for another alphabet goes beside it and into `_FILES`, under the alphabet's hash: its
`symbols` (ids) in place of letters, and rates by scheme for each level; symbols it lacks keep
ANY_SYMBOL. The null of `auto` for texts was counted with ANY_SYMBOL: an alphabet with rates of its
own needs a table of its own, too.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN, Alphabet

DELTAS = (0.5, 0.75, 1.0, 1.5)  # the levels of strength
ANY_SYMBOL = (0.65, 0.72, 0.82, 0.90)  # where nothing was measured: tokens of text
_FILES = {PROTEIN.sha256: "agreement.json"}


@cache
def measured(file: str) -> dict[str, Any]:
    """Return a measurement that ships with the package."""
    content = files("patternmark").joinpath(f"data/{file}").read_text(encoding="utf-8")
    return dict(json.loads(content))


@cache
def agreement_rates(alphabet: Alphabet, scheme: str) -> NDArray[np.float64]:
    """Return the rate of every symbol at every level of strength: [levels, V].

    Rates are for keys that promote half of the symbols.
    """
    rates = np.repeat(np.array(ANY_SYMBOL)[:, None], alphabet.size, axis=1)
    rates[:, list(alphabet.unscored)] = 0.5
    if alphabet.sha256 in _FILES:
        table = measured(_FILES[alphabet.sha256])
        symbols = table["letters"] if alphabet.letters else table["symbols"]
        rates[:, alphabet.encode(symbols)] = table[scheme]
    rates.setflags(write=False)  # shared
    return rates


def with_chance(rates: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    """Return the rates of the same preference where keys promote another share than a half."""
    odds = rates / (1.0 - rates) * chance / (1.0 - chance)
    return np.asarray(odds / (1.0 + odds))
