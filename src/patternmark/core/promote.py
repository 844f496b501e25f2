"""Eq. 1 of the paper: raise the symbols of the key's part by e^delta.

Tilting a distribution by e^delta on a part is adding delta to the logits of that part. A sampler
divides its logits by a temperature T, so *where* delta is added decides what it means:

    delta_at = "logits"     softmax((logits + delta) / T)    the paper's ProteinMPNN numbers
    delta_at = "tempered"   softmax(logits / T + delta)      Eq. 1 on the sampled distribution

The second is the first with delta * T, so there is one operation: add a bias to raw logits. It
works for numpy arrays and torch tensors, which share the names of most operations. This module
never imports torch: whoever passes a tensor has imported torch already.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import float_info
from typing import Any, Generic, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from patternmark.arrays import Array, Logits, is_tensor, to_device_of
from patternmark.core.alphabet import NO_KEY
from patternmark.errors import ParameterError

DeltaAt = Literal["logits", "tempered"]
DELTA_AT: tuple[str, ...] = get_args(DeltaAt)


def check_delta(delta: float) -> float:
    """Return delta unchanged; raise ParameterError if it is negative or not finite."""
    if not 0 <= delta <= float_info.max:  # not isfinite, which fails for whole numbers beyond it
        raise ParameterError(f"delta must be a number of 0 or more, not {delta}")
    return delta


def strength_of(delta: float, delta_at: DeltaAt, temperature: float) -> float:
    """Return the bias for raw logits that a sampler then divides by this temperature."""
    if not temperature > 0:
        advice = "for greedy decoding add the bias to the logits and take the argmax"
        raise ParameterError(f"a temperature must be positive, not {temperature}: {advice}")
    return delta if delta_at == "logits" else delta * temperature


@dataclass(frozen=True, eq=False)
class Promotion(Generic[Array]):
    """The bias of a batch's positions, ready to be added at every step of a sampler.

    It takes one byte for each symbol and each *different* key of the batch, on the device of the
    logits.
    """

    promoted: Array  # [k + 1, V] bool: what each different key promotes; nothing in the last row
    row_of: Array  # [...] whole numbers: the row of each position
    strength: float

    def __repr__(self) -> str:
        return f"Promotion(of {tuple(self.row_of.shape)} positions, hidden)"  # as the key is

    def to_device_of(self, logits: Logits) -> Promotion[Logits]:
        """Return this bias as tensors on the device of `logits`, if these are a tensor."""
        if not is_tensor(logits):
            return cast("Promotion[Logits]", self)
        promoted, row_of = (to_device_of(array, logits) for array in (self.promoted, self.row_of))
        return Promotion(promoted, row_of, self.strength)

    def only(self, rows: Any) -> Promotion[Array]:
        """Return that of some sequences of a batch, or of one: the first index of its positions."""
        return Promotion(self.promoted, self.row_of[rows], self.strength)

    def add_to(self, logits: Logits, positions: Any = None) -> Logits:
        """Return raw logits [..., V] of all positions, or of some, with their bias (Eq. 1).

        `positions` is any index or mask into an array of the keys' shape: if `logits` are those of
        the positions that are decoded now, such as `logits[mask]`, pass the `mask`. The result has
        the library, dtype and device of `logits`; whole numbers become float64.
        """
        raw: Any = logits
        if not is_tensor(raw):
            raw = np.asarray(raw)
            if not np.issubdtype(raw.dtype, np.floating):
                raw = raw.astype(np.float64)
        own: Promotion[Any] = self.to_device_of(raw)
        rows = own.row_of if positions is None else own.row_of[positions]
        if tuple(raw.shape) != (*rows.shape, own.promoted.shape[1]):
            raise ParameterError(
                f"logits of shape {tuple(raw.shape)} do not fit keys of shape "
                f"{tuple(rows.shape)} and an alphabet of {own.promoted.shape[1]} symbols"
            )
        chosen = own.promoted[rows]
        if is_tensor(raw):
            return cast(Logits, raw.add(chosen, alpha=self.strength))
        return cast(Logits, raw + raw.dtype.type(self.strength) * chosen)


def different_keys(keys: Any, num_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different keys, ascending, and for each position the place of its key in them.

    NO_KEY has the place after the last. A tensor is copied from its device.
    """
    index = keys.detach().cpu().numpy() if is_tensor(keys) else np.asarray(keys)
    if index.size and not (
        np.issubdtype(index.dtype, np.integer) and NO_KEY <= index.min() <= index.max() < num_keys
    ):
        raise ParameterError(f"keys must be whole numbers from 0 to {num_keys - 1}, or NO_KEY")
    index = index.astype(np.int64)
    if index.ndim == 2 and index.size:  # sequences of one nonce have the same keys
        rows = np.ascontiguousarray(index).view((np.void, index.shape[1] * index.itemsize))
        first, own = np.unique(rows[:, 0], return_index=True, return_inverse=True)[1:]
        if len(first) < len(index):
            used, place = different_keys(index[first], num_keys)
            return used, place[own]
    used, place = np.unique(index, return_inverse=True)
    place = place.reshape(index.shape)
    if used.size and used[0] == NO_KEY:
        used = used[1:]
        place = np.where(place == 0, len(used), place - 1)
    return used, place
