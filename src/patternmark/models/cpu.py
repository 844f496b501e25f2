"""The decoder step on a CPU: few PyTorch operations that work within the cache."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from patternmark.models.mpnn import HIDDEN, LETTERS, MESSAGE_SCALE, DecoderLayer, Prepared
from patternmark.models.state import State, with_row

_WITHOUT_ONEDNN = 8  # sequences up to which a call into oneDNN costs more than it saves


@contextmanager
def small_operations(batch: int) -> Iterator[None]:
    """Use PyTorch's own kernels instead of oneDNN if there are few sequences."""
    with warnings.catch_warnings():  # about options for other devices, which do not change
        warnings.simplefilter("ignore")
        enabled = torch.backends.mkldnn.flags(enabled=batch > _WITHOUT_ONEDNN)
        enabled.__enter__()
    try:
        yield
    finally:
        enabled.__exit__(None, None, None)


class CpuStep:
    """Decodes the next group of every sequence and draws its letter; one group for each call."""

    def __init__(self, prepared: Prepared, state: State) -> None:
        self._state = state
        self._layers = _CpuLayers(prepared)
        self._letters = [layer.letters for layer in prepared.layers]
        self._padding = state.native.shape[1] - 1
        self._offset = torch.arange(len(state.sequences)) * (self._padding + 1)  # [B]
        self._bits = torch.tensor([1 << letter for letter in range(LETTERS)], dtype=torch.int32)
        self._next = 0

    def __call__(self) -> None:
        state, group = self._state, self._next
        members = state.steps[group].unbind()
        logits = [self._logits(member) for member in members]
        biased = [raw + self._bias_of(i, members[i]) for i, raw in enumerate(logits)]
        letters = draw(self._average(biased, members) / state.temperature, state.uniforms[group])
        for raw, member in zip(logits, members, strict=True):
            log_p = torch.log_softmax(raw, dim=-1).gather(1, letters[:, None])
            state.log_p.scatter_(1, member[:, None], log_p)
            self._write_letter(member, letters)
        self._next += 1

    def _logits(self, residues: Tensor) -> Tensor:
        """Decode one residue of each sequence: [B] -> [B, 21]."""
        around = self._state.neighbours.index_select(0, residues) + self._offset[:, None]  # [B, K]
        return self._layers(self._state.heard, residues, around, residues + self._offset)

    def _average(self, logits: list[Tensor], members: Sequence[Tensor]) -> Tensor:
        if len(logits) == 1:
            return logits[0]
        used = torch.stack([m != self._padding for m in members])[..., None]  # [G, B, 1]
        return torch.where(used, torch.stack(logits), 0.0).sum(dim=0) / used.sum(dim=0)

    def _bias_of(self, number: int, residues: Tensor) -> Tensor:
        """Return the bias of member `number` of the groups: [B, 21]."""
        state = self._state
        bias = state.bias.index_select(0, residues)
        if state.marks is not None:
            letters = state.marks.gather(1, residues[:, None])
            bias += (letters & self._bits).ne_(0) * state.strength[:, None]
        return bias if state.step_bias is None else bias + state.step_bias[number]

    def _write_letter(self, residues: Tensor, letters: Tensor) -> None:
        """Store the letters of residues [B] where their neighbours read them."""
        self._state.sequences.scatter_(1, residues[:, None], letters[:, None])
        here = residues + self._offset
        for heard, of_letter in zip(self._state.heard, self._letters, strict=True):
            heard.index_add_(0, here, of_letter.index_select(0, letters))


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one letter per row by inverting the cumulative distribution: [B, 21], [B] -> [B]."""
    cumulative = torch.softmax(logits, dim=-1).cumsum(dim=-1)
    # Rounding may leave the sum below 1. The uniform number is scaled by it, so it stays below.
    return (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(dim=-1)


class _CpuLayers:
    """The decoder layers of one backbone for one residue of each sequence.

    With few sequences, calling an operation takes longer than its arithmetic. So constants are
    combined in advance, and functions are called instead of modules.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._nodes = with_row(prepared.encoded.nodes)
        # At level 0 the node of a residue is the encoder's, which is known for all residues.
        self._own = self._nodes @ prepared.layers[0].own
        self._edges = [with_row(layer.edges) for layer in prepared.layers]
        self._next = [torch.cat([p.own, p.node], dim=1) for p in prepared.layers[1:]]
        share = prepared.encoded.neighbours.shape[1] / MESSAGE_SCALE
        self._layers = [_Weights.of(p.layer, share) for p in prepared.layers]
        self._out = (prepared.W_out.bias, prepared.W_out.weight.T.contiguous())
        self._buffers: tuple[Tensor, Tensor] | None = None

    def __call__(
        self, heard: list[Tensor], residues: Tensor, around: Tensor, here: Tensor
    ) -> Tensor:
        """Return logits [B, 21]; store the nodes of all layers in `heard` [B * (L + 1), H]."""
        nodes, own = self._nodes.index_select(0, residues), self._own.index_select(0, residues)
        flat = around.view(-1)
        for level, w in enumerate(self._layers):
            if level > 0:
                own, node = (nodes @ self._next[level - 1]).split(HIDDEN, dim=1)  # type: ignore[no-untyped-call]
            summed = self._messages(level, heard[level], residues, flat, own)
            if level > 0:  # after the messages: a residue is its own neighbour, as undecoded
                heard[level].index_copy_(0, here, node)
            x = torch.addmm(w.b3, summed, w.w3).add_(nodes)
            nodes = layer_norm(x, _SHAPE, w.scale1, w.shift1)
            x = torch.addmm(w.b_out, gelu(torch.addmm(w.b_in, nodes, w.w_in)), w.w_out).add_(nodes)
            nodes = layer_norm(x, _SHAPE, w.scale2, w.shift2)
        return torch.addmm(self._out[0], nodes, self._out[1])

    def _messages(
        self, level: int, heard: Tensor, residues: Tensor, around: Tensor, own: Tensor
    ) -> Tensor:
        """Sum the messages that each residue gets from its neighbours, before W3: [B, H].

        Two buffers are reused, as new memory costs more time than the arithmetic.
        """
        batch, neighbours = len(residues), len(around) // len(residues)
        if self._buffers is None or self._buffers[0].shape[0] != batch:
            first = own.new_empty(batch, neighbours, HIDDEN)
            self._buffers = (first, torch.empty_like(first))
        x, y = self._buffers
        w = self._layers[level]
        torch.index_select(self._edges[level], 0, residues, out=x)
        torch.index_select(heard, 0, around, out=y.view(-1, HIDDEN))
        x.add_(y).add_(own[:, None])
        torch.ops.aten.gelu.out(x, out=y)
        torch.addmm(w.b2, y.view(-1, HIDDEN), w.w2, out=x.view(-1, HIDDEN))
        torch.ops.aten.gelu.out(x, out=y)
        return y.sum(dim=1)


_SHAPE = (HIDDEN,)


class _Weights(NamedTuple):
    """The tensors of one decoder layer, transposed in memory, which saves a fifth of the time."""

    w2: Tensor
    b2: Tensor
    w3: Tensor  # divided by the message scale
    b3: Tensor  # times K / 30, because messages are summed over K neighbours
    scale1: Tensor
    shift1: Tensor
    w_in: Tensor
    b_in: Tensor
    w_out: Tensor
    b_out: Tensor
    scale2: Tensor
    shift2: Tensor

    @classmethod
    def of(cls, layer: DecoderLayer, share: float) -> _Weights:
        return cls(
            layer.W2.weight.T.contiguous(),
            layer.W2.bias,
            (layer.W3.weight.T / MESSAGE_SCALE).contiguous(),
            layer.W3.bias * share,
            layer.norm1.weight,
            layer.norm1.bias,
            layer.dense.W_in.weight.T.contiguous(),
            layer.dense.W_in.bias,
            layer.dense.W_out.weight.T.contiguous(),
            layer.dense.W_out.bias,
            layer.norm2.weight,
            layer.norm2.bias,
        )
