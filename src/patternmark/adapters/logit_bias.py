"""Fit a marker to the logits of a model. All hooks add their bias here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.alphabet import Alphabet
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.promote import Promotion
from patternmark.errors import ParameterError


class LogitBias:
    """The bias of positions with given keys [...], for logits of a model.

    Without `columns`, column i is symbol i; if the model has more columns than the alphabet has
    symbols, the others do not change. With `columns`, symbol i is in column `columns[i]`, or has no
    column if that is negative. A temperature of 0 means greedy decoding: delta is then added
    unchanged. `device` is the device of the logits.

    >>> from patternmark import Key, Marker, Profile
    >>> bias = LogitBias(Marker(Key.generate(Profile(delta=2.0))), [0, 1, -1])
    >>> bias.add_to(torch.zeros(3, 24)).sum(dim=-1)  # ten letters each, none without a key
    tensor([20., 20.,  0.])
    """

    def __init__(
        self,
        marker: Marker,
        keys: Any,
        columns: Sequence[int] | None = None,
        *,
        temperature: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> None:
        keys = torch.as_tensor(keys, device=device)
        self._fit(marker, marker.prepare(keys, temperature or 1.0, like=keys), columns)

    @classmethod
    def of_prepared(cls, marker: Marker, prepared: Promotion[Tensor]) -> LogitBias:
        """Return the bias of a promotion that is already prepared, for a model of tokens."""
        bias = cls.__new__(cls)
        bias._fit(marker, prepared, None)
        return bias

    def _fit(
        self, marker: Marker, prepared: Promotion[Tensor], columns: Sequence[int] | None
    ) -> None:
        self._key, self._prepared = marker.key, prepared
        self._alphabet = marker.key.profile.alphabet
        self._device = prepared.row_of.device
        self._columns = None if columns is None else torch.as_tensor(columns, device=self._device)

    def add_to(self, logits: Tensor, positions: Any = ...) -> Tensor:
        """Return raw logits [..., C] of all or of the given positions, with their bias."""
        if self._columns is not None:
            present = self._columns >= 0
            marked = self._promote(logits[..., self._columns.clamp(min=0)], positions)
            result = logits.clone()
            result[..., self._columns[present]] = marked[..., present]
            return result
        width, size = logits.shape[-1], self._alphabet.size
        check_width(self._key, width)
        marked = self._promote(logits[..., :size], positions)
        return marked if width == size else torch.cat([marked, logits[..., size:]], dim=-1)

    def writable(self, width: int) -> Tensor:
        """Return which columns a sampler may write: tokens, or letters that can be marked."""
        allowed = torch.zeros(width, dtype=torch.bool, device=self._device)
        if self._columns is None:
            allowed[: self._alphabet.size] = True
        else:
            allowed[self._columns[torch.as_tensor(self._alphabet.scored)]] = True
        return allowed

    def _promote(self, logits: Tensor, positions: Any) -> Tensor:
        return self._prepared.add_to(logits, positions)


def check_width(key: Key, width: int) -> None:
    """Raise an error if a model has fewer columns of logits than the key has symbols."""
    alphabet = key.profile.alphabet
    if width < alphabet.size:
        raise ParameterError(
            f"the model has {width} columns of logits, fewer than the {alphabet.size} symbols of "
            f"alphabet {alphabet.name!r}: key {key.key_id} is for another tokenizer"
        )


def batch_keys(
    marker: Marker, batch: int, length: int, seed: int | str | None = None, first_index: int = 0
) -> NDArray[np.int64]:
    """Draw the keys of a batch whose sequences are numbered from `first_index`: [batch, length].

    Without a seed, every call draws new keys.
    """
    numbers = range(first_index, first_index + batch)
    return marker.key_sequences([length] * batch, seed, numbers)


def letter_columns(alphabet: Alphabet, vocabulary: Mapping[str, int]) -> list[int]:
    """Return the column of each letter of an alphabet in a model's vocabulary; -1 for no column."""
    if not alphabet.letters:
        raise ParameterError(
            f"alphabet {alphabet.name!r} is made of token ids, but this model writes letters: "
            "make a key with 'patternmark keygen' for proteins"
        )
    columns = [vocabulary.get(letter, -1) for letter in alphabet.letters]
    for symbol in alphabet.scored.tolist():
        if columns[symbol] < 0:
            raise ParameterError(
                f"the model's vocabulary has no token for letter {alphabet.letters[symbol]!r} "
                f"of alphabet {alphabet.name!r}"
            )
    return columns
