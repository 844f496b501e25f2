"""The autoregressive twin of CMLM: the same network with a causal decoder.

It is the teacher whose translations CMLM learns from, and what CMLM's speed is compared with.
"""

from __future__ import annotations

import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM, Block

_LOOK_EVERY = 8  # steps between two looks at whether all sentences have ended


@torch.inference_mode()
def greedy(model: CMLM, source: Tensor, most: int) -> list[list[int]]:
    """Translate sources [B, S] token by token, at most so many; states of the past are kept."""
    config = model.config
    memory = model.encode(source)
    attended = model.project(memory.states)
    past = [_Past(model, len(source), most, memory.states) for _ in model.decoder]
    found = torch.full((len(source), most), config.end, device=source.device)
    token = torch.full((len(source), 1), config.begin, device=source.device)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    for step in range(most):
        x = model.embed(token, "decoder", step)
        for layer, kept, cross in zip(model.decoder, past, attended, strict=True):
            x = kept.attend(layer, x, step)
            x = layer.attend_to_source(x, cross, memory.visible)
            x = layer.transform(x)
        token = model.logits(model.decoder_norm(x))[:, 0].argmax(dim=-1, keepdim=True)
        token = token.masked_fill(ended[:, None], config.end)
        found[:, step] = token[:, 0]
        ended |= token[:, 0] == config.end
        if step % _LOOK_EVERY == _LOOK_EVERY - 1 and bool(ended.all()):
            break
    lengths = (found == config.end).int().argmax(dim=1)
    lengths = torch.where((found == config.end).any(dim=1), lengths, most)
    return [row[:n] for row, n in zip(found.tolist(), lengths.tolist(), strict=True)]


class _Past:
    """Keys and values of the tokens so far, of one layer."""

    def __init__(self, model: CMLM, batch: int, most: int, like: Tensor) -> None:
        config = model.config
        shape = (batch, config.heads, most, config.width // config.heads)
        self._keys, self._values = like.new_empty(shape), like.new_empty(shape)

    def attend(self, layer: Block, x: Tensor, step: int) -> Tensor:
        """Let the newest token [B, 1, D] look at all tokens so far."""

        def look_back(y: Tensor) -> Tensor:
            key, value = layer.own.project(y)
            self._keys[:, :, step], self._values[:, :, step] = key[:, :, 0], value[:, :, 0]
            until = slice(step + 1)
            return layer.own(y, (self._keys[:, :, until], self._values[:, :, until]), None)

        return layer.around(x, layer.own_norm, look_back)
