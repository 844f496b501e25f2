"""How often marked symbols agree with their keys: what detectors expect of a mark.

For proteins the rates were measured for each amino acid on designs of ProteinMPNN (`patternmark
bench agreement`): K and E follow the key often, G and P hardly ever. A detector with wrong rates is
weaker, never invalid.

To add a table for another alphabet, put its file beside agreement.json and list it in `_FILES`
under the alphabet's hash: with `symbols` (ids) instead of letters, and rates by scheme for each
level. Symbols that it lacks keep UNMEASURED_RATES. The null of `auto` for texts was counted with
UNMEASURED_RATES: an alphabet with other rates needs its own null too.
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
UNMEASURED_RATES = (0.65, 0.72, 0.82, 0.90)  # for symbols without measured rates: tokens of text
_FILES = {PROTEIN.sha256: "agreement.json"}


@cache
def measured(file: str) -> dict[str, Any]:
    """Return the content of a JSON file of measurements that ships with the package."""
    content = files("patternmark").joinpath(f"data/{file}").read_text(encoding="utf-8")
    return dict(json.loads(content))


@cache
def agreement_rates(alphabet: Alphabet, scheme: str) -> NDArray[np.float64]:
    """Return the rate of every symbol at every level of strength: [levels, V].

    Rates are for keys that promote half of the symbols.
    """
    rates = np.repeat(np.array(UNMEASURED_RATES)[:, None], alphabet.size, axis=1)
    rates[:, list(alphabet.unscored)] = 0.5
    if alphabet.sha256 in _FILES:
        table = measured(_FILES[alphabet.sha256])
        symbols = table["letters"] if alphabet.letters else table["symbols"]
        rates[:, alphabet.encode(symbols)] = table[scheme]
    rates.setflags(write=False)  # shared by all callers
    return rates


def with_chance(rates: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    """Convert rates to keys that promote a share `chance` of the symbols instead of a half."""
    odds = rates / (1.0 - rates) * chance / (1.0 - chance)
    return np.asarray(odds / (1.0 + odds))
