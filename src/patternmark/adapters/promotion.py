"""A marker fitted to the logits of somebody's model: the one place where hooks add the bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.alphabet import Alphabet
from patternmark.errors import ParameterError
from patternmark.mark import Marker


class Promotion:
    """Add a marker's bias to logits [..., C] whose columns need not be the key's symbols.

    Without `columns`, column i is symbol i; a model may have more columns than its tokenizer has
    tokens, and those are left alone. With them, symbol i stands in column `columns[i]`, or
    nowhere if that is negative. A temperature of 0 means greedy decoding, to which the bias is
    added as it is.

    >>> from patternmark import Key, Marker, Profile
    >>> promotion = Promotion(Marker(Key.generate(Profile(delta=2.0))))
    >>> promotion(torch.zeros(3, 24), [0, 1, -1]).sum(dim=-1)  # ten letters each, none without key
    tensor([20., 20.,  0.])
    """

    def __init__(
        self,
        marker: Marker,
        columns: Sequence[int] | None = None,
        *,
        temperature: float = 1.0,
    ) -> None:
        self.marker = marker
        self.temperature = temperature or 1.0
        self._size = marker.key.profile.alphabet.size
        self._columns = None if columns is None else torch.as_tensor(columns)

    def __call__(self, logits: Tensor, keys: Any, *, temperature: float | None = None) -> Tensor:
        """Return raw logits [..., C] with the parts of `keys` [...] promoted."""
        warmth = self.temperature if temperature is None else temperature or 1.0
        if self._columns is None:
            if logits.shape[-1] < self._size:
                raise ParameterError(
                    f"the model has {logits.shape[-1]} columns of logits, fewer than the "
                    f"{self._size} symbols of the key's alphabet: the key is for another tokenizer"
                )
            marked = self._promote(logits[..., : self._size], keys, warmth)
            if logits.shape[-1] == self._size:
                return marked
            return torch.cat([marked, logits[..., self._size :]], dim=-1)
        columns = self._columns.to(logits.device)
        present = columns >= 0
        marked = self._promote(logits[..., columns.clamp(min=0)], keys, warmth)
        result = logits.clone()
        result[..., columns[present]] = marked[..., present]
        return result

    def writable(self, width: int) -> Tensor:
        """Which of a model's columns a sampler may write: tokens, or letters that carry a mark."""
        allowed = torch.zeros(width, dtype=torch.bool)
        if self._columns is None:
            allowed[: self._size] = True
        else:
            allowed[self._columns[self.marker.key.profile.alphabet.scored]] = True
        return allowed

    def _promote(self, logits: Tensor, keys: Any, temperature: float) -> Tensor:
        marked: Tensor = self.marker.promote(logits, keys, temperature=temperature)
        return marked


def batch_keys(
    marker: Marker, batch: int, length: int, seed: int | str = 0, first_index: int = 0
) -> NDArray[np.int64]:
    """Draw the keys of a batch whose sequences are numbered from `first_index`: [batch, length]."""
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
