"""From a decoder's last states to tokens: logits, the mark in them, the choice.

Logits [M, V] are far larger than what they are made of, and every pass over them takes time. So
what may never be chosen is the bias of the product that makes them; and a key is one more input of
that product, whose weights are what it promotes: the mark then costs no pass at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from patternmark.promote import Promotion

# Keys: with more of them, the product would take longer than the passes it saves.
_MOST_INPUTS = {"cuda": 512, "cpu": 128}
_MULTIPLE = 8  # GPUs like such a number of inputs


class Head:
    """The logits of states under a table of tokens [V, D]; ids in `never` have none.

    `inside` says whether the promotion is added inside the product.
    """

    def __init__(
        self,
        table: Tensor,
        never: Sequence[int],
        promotion: Promotion | None = None,
        *,
        inside: bool | None = None,
    ) -> None:
        self._table, self._promotion = table, promotion
        self._never = table.new_zeros(len(table))
        self._never[list(never)] = -math.inf
        self._inputs: Tensor | None = None  # [keys, inputs], one for each key
        bias = None if promotion is None else promotion.bias
        if inside is None:
            most = _MOST_INPUTS["cuda" if table.is_cuda else "cpu"]
            inside = bias is not None and len(bias) <= most
        if inside and bias is not None:
            filling = -len(bias) % _MULTIPLE
            self._inputs = torch.eye(len(bias), len(bias) + filling).to(table)
            weights = functional.pad(bias.T.to(table.dtype), (0, filling))
            self._table = torch.cat([table, weights], dim=1)

    def logits(self, states: Tensor, positions: Any = None) -> Tensor:
        """Return the logits [M, V] of states [M, D]; `positions` are those of the promotion."""
        promotion = self._promotion
        if promotion is not None and self._inputs is not None:
            states = torch.cat([states, self._inputs[promotion.row_of[positions]]], dim=1)
        logits = functional.linear(states, self._table, self._never)
        if promotion is None or self._inputs is not None:
            return logits
        return cast(Tensor, promotion.add_to(logits, positions))


def choose(
    logits: Tensor, temperature: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return the tokens chosen from logits [M, V], and ln of their probabilities [M].

    A temperature of 0 takes the likeliest.
    """
    if temperature == 0.0:
        # Made in one pass, unlike logsumexp, which takes four times as long on a CPU.
        found = functional.log_softmax(logits, dim=1).max(dim=1)
        return found.indices, found.values.float()
    # The largest is 0: a very low temperature makes no number too large.
    scaled = (logits - logits.amax(dim=1, keepdim=True)).float() / temperature
    log_p = functional.log_softmax(scaled, dim=1)
    uniform = torch.rand(log_p.shape, generator=generator, device=log_p.device)
    chosen = (log_p - torch.log(-torch.log(uniform))).argmax(dim=1)
    return chosen, log_p.gather(1, chosen[:, None])[:, 0]
