"""The mark for Example, which runs as it is.

Say here which version was looked at, where it calls this, and what was not tried.
"""

from __future__ import annotations

from typing import Any

from patternmark.adapters.logit_bias import LogitBias, batch_keys
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.marker import Marker


class ExampleMark:
    """Adds the bias to the logits of every step, in whatever order positions are written."""

    def __init__(
        self,
        marker: Marker,
        batch: int,
        length: int,
        *,
        temperature: float = 1.0,
        seed: int | str | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Draw the keys of a batch; `temperature` is what the sampler divides its logits by.

        Where the columns of the logits are not the symbols of the alphabet in their order, name
        them: see `LogitBias` and `letter_columns`.
        """
        keys = batch_keys(marker, batch, length, seed)
        self._bias = LogitBias(marker, keys, temperature=temperature, device=device)

    def __call__(self, logits: Tensor, positions: Any = ...) -> Tensor:
        """Return raw logits [..., C] of all positions [B, L], or of those named, with their bias.

        Call it before confidences are taken, so that the order follows what is sampled.
        """
        return self._bias.add_to(logits, positions)
