"""How often marked symbols agree with their keys: what detectors expect of a mark.

For proteins the rates were measured, amino acid by amino acid, on designs of ProteinMPNN
(`patternmark bench agreement`): K and E follow the key often, G and P hardly ever. A detector with
wrong rates is weaker, never invalid.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.alphabet import PROTEIN, Alphabet

DELTAS = (0.5, 0.75, 1.0, 1.5)  # the levels of strength
_ANY_SYMBOL = (0.58, 0.65, 0.72, 0.82)  # where nothing was measured


@cache
def measured() -> dict[str, Any]:
    """Return the measurement that ships with the package."""
    content = files("patternmark").joinpath("data/agreement.json").read_text(encoding="utf-8")
    return dict(json.loads(content))


def agreement_rates(alphabet: Alphabet, scheme: str) -> NDArray[np.float64]:
    """Return the rate of every symbol at every level of strength: [levels, V].

    Rates are for keys that promote half of the symbols.
    """
    if alphabet != PROTEIN:
        return np.broadcast_to(np.array(_ANY_SYMBOL)[:, None], (len(DELTAS), alphabet.size))
    rates = np.full((len(DELTAS), alphabet.size), 0.5)
    rates[:, PROTEIN.encode(measured()["letters"])] = measured()[scheme]
    return rates


def with_chance(rates: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    """Return the rates of the same preference where keys promote another share than a half."""
    odds = rates / (1.0 - rates) * chance / (1.0 - chance)
    return np.asarray(odds / (1.0 + odds))
