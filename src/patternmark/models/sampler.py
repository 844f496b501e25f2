"""Sample sequences from ProteinMPNN: a batch on one backbone, each in an order of its own.

Residues that are tied together form a group: they are decoded one after the other, their logits
are averaged, and all of them get the same letter. A residue without ties is a group of one.
Residues that are not designed are known from the start; they are decoded once for the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from patternmark.models.mpnn import HIDDEN, MESSAGE_SCALE, DecoderLayer, Prepared


@dataclass(frozen=True, eq=False)
class Task:
    """What to sample on a backbone: B sequences.

    To the logits of residue r of sequence b is added bias[r] + key_bias[keys[b, r]], before the
    division by the temperature; -inf forbids a letter. NO_KEY = -1 indexes key_bias's last row.
    """

    native: NDArray[np.int64]  # [L] letters of the residues that are not designed
    steps: NDArray[np.int64]  # [B, groups, G] designed residues in order, padded with L
    uniforms: NDArray[np.float32]  # [B, groups] in [0, 1): one for each letter drawn
    keys: NDArray[np.int64]  # [B, L]
    key_bias: NDArray[np.float64]  # [l + 1, 21]
    bias: NDArray[np.float64]  # [L, 21]
    temperature: float


@dataclass(frozen=True, eq=False)
class Sampled:
    """Sequences with the model's own log-probability of every letter, without bias."""

    sequences: Tensor  # [B, L]
    log_p: Tensor  # [B, L]


def decoding_steps(
    groups: Sequence[Sequence[int]], seed: int, indices: Sequence[int], length: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Draw the order of the groups and the uniform numbers of each sequence of a batch.

    Both depend on seed and index alone, so a sequence comes out the same in any batch.
    """
    widest = max(map(len, groups), default=1)
    padded = np.full((len(groups), widest), length, dtype=np.int64)
    for row, group in enumerate(groups):
        padded[row, : len(group)] = group
    steps = np.empty((len(indices), *padded.shape), dtype=np.int64)
    uniforms = np.empty((len(indices), len(groups)), dtype=np.float32)
    for row, index in enumerate(indices):
        rng = np.random.default_rng([seed, index])
        steps[row] = padded[rng.permutation(len(groups))]
        uniforms[row] = rng.random(len(groups), dtype=np.float32)
    return steps, uniforms


@torch.inference_mode()
def sample(
    prepared: Prepared, task: Task, progress: Callable[[int], None] = lambda done: None
) -> Sampled:
    """Draw letters for every sequence; `progress` hears how many groups are done."""
    decoder = _Decoder(prepared, task)
    advance = decoder.captured() if decoder.sequences.is_cuda else decoder.step
    for done in range(1, task.steps.shape[1] + 1):
        advance()
        progress(done)
    return Sampled(decoder.sequences[:, :-1], decoder.log_p[:, :-1])


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one letter per row by inverting the cumulative distribution: [B, 21], [B] -> [B]."""
    cumulative = torch.softmax(logits, dim=-1).cumsum(dim=-1)
    # Rounding may leave the sum below 1; scaled by it, a uniform number is below it for certain.
    return (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(dim=-1)


class _Decoder:
    """What every residue contributes to its neighbours, in each layer, for each sequence.

    All buffers keep their place, so that a GPU can record one step and replay it.
    """

    def __init__(self, prepared: Prepared, task: Task) -> None:
        device = prepared.encoded.nodes.device
        batch, self._padding = len(task.steps), len(task.native)
        self._prepared = prepared
        self._temperature = task.temperature
        self._steps = torch.tensor(task.steps, device=device)
        self._uniforms = torch.tensor(task.uniforms, device=device)
        self._counter = torch.zeros(1, dtype=torch.long, device=device)
        self._rows = torch.arange(batch, device=device)
        self._offset = (self._rows * (self._padding + 1))[:, None]
        # Short groups are filled with a row that is nobody's neighbour.
        self._neighbours = _with_row(prepared.encoded.neighbours, self._padding)
        bias = torch.tensor(task.bias, dtype=torch.float32, device=device)
        self._bias = _with_row(bias, 0.0)
        key_bias = torch.tensor(task.key_bias, dtype=torch.float32, device=device)
        self._key_bias = key_bias.roll(1, dims=0)  # NO_KEY comes first: indices from 0
        keys = torch.tensor(task.keys + 1, device=device)
        self._keys = torch.cat([keys, torch.zeros_like(keys[:, :1])], dim=1)  # [B, L + 1]
        self._layers: Layers = _layers_for(prepared)
        # Half precision has the mantissa of a GPU's fast products, and half the memory.
        self._kind = torch.float16 if device.type == "cuda" else torch.float32
        native = torch.tensor(np.append(task.native, 0), device=device)
        fixed, fixed_log_p = self._decode_fixed(native[:-1])
        self._start = [_with_row(heard, 0.0).to(self._kind) for heard in fixed]
        self._native = native
        self.log_p = _with_row(fixed_log_p, 0.0).repeat(batch, 1)  # [B, L + 1]
        self.sequences = native.repeat(batch, 1)  # [B, L + 1]
        self._heard = [start.repeat(batch, 1) for start in self._start]  # [B * (L + 1), H]

    def step(self) -> None:
        """Decode the next group of every sequence and draw its letter."""
        members = self._steps.index_select(1, self._counter)[:, 0].unbind(dim=1)
        uniforms = self._uniforms.index_select(1, self._counter)[:, 0]
        logits = [self._logits(member) for member in members]
        biased = [raw + self._bias_of(m) for raw, m in zip(logits, members, strict=True)]
        letters = draw(self._average(biased, members) / self._temperature, uniforms)
        for raw, member in zip(logits, members, strict=True):
            log_p = torch.log_softmax(raw, dim=-1).gather(1, letters[:, None])
            self.log_p.scatter_(1, member[:, None], log_p)
            self._write_letter(member, letters)
        self._counter += 1

    def _average(self, logits: list[Tensor], members: Sequence[Tensor]) -> Tensor:
        if len(logits) == 1:
            return logits[0]
        used = torch.stack([m != self._padding for m in members])[..., None]  # [G, B, 1]
        return torch.where(used, torch.stack(logits), 0.0).sum(dim=0) / used.sum(dim=0)

    def _bias_of(self, residues: Tensor) -> Tensor:
        keys = self._keys.gather(1, residues[:, None])[:, 0]
        return self._bias.index_select(0, residues) + self._key_bias.index_select(0, keys)

    def captured(self) -> Callable[[], None]:
        """Record one step as a CUDA graph: launching its kernels one by one would cost more."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.step()  # compiles kernels and sets up libraries, which a graph cannot record
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self._restart()
        return graph.replay

    def _restart(self) -> None:
        self._counter.zero_()
        self.sequences.copy_(self._native.expand_as(self.sequences))
        for heard, start in zip(self._heard, self._start, strict=True):
            heard.view(len(self._rows), -1, HIDDEN).copy_(start.expand(len(self._rows), -1, -1))

    def _decode_fixed(self, native: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return what residues contribute before the first step: those not designed are decoded.

        Also return the log-probability of every native letter, which holds for these.
        """
        designed = torch.zeros(self._padding + 1, dtype=torch.bool, device=native.device)
        designed[self._steps[0].flatten()] = True
        fixed = ~designed[: self._padding]
        if not bool(fixed.any()):
            undecoded = [layer.undecoded for layer in self._prepared.layers]
            return undecoded, undecoded[0].new_zeros(self._padding)
        rank = torch.where(fixed, torch.arange(len(fixed), device=native.device), len(fixed))
        nodes = self._prepared.decode_known(native, rank)
        heard = [
            torch.where(fixed[:, None], level @ p.node + p.letters[native], p.undecoded)
            for level, p in zip(nodes, self._prepared.layers, strict=False)
        ]
        log_p = torch.log_softmax(self._prepared.W_out(nodes[-1]), dim=-1)
        return heard, log_p.gather(1, native[:, None])[:, 0]

    def _logits(self, residues: Tensor) -> Tensor:
        """Decode one residue of each sequence: [B] -> [B, 21]."""
        around = self._neighbours.index_select(0, residues) + self._offset  # [B, K]
        here = residues + self._offset[:, 0]
        return self._layers(self._heard, residues, around, here)

    def _write_letter(self, residues: Tensor, letters: Tensor) -> None:
        """Make the letters of residues [B] known to their neighbours."""
        self.sequences.scatter_(1, residues[:, None], letters[:, None])
        here = residues + self._offset[:, 0]
        for heard, layer in zip(self._heard, self._prepared.layers, strict=True):
            heard.index_add_(0, here, layer.letters.index_select(0, letters).to(self._kind))


Layers = Callable[[list[Tensor], Tensor, Tensor, Tensor], Tensor]


def _layers_for(prepared: Prepared) -> Layers:
    if not prepared.encoded.nodes.is_cuda:
        return _CpuLayers(prepared)
    from patternmark.models.gpu import GpuLayers  # noqa: PLC0415  # Triton comes with CUDA builds

    return GpuLayers(prepared)


class _CpuLayers:
    """The decoder layers of one backbone for one residue of each sequence.

    With few sequences the time goes into calling operations, not into their arithmetic: constants
    are folded together in advance, and functions are called rather than modules.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._nodes = _with_row(prepared.encoded.nodes, 0.0)
        # At level 0 a node is what the encoder made of it: known for every residue.
        self._own = self._nodes @ prepared.layers[0].own
        self._edges = [_with_row(layer.edges, 0.0) for layer in prepared.layers]
        self._next = [torch.cat([p.own, p.node], dim=1) for p in prepared.layers[1:]]
        share = prepared.encoded.neighbours.shape[1] / MESSAGE_SCALE
        self._layers = [_Weights.of(p.layer, share) for p in prepared.layers]
        self._out = (prepared.W_out.bias, prepared.W_out.weight.T)
        self._buffers: tuple[Tensor, Tensor] | None = None

    def __call__(
        self, heard: list[Tensor], residues: Tensor, around: Tensor, here: Tensor
    ) -> Tensor:
        """Return logits [B, 21]; `heard` [B * (L + 1), H] learns of the nodes on the way."""
        nodes, own = self._nodes.index_select(0, residues), self._own.index_select(0, residues)
        flat = around.view(-1)
        for level, w in enumerate(self._layers):
            if level > 0:
                own, node = (nodes @ self._next[level - 1]).split(HIDDEN, dim=1)  # type: ignore[no-untyped-call]
            summed = self._messages(level, heard[level], residues, flat, own)
            if level > 0:  # only now: a residue is its own neighbour, and hears itself undecoded
                heard[level].index_copy_(0, here, node)
            x = torch.addmm(w.b3, summed, w.w3).add_(nodes)
            nodes = layer_norm(x, _SHAPE, w.scale1, w.shift1)
            x = torch.addmm(w.b_out, gelu(torch.addmm(w.b_in, nodes, w.w_in)), w.w_out).add_(nodes)
            nodes = layer_norm(x, _SHAPE, w.scale2, w.shift2)
        return torch.addmm(self._out[0], nodes, self._out[1])

    def _messages(
        self, level: int, heard: Tensor, residues: Tensor, around: Tensor, own: Tensor
    ) -> Tensor:
        """Sum what each residue hears from its neighbours, before W3: [B, H].

        In two buffers that are used again and again: fresh memory costs more than the arithmetic.
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
    """The tensors of one decoder layer, transposed; looking them up in modules costs time."""

    w2: Tensor
    b2: Tensor
    w3: Tensor  # divided by the message scale
    b3: Tensor  # times K, for it is summed over neighbours
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
            layer.W2.weight.T,
            layer.W2.bias,
            layer.W3.weight.T / MESSAGE_SCALE,
            layer.W3.bias * share,
            layer.norm1.weight,
            layer.norm1.bias,
            layer.dense.W_in.weight.T,
            layer.dense.W_in.bias,
            layer.dense.W_out.weight.T,
            layer.dense.W_out.bias,
            layer.norm2.weight,
            layer.norm2.bias,
        )


def _with_row(rows: Tensor, value: float) -> Tensor:
    return torch.cat([rows, torch.full_like(rows[:1], value)])
