"""The decoder step on a GPU: two Triton kernels per layer, nothing of size [B, K, H] in memory.

`messages` sums what a residue hears from its neighbours; `update` turns the sum into new nodes and
prepares the next layer. Products take half precision numbers (the 10-bit mantissa of TF32) and
accumulate in single precision. Letters in shape comments are those of mpnn.py.
"""

# mypy: ignore-errors

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from patternmark.models.mpnn import HIDDEN, LETTERS, MESSAGE_SCALE, Prepared

_PROGRAMS = 132 * 4  # a few for each multiprocessor of a large GPU; each works through many rows
_ROWS = 16  # sequences per program of `update`: the smallest tile of a matrix product
_LOGITS = 32  # letters, padded to a power of two


@dataclass(frozen=True, eq=False)
class _LayerWeights:
    w2: Tensor  # [H, H], as are the next; all transposed: x @ w
    b2: Tensor
    w3: Tensor
    b3: Tensor  # times K / 30: the sum over neighbours has K of them
    w_in: Tensor  # [H, 4H]
    b_in: Tensor
    w_out: Tensor  # [4H, H]
    b_out: Tensor
    norms: Tensor  # [4, H]: weight and bias of the first norm, then of the second
    after: Tensor  # [H, 2H] own and node of the next layer, or [H, 32] the output letters
    after_bias: Tensor


class GpuLayers:
    """The three decoder layers of one backbone; called like the CPU's."""

    def __init__(self, prepared: Prepared) -> None:
        self._edges = [_half(_padded(layer.edges)) for layer in prepared.layers]
        self._nodes = _padded(prepared.encoded.nodes)
        self._own = self._nodes @ prepared.layers[0].own  # at level 0 nobody has changed yet
        self._weights = [self._collect(prepared, i) for i in range(len(prepared.layers))]

    def __call__(
        self, heard: list[Tensor], residues: Tensor, around: Tensor, here: Tensor
    ) -> Tensor:
        """Decode one residue of each sequence: logits [B, 21]."""
        batch, neighbours = around.shape
        nodes, own = self._nodes.index_select(0, residues), self._own.index_select(0, residues)
        summed, node = torch.empty_like(nodes), torch.empty_like(nodes, dtype=torch.float16)
        logits = nodes.new_empty(batch, _LOGITS)
        for i, w in enumerate(self._weights):
            last = i + 1 == len(self._weights)
            _messages[(min(batch, _PROGRAMS),)](
                heard[i], self._edges[i], own, residues, around, w.w2, w.b2, summed, node, here,
                batch, neighbours, H=HIDDEN, K=max(16, triton.next_power_of_2(neighbours)),
                FIRST=i == 0, num_warps=4,
            )  # fmt: skip
            _update[(triton.cdiv(batch, _ROWS),)](
                nodes, summed, w.w3, w.b3, w.w_in, w.b_in, w.w_out, w.b_out, w.norms,
                w.after, w.after_bias, logits if last else own, node, batch,
                H=HIDDEN, ROWS=_ROWS, LAST=last, LOGITS=_LOGITS, num_warps=4,
            )  # fmt: skip
        return logits[:, :LETTERS]

    def _collect(self, prepared: Prepared, i: int) -> _LayerWeights:
        layer = prepared.layers[i].layer
        if i + 1 < len(prepared.layers):
            following = prepared.layers[i + 1]
            after = torch.cat([following.own, following.node], dim=1)
            after_bias = after.new_zeros(2 * HIDDEN)
        else:
            after = torch.nn.functional.pad(prepared.W_out.weight.T, (0, _LOGITS - LETTERS))
            after_bias = torch.nn.functional.pad(prepared.W_out.bias, (0, _LOGITS - LETTERS))
        neighbours = prepared.encoded.neighbours.shape[1]
        norms = [layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias]
        return _LayerWeights(
            w2=_half(layer.W2.weight.T),
            b2=layer.W2.bias,
            w3=_half(layer.W3.weight.T / MESSAGE_SCALE),
            b3=layer.W3.bias * (neighbours / MESSAGE_SCALE),
            w_in=_half(layer.dense.W_in.weight.T),
            b_in=layer.dense.W_in.bias,
            w_out=_half(layer.dense.W_out.weight.T),
            b_out=layer.dense.W_out.bias,
            norms=torch.stack(norms).contiguous(),
            after=_half(after),
            after_bias=after_bias,
        )


def _half(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float16).contiguous()


def _padded(rows: Tensor) -> Tensor:
    """Append the row that fills short groups."""
    return torch.cat([rows, torch.zeros_like(rows[:1])])


@triton.jit
def _gelu(x):
    # erf to 1.5e-7 (Abramowitz and Stegun 7.1.26): one exponential instead of two branches.
    z = tl.abs(x) * 0.7071067811865476
    t = 1.0 / (1.0 + 0.3275911 * z)
    p = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = 1.0 - p * tl.exp(-z * z)
    return 0.5 * x + 0.5 * tl.abs(x) * erf


@triton.jit
def _messages(
    heard, edges, own, residues, around, w2, b2, summed, node, here, batch, neighbours,
    H: tl.constexpr, K: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """summed[b] = sum over k of gelu(W2 gelu(heard[around[b, k]] + edges[r, k] + own[b]) + b2)."""
    k = tl.arange(0, K)
    h = tl.arange(0, H)
    used = k < neighbours
    weight = tl.load(w2 + h[:, None] * H + h[None, :])  # stays on the chip for all rows
    bias = tl.load(b2 + h)
    for b in range(tl.program_id(0), batch, tl.num_programs(0)):
        row = tl.load(around + b * neighbours + k, mask=used, other=0)
        edge_row = tl.load(residues + b) * neighbours + k
        there = tl.load(heard + row[:, None] * H + h[None, :], mask=used[:, None], other=0.0)
        edge = tl.load(edges + edge_row[:, None] * H + h[None, :], mask=used[:, None], other=0.0)
        x = there.to(tl.float32) + edge.to(tl.float32) + tl.load(own + b * H + h)[None, :]
        y = _gelu(tl.dot(_gelu(x).to(tl.float16), weight) + bias[None, :])
        tl.store(summed + b * H + h, tl.sum(tl.where(used[:, None], y, 0.0), axis=0))
        if not FIRST:  # only now: a residue is its own neighbour, and hears itself undecoded
            tl.store(heard + tl.load(here + b) * H + h, tl.load(node + b * H + h))


@triton.jit
def _norm(x, norms, h, H: tl.constexpr):
    centred = x - tl.sum(x, axis=1)[:, None] / H
    variance = tl.sum(centred * centred, axis=1) / H
    scaled = centred * tl.rsqrt(variance + 1e-5)[:, None]
    return scaled * tl.load(norms + h)[None, :] + tl.load(norms + H + h)[None, :]


@triton.jit
def _update(
    nodes, summed, w3, b3, w_in, b_in, w_out, b_out, norms, after, after_bias,
    result, node, batch,
    H: tl.constexpr, ROWS: tl.constexpr, LAST: tl.constexpr, LOGITS: tl.constexpr,
):  # fmt: skip
    """W3, norm, feed-forward, norm; then the next layer's products, or the logits."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    h = tl.arange(0, H)
    valid = (b < batch)[:, None]
    at = b[:, None] * H + h[None, :]
    square = h[:, None] * H + h[None, :]
    s = tl.load(summed + at, mask=valid, other=0.0).to(tl.float16)
    x = tl.load(nodes + at, mask=valid, other=0.0)
    x = _norm(x + tl.dot(s, tl.load(w3 + square)) + tl.load(b3 + h)[None, :], norms, h, H)
    half = x.to(tl.float16)
    x += tl.load(b_out + h)[None, :]
    for part in tl.static_range(4):
        columns = part * H + h
        inner = tl.dot(half, tl.load(w_in + h[:, None] * (4 * H) + columns[None, :]))
        inner = _gelu(inner + tl.load(b_in + columns)[None, :]).to(tl.float16)
        x += tl.dot(inner, tl.load(w_out + columns[:, None] * H + h[None, :]))
    x = _norm(x, norms + 2 * H, h, H)
    tl.store(nodes + at, x, mask=valid)
    half = x.to(tl.float16)
    if LAST:
        c = tl.arange(0, LOGITS)
        logits = tl.dot(half, tl.load(after + h[:, None] * LOGITS + c[None, :]))
        logits += tl.load(after_bias + c)[None, :]
        tl.store(result + b[:, None] * LOGITS + c[None, :], logits, mask=valid)
    else:
        wide = h[:, None] * (2 * H) + h[None, :]
        tl.store(result + at, tl.dot(half, tl.load(after + wide)), mask=valid)
        tl.store(node + at, tl.dot(half, tl.load(after + wide + H)).to(tl.float16), mask=valid)
