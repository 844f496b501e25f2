"""The autoregressive counterpart of CMLM: the same network with a causal decoder.

CMLM learns from its translations, and CMLM's speed is compared with its speed.

On a GPU a step takes as long as launching its kernels, so there are few kernels and the host rarely
waits: tokens and the flags of finished sentences stay on the device, and finished sentences are
dropped only a few times. Large batches cost hardly more than small ones.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM, Block, Config, attention_mask
from patternmark.models.head import Head

_CHECK_EVERY = 8  # steps between checks for finished sentences: each check waits for the device
_UNFINISHED_SHARE = 0.6  # of the rows; with fewer unfinished ones the others are dropped

Keys = tuple[Tensor, Tensor]  # keys and values [B, heads, K, D / heads]


@torch.inference_mode()
def greedy(model: CMLM, source: Tensor, most: int) -> list[list[int]]:
    """Translate sources [B, S] token by token, at most `most` tokens; earlier states are cached."""
    config = model.config
    state = _Unfinished(model, source, most)
    positions = model.positions(most, "decoder")
    head = Head(model.embedding.weight, banned_ids(config), packed=model.table)
    # [B, most + 1]: the last column ends sentences that did not end by themselves.
    found = torch.full((len(source), most + 1), config.end, device=source.device)
    for step in range(most):
        x = model.embedding(state.token)[:, None]
        if config.scaled_embedding:
            x = x * math.sqrt(config.width)
        logits = head.logits(state.decode(x + positions[step], step))
        state.token = logits.argmax(dim=-1).masked_fill_(state.ended, config.end)
        state.ended = state.token == config.end
        found[state.rows, step] = state.token
        if step % _CHECK_EVERY == _CHECK_EVERY - 1 and state.drop_finished(step + 1) == 0:
            break
    lengths = (found == config.end).int().argmax(dim=1)
    return [row[:n] for row, n in zip(found.tolist(), lengths.tolist(), strict=True)]


class _Unfinished:
    """The sentences that are still computed, and the decoder's cache for each."""

    def __init__(self, model: CMLM, source: Tensor, most: int) -> None:
        config = model.config
        self._layers = cast("list[Block]", list(model.decoder))
        self._norm = model.decoder_norm
        memory = model.encode(source)
        states = memory.states
        # Made once for all layers, in the form that attention adds to its logits on a GPU.
        self._hidden = attention_mask(memory.visible[:, 0, 0], states)
        self._source: list[Keys] = model.project(states)
        shape = (len(source), config.heads, most, config.width // config.heads)
        self._past = [(states.new_empty(shape), states.new_empty(shape)) for _ in self._layers]
        self.rows = torch.arange(len(source), device=source.device)  # [B] numbers of the sentences
        self.token = torch.full_like(self.rows, config.begin)  # [B] the newest one
        self.ended = torch.zeros_like(self.rows, dtype=torch.bool)  # [B]

    def decode(self, x: Tensor, step: int) -> Tensor:
        """Return the last layer's states [B, D] of the embedded newest tokens [B, 1, D]."""
        for layer, past, source in zip(self._layers, self._past, self._source, strict=True):
            x = _look_back(layer, x, past, step)
            x = layer.attend_to_source(x, source, self._hidden)
            x = layer.transform(x)
        last: Tensor = self._norm(x)[:, 0]
        return last

    def drop_finished(self, length: int) -> int:
        """Drop the finished sentences if they are many; return the number of unfinished ones."""
        open_rows = (~self.ended).nonzero()[:, 0]
        if 0 < len(open_rows) <= _UNFINISHED_SHARE * len(self.rows):
            self.rows, self.token = self.rows[open_rows], self.token[open_rows]
            self.ended = self.ended[open_rows]
            if self._hidden is not None:
                self._hidden = self._hidden[open_rows]
            self._source = [(k[open_rows], v[open_rows]) for k, v in self._source]
            self._past = [
                (_copy_rows(k, open_rows, length), _copy_rows(v, open_rows, length))
                for k, v in self._past
            ]
        return len(open_rows)


def _copy_rows(past: Tensor, rows: Tensor, length: int) -> Tensor:
    """Return a cache of these rows with their first `length` steps and room for as many in all."""
    found = past.new_empty(len(rows), *past.shape[1:])
    found[:, :, :length] = past[rows, :, :length]
    return found


def _look_back(layer: Block, x: Tensor, past: Keys, step: int) -> Tensor:
    """Let the newest token [B, 1, D] attend to all tokens so far."""

    def attend(y: Tensor) -> Tensor:
        for kept, new in zip(past, layer.own.project(y), strict=True):
            kept[:, :, step] = new[:, :, 0]
        keys, values = (kept[:, :, : step + 1] for kept in past)
        looked: Tensor = layer.own(y, (keys, values), None)
        return looked

    return layer.around(x, layer.own_norm, attend)


def banned_ids(config: Config) -> list[int]:
    """Return the ids that no translation may contain, except the end token, which ends it."""
    return [index for index in config.never if index != config.end]
