"""Turn the last states of a decoder into logits, add the mark, and choose tokens.

Logits [M, V] are far larger than the states, and every pass over them takes time. So tokens that
must never be chosen are excluded by the bias of the matrix product that makes the logits. On a GPU
each position key is one more input of that product, and its weights are the symbols it promotes, so
the mark needs no pass at all. On a CPU the mark is added to all rows of one key together, while
they are in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from patternmark.core.promote import Promotion
from patternmark.models.products import PackedWeights

_MOST_KEY_INPUTS = 512  # keys that become inputs: more would cost more than the passes they save
_INPUT_MULTIPLE = 8  # inputs are padded to a multiple of this, which is faster on GPUs
_BLOCK_TOKENS = 64  # tokens of a block in which `_largest` searches


class Head:
    """Computes the logits of states for a table of tokens [V, D]; ids in `never` get -inf.

    `packed` is the same table, packed. `inside` says whether the mark is added inside the product;
    None chooses by device and number of keys.
    """

    def __init__(
        self,
        table: Tensor,
        never: Sequence[int],
        promotion: Promotion[Tensor] | None = None,
        packed: PackedWeights | None = None,
        *,
        inside: bool | None = None,
    ) -> None:
        self._table, self._packed = table, packed
        self._never = table.new_zeros(len(table))
        self._never[list(never)] = -math.inf
        self._row_of: Tensor | None = None  # [B, L] for each position its row of `_bias`
        self._inputs: Tensor | None = None  # [rows, inputs]
        if promotion is None:
            return
        used, self._row_of = torch.unique(promotion.row_of, return_inverse=True)
        self._bias = promotion.strength * promotion.promoted[used].to(table.dtype)  # [rows, V]
        if inside is None:
            inside = table.is_cuda and len(used) <= _MOST_KEY_INPUTS
        if inside:
            filling = -len(used) % _INPUT_MULTIPLE
            self._inputs = torch.eye(len(used), len(used) + filling).to(table)
            weights = functional.pad(self._bias.T, (0, filling))
            self._table = torch.cat([table, weights], dim=1)

    def logits(self, states: Tensor, positions: Any = None) -> Tensor:
        """Return the logits [M, V] of states [M, D]; `positions` index `promotion.row_of`."""
        if self._row_of is None:
            return self._plain(states)
        rows = self._row_of[positions]
        if self._inputs is not None:
            states = torch.cat([states, self._inputs[rows]], dim=1)
            return functional.linear(states, self._table, self._never)
        logits = self._plain(states)
        if logits.is_cuda:
            return logits.add_(self._bias[rows])
        values, counts = torch.unique_consecutive(rows, return_counts=True)
        for row, part in zip(values.tolist(), torch.split(logits, counts.tolist()), strict=True):
            part.add_(self._bias[row])
        return logits

    def _plain(self, states: Tensor) -> Tensor:
        if self._packed is not None:
            return self._packed(states, self._never)
        return functional.linear(states, self._table, self._never)


def choose(
    logits: Tensor, temperature: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return the tokens chosen from logits [M, V], and ln of their probabilities [M].

    A temperature of 0 takes the likeliest token.
    """
    if temperature == 0.0:
        # log_softmax takes one pass; logsumexp takes four times as long on a CPU.
        indices, values = _largest(functional.log_softmax(logits, dim=1))
        return indices, values.float()
    # After this the largest is 0, so that even a very low temperature causes no overflow.
    scaled = (logits - logits.amax(dim=1, keepdim=True)).float() / temperature
    log_p = functional.log_softmax(scaled, dim=1)
    uniform = torch.rand(log_p.shape, generator=generator, device=log_p.device)
    chosen = (log_p - torch.log(-torch.log(uniform))).argmax(dim=1)
    return chosen, log_p.gather(1, chosen[:, None])[:, 0]


def _largest(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of the first largest number of each row [M, V], and the number.

    A CPU finds a maximum much faster than its place. So it first finds the block of the maximum,
    and then the place within that block.
    """
    if rows.device.type != "cpu" or rows.shape[1] % _BLOCK_TOKENS:
        found = rows.max(dim=1)
        return found.indices, found.values
    blocks = rows.view(len(rows), -1, _BLOCK_TOKENS)
    found = blocks.amax(dim=2).max(dim=1)
    inside = blocks[torch.arange(len(rows)), found.indices].argmax(dim=1)
    return found.indices * _BLOCK_TOKENS + inside, found.values
