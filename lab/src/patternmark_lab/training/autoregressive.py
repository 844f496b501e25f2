"""The autoregressive twin of CMLM: the same network with a causal decoder.

It is the teacher whose translations CMLM learns from, and what CMLM's speed is compared with.

On a GPU a step takes the time to launch its kernels, so there are few of them and the host seldom
waits: tokens, and who has ended, stay on the device, and sentences that have ended are let go a few
times only. Large batches cost hardly more than small ones.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM, Block, Config, attention_mask
from patternmark.models.head import Head

_LOOK_EVERY = 8  # steps between two looks at who has ended: each waits for the device
_FEW = 0.6  # of the rows that are computed: when no more are unfinished, the others are let go

Keys = tuple[Tensor, Tensor]  # keys and values [B, heads, K, D / heads]


@torch.inference_mode()
def greedy(model: CMLM, source: Tensor, most: int) -> list[list[int]]:
    """Translate sources [B, S] token by token, at most so many; states of the past are kept."""
    config = model.config
    state = _Unfinished(model, source, most)
    positions = model.positions(most, "decoder")
    head = Head(model.embedding.weight, banned_ids(config), packed=model.table)
    # [B, most + 1]: the last column ends those that never ended by themselves.
    found = torch.full((len(source), most + 1), config.end, device=source.device)
    for step in range(most):
        x = model.embedding(state.token)[:, None]
        if config.scaled_embedding:
            x = x * math.sqrt(config.width)
        logits = head.logits(state.decode(x + positions[step], step))
        state.token = logits.argmax(dim=-1).masked_fill_(state.ended, config.end)
        state.ended = state.token == config.end
        found[state.rows, step] = state.token
        if step % _LOOK_EVERY == _LOOK_EVERY - 1 and state.let_go(step + 1) == 0:
            break
    lengths = (found == config.end).int().argmax(dim=1)
    return [row[:n] for row, n in zip(found.tolist(), lengths.tolist(), strict=True)]


class _Unfinished:
    """The sentences that are still computed, and what the decoder keeps of each."""

    def __init__(self, model: CMLM, source: Tensor, most: int) -> None:
        config = model.config
        self._layers = cast("list[Block]", list(model.decoder))
        self._norm = model.decoder_norm
        memory = model.encode(source)
        states = memory.states
        # Added to logits, as attention takes it on a GPU, and not made anew in every layer.
        self._hidden = attention_mask(memory.visible[:, 0, 0], states)
        self._source: list[Keys] = model.project(states)
        shape = (len(source), config.heads, most, config.width // config.heads)
        self._past = [(states.new_empty(shape), states.new_empty(shape)) for _ in self._layers]
        self.rows = torch.arange(len(source), device=source.device)  # [B] which sentences
        self.token = torch.full_like(self.rows, config.begin)  # [B] the newest one
        self.ended = torch.zeros_like(self.rows, dtype=torch.bool)  # [B]

    def decode(self, x: Tensor, step: int) -> Tensor:
        """Return the last states [B, D] of embedded newest tokens [B, 1, D]."""
        for layer, past, source in zip(self._layers, self._past, self._source, strict=True):
            x = _look_back(layer, x, past, step)
            x = layer.attend_to_source(x, source, self._hidden)
            x = layer.transform(x)
        last: Tensor = self._norm(x)[:, 0]
        return last

    def let_go(self, length: int) -> int:
        """Stop computing sentences that have ended, if they are many; return how many have not."""
        open_rows = (~self.ended).nonzero()[:, 0]
        if 0 < len(open_rows) <= _FEW * len(self.rows):
            self.rows, self.token = self.rows[open_rows], self.token[open_rows]
            self.ended = self.ended[open_rows]
            if self._hidden is not None:
                self._hidden = self._hidden[open_rows]
            self._source = [(k[open_rows], v[open_rows]) for k, v in self._source]
            self._past = [
                (_kept(k, open_rows, length), _kept(v, open_rows, length)) for k, v in self._past
            ]
        return len(open_rows)


def _kept(past: Tensor, rows: Tensor, length: int) -> Tensor:
    """Return the first `length` steps of rows of what is kept, with room for as many as before."""
    found = past.new_empty(len(rows), *past.shape[1:])
    found[:, :, :length] = past[rows, :, :length]
    return found


def _look_back(layer: Block, x: Tensor, past: Keys, step: int) -> Tensor:
    """Let the newest token [B, 1, D] look at all tokens so far."""

    def attend(y: Tensor) -> Tensor:
        for kept, new in zip(past, layer.own.project(y), strict=True):
            kept[:, :, step] = new[:, :, 0]
        keys, values = (kept[:, :, : step + 1] for kept in past)
        looked: Tensor = layer.own(y, (keys, values), None)
        return looked

    return layer.around(x, layer.own_norm, attend)


def banned_ids(config: Config) -> list[int]:
    """Return the ids that no translation has; the end is what ends it."""
    return [index for index in config.never if index != config.end]
