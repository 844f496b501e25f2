"""A marker fitted to the logits of somebody's model: the one place where hooks add the bias."""

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
    """The bias of positions with certain keys [...], for logits whose columns need not be symbols.

    Without `columns`, column i is symbol i; a model may have more columns than its tokenizer has
    tokens, and those are left alone. With them, symbol i stands in column `columns[i]`, or
    nowhere if that is negative. A temperature of 0 means greedy decoding, to which delta is added
    as it is. `device` is where the logits will be.

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
        """Return one of a bias that is kept as tensors already, for a model of tokens."""
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
        """Return raw logits [..., C] of all positions, or of those named, with their bias."""
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
        """Which of a model's columns a sampler may write: tokens, or letters that carry a mark."""
        allowed = torch.zeros(width, dtype=torch.bool, device=self._device)
        if self._columns is None:
            allowed[: self._alphabet.size] = True
        else:
            allowed[self._columns[torch.as_tensor(self._alphabet.scored)]] = True
        return allowed

    def _promote(self, logits: Tensor, positions: Any) -> Tensor:
        return self._prepared.add_to(logits, positions)


def check_width(key: Key, width: int) -> None:
    """Refuse a model with too few columns of logits for the key's tokens."""
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

    Without a seed they are drawn afresh at every call.
    """
    numbers = range(first_index, first_index + batch)
    return marker.key_sequences([length] * batch, seed, numbers)


def letter_columns(alphabet: Alphabet, vocabulary: Mapping[str, int]) -> list[int]:
    """Find the column of each letter of an alphabet in a model's vocabulary: -1 for no column."""
    if not alphabet.letters:
        raise ParameterError(
            f"alphabet {alphabet.name!r} is made of token ids, this model writes letters: "
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
