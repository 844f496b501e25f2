"""Eq. 1 of the paper: raise the symbols of the key's part by e^delta.

Tilting a distribution by e^delta on a part is adding delta to the logits of that part. A sampler
divides its logits by a temperature T, so *where* delta is added decides what it means:

    delta_at = "logits"     softmax((logits + delta) / T)    the paper's ProteinMPNN numbers
    delta_at = "tempered"   softmax(logits / T + delta)      Eq. 1 on the sampled distribution

The second is the first with delta * T, so there is one operation: add a bias to raw logits. It
reads arrays through their own methods and works for numpy arrays and torch tensors alike.
"""

from __future__ import annotations

import sys
from math import isfinite
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from patternmark.chain import NO_KEY
from patternmark.errors import ParameterError

DeltaAt = Literal["logits", "tempered"]
DELTA_AT: tuple[str, ...] = get_args(DeltaAt)


def check_delta(delta: float) -> float:
    """Return a strength, or refuse what is none."""
    if not (isfinite(delta) and delta >= 0):
        raise ParameterError(f"delta must be a number of 0 or more, not {delta}")
    return delta


def bias_table(
    members: NDArray[np.bool_], delta: float, delta_at: DeltaAt, temperature: float = 1.0
) -> NDArray[np.float64]:
    """Return what to add to raw logits under each key: [l + 1, V].

    The last row, which NO_KEY = -1 indexes, is zero: a position without a key is left alone.
    """
    if not temperature > 0:
        raise ParameterError(
            f"a temperature must be positive, not {temperature}: "
            "for greedy decoding add the bias to the logits and take the argmax"
        )
    strength = delta if delta_at == "logits" else delta * temperature
    table = np.zeros((len(members) + 1, members.shape[1]))
    table[:NO_KEY] = strength * members
    return table


def promote(logits: Any, keys: Any, table: NDArray[np.float64]) -> Any:
    """Add each position's bias: logits [..., V] and keys [...] of the same leading shape.

    Any generation order fits: pass the logits of the positions being decoded with their keys.
    The result has the kind, dtype and device of `logits`.
    """
    if hasattr(logits, "new_tensor"):  # torch, which must never be imported from here
        rows = logits.new_tensor(table)
        # Not through the logits' own dtype: half precision cannot hold large keys.
        torch = sys.modules["torch"]
        index = torch.as_tensor(_checked(keys, len(table) - 1), device=logits.device).long()
        shape = tuple(index.shape)
    else:
        logits = np.asarray(logits)
        if not np.issubdtype(logits.dtype, np.floating):
            logits = logits.astype(np.float64)
        rows = table.astype(logits.dtype)
        index = _checked(keys, len(table) - 1)
        shape = index.shape
    if tuple(logits.shape) != (*shape, table.shape[1]):
        raise ParameterError(
            f"logits of shape {tuple(logits.shape)} do not fit keys of shape {shape} "
            f"and an alphabet of {table.shape[1]} symbols"
        )
    return logits + rows[index]


def _checked(keys: Any, num_keys: int) -> Any:
    """Return keys as an array of whole numbers; a tensor is taken as it is, to stay on its GPU."""
    if hasattr(keys, "new_tensor"):
        return keys
    index = np.asarray(keys)
    if index.size and not (
        np.issubdtype(index.dtype, np.integer) and NO_KEY <= index.min() <= index.max() < num_keys
    ):
        raise ParameterError(f"keys are whole numbers from 0 to {num_keys - 1}, or NO_KEY")
    return index
