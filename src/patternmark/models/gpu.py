"""The decoder step on a GPU: Triton kernels that keep all data of size [B, K, H] on the chip.

`_messages` sums the messages that a residue gets from its neighbours. `_update` turns the sum into
new nodes and prepares the next layer. `_choose` draws the letter and stores it. Products multiply
half precision numbers (with a 10-bit mantissa, as in TF32) and sum in single precision. One step is
recorded as a CUDA graph. Shape comments use the letters of mpnn.py and state.py.
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from patternmark.models.mpnn import HIDDEN, LETTERS, MESSAGE_SCALE, Prepared
from patternmark.models.state import State, with_row

_MOST_PROGRAMS = 132 * 4  # of `_messages`: 4 per multiprocessor of a large GPU, with many rows each
_UPDATE_ROWS = 16  # sequences per program of `_update`: the smallest tile of a matrix product
_PADDED_LETTERS = 32  # letters, padded to a power of two


@dataclass(frozen=True, eq=False)
class _LayerWeights:
    w2: Tensor  # [H, H], as is w3; all matrices are transposed, for x @ w
    b2: Tensor
    w3: Tensor
    b3: Tensor  # times K / 30, because messages are summed over K neighbours
    w_in: Tensor  # [H, 4H]
    b_in: Tensor
    w_out: Tensor  # [4H, H]
    b_out: Tensor
    norms: Tensor  # [4, H]: weight and bias of the first norm, then of the second
    after: Tensor  # [H, 2H] `own` and `node` of the next layer, or [H, 32] the output matrix
    after_bias: Tensor


class GpuStep:
    """Decodes the next group of every sequence and draws its letter; one group for each call."""

    def __init__(self, prepared: Prepared, state: State) -> None:
        self._state = state
        self._edges = [_half(with_row(layer.edges)) for layer in prepared.layers]
        self._letters = [_half(layer.letters) for layer in prepared.layers]
        encoded = with_row(prepared.encoded.nodes)
        # At level 0 the node of a residue is the encoder's, which is known for all residues.
        self._encoded, self._encoded_own = encoded, encoded @ prepared.layers[0].own
        self._weights = [self._collect(prepared, i) for i in range(len(prepared.layers))]
        _, members, batch = state.steps.shape
        self._nodes = encoded.new_empty(batch, HIDDEN)
        self._summed, self._own = torch.empty_like(self._nodes), torch.empty_like(self._nodes)
        self._node = torch.empty_like(self._nodes, dtype=torch.float16)
        self._logits = encoded.new_empty(members, batch, _PADDED_LETTERS)

    def capture(self) -> Callable[[], None]:
        """Record one step as a CUDA graph, which is faster than single launches; return it."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self()  # compiles the kernels, which a graph cannot record
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self()
        self._state.restart()
        self._graph = graph
        return self._replay  # a bound method, because the graph does not keep the memory alive

    def _replay(self) -> None:
        self._graph.replay()

    def __call__(self) -> None:
        state = self._state
        _, members, batch = state.steps.shape
        for member in range(members):
            self._decode(member)
        _choose[(batch,)](
            self._logits, state.steps, state.counter, state.uniforms, state.bias, state.marks,
            state.strength, state.step_bias, *self._letters, *state.heard, state.sequences,
            state.log_p, batch, state.native.shape[1], state.temperature,
            H=HIDDEN, G=members, LETTERS=LETTERS, LOGITS=_PADDED_LETTERS,
            IS_MARKED=state.marks is not None, HAS_STEP_BIAS=state.step_bias is not None,
            num_warps=1,
        )  # fmt: skip
        state.counter.add_(1)

    def _decode(self, member: int) -> None:
        """Compute the logits of one residue of each sequence."""
        state = self._state
        _, members, batch = state.steps.shape
        neighbours = state.neighbours.shape[1]
        for i, w in enumerate(self._weights):
            first, last = i == 0, i + 1 == len(self._weights)
            where = (state.steps, state.counter, member, members, batch)
            _messages[(min(batch, _MOST_PROGRAMS),)](
                state.heard[i], self._edges[i], self._encoded_own if first else self._own,
                state.neighbours, *where, w.w2, w.b2, self._summed, self._node,
                state.native.shape[1], neighbours, H=HIDDEN,
                K=max(16, triton.next_power_of_2(neighbours)), FIRST=first, num_warps=4,
            )  # fmt: skip
            _update[(triton.cdiv(batch, _UPDATE_ROWS),)](
                self._encoded if first else self._nodes, self._nodes, self._summed, *where,
                w.w3, w.b3, w.w_in, w.b_in, w.w_out, w.b_out, w.norms, w.after, w.after_bias,
                self._logits[member] if last else self._own, self._node,
                H=HIDDEN, ROWS=_UPDATE_ROWS, FIRST=first, LAST=last, LOGITS=_PADDED_LETTERS,
                num_warps=4,
            )  # fmt: skip

    def _collect(self, prepared: Prepared, i: int) -> _LayerWeights:
        layer = prepared.layers[i].layer
        if i + 1 < len(prepared.layers):
            following = prepared.layers[i + 1]
            after = torch.cat([following.own, following.node], dim=1)
            after_bias = after.new_zeros(2 * HIDDEN)
        else:
            padding = (0, _PADDED_LETTERS - LETTERS)
            after = torch.nn.functional.pad(prepared.W_out.weight.T, padding)
            after_bias = torch.nn.functional.pad(prepared.W_out.bias, padding)
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


@triton.jit
def _gelu(x):
    # The normal distribution by one tanh instruction. The odd polynomial has an error of 2.5e-5;
    # the instruction is exact to 11 bits, like the half precision numbers that it is stored in.
    # Beyond the limit tanh is 1; there the polynomial would decrease again.
    square = tl.minimum(x * x, 30.0)
    inner = x * (0.797507885 + square * (0.0370056454 - square * 0.000351516821))
    tanh = tl.inline_asm_elementwise(
        "tanh.approx.f32 $0, $1;", "=f,f", [inner], dtype=tl.float32, is_pure=True, pack=1
    )
    return 0.5 * x + 0.5 * x * tanh


@triton.jit
def _messages(
    heard, edges, own, around, steps, counter, member, members, batch, w2, b2, summed, node,
    rows, neighbours,
    H: tl.constexpr, K: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """summed[b] = sum over k of gelu(W2 gelu(heard[b, around[r, k]] + edges[r, k] + own) + b2)."""
    k = tl.arange(0, K)
    h = tl.arange(0, H)
    used = k < neighbours
    weight = tl.load(w2 + h[:, None] * H + h[None, :])  # loaded once for all rows
    bias = tl.load(b2 + h)
    residues = steps + (tl.load(counter) * members + member) * batch
    for b in range(tl.program_id(0), batch, tl.num_programs(0)):
        residue = tl.load(residues + b)
        edge = residue * neighbours + k
        start = b.to(tl.int64) * rows  # the first row of this sequence in `heard`
        j = start + tl.load(around + edge, mask=used, other=0)
        there = tl.load(heard + j[:, None] * H + h[None, :], mask=used[:, None], other=0.0)
        along = tl.load(edges + edge[:, None] * H + h[None, :], mask=used[:, None], other=0.0)
        mine = tl.load(own + (residue if FIRST else b) * H + h)
        x = there.to(tl.float32) + along.to(tl.float32) + mine[None, :]
        y = _gelu(tl.dot(_gelu(x).to(tl.float16), weight) + bias[None, :])
        tl.store(summed + b * H + h, tl.sum(tl.where(used[:, None], y, 0.0), axis=0))
        if not FIRST:  # after the messages: a residue is its own neighbour, as undecoded
            tl.store(heard + (start + residue) * H + h, tl.load(node + b * H + h))


@triton.jit
def _norm(x, norms, h, H: tl.constexpr):
    centred = x - tl.sum(x, axis=1)[:, None] / H
    variance = tl.sum(centred * centred, axis=1) / H
    scaled = centred * tl.rsqrt(variance + 1e-5)[:, None]
    return scaled * tl.load(norms + h)[None, :] + tl.load(norms + H + h)[None, :]


@triton.jit
def _update(
    old, nodes, summed, steps, counter, member, members, batch,
    w3, b3, w_in, b_in, w_out, b_out, norms, after, after_bias, result, node,
    H: tl.constexpr, ROWS: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr,
    LOGITS: tl.constexpr,
):  # fmt: skip
    """Apply W3, norm, feed-forward and norm, then the products of the next layer or the output."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    h = tl.arange(0, H)
    valid = (b < batch)[:, None]
    at = b[:, None] * H + h[None, :]
    square = h[:, None] * H + h[None, :]
    s = tl.load(summed + at, mask=valid, other=0.0).to(tl.float16)
    source = b
    if FIRST:
        residues = steps + (tl.load(counter) * members + member) * batch
        source = tl.load(residues + b, mask=b < batch, other=0)
    x = tl.load(old + source[:, None] * H + h[None, :], mask=valid, other=0.0)
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


@triton.jit
def _choose(
    logits, steps, counter, uniforms, bias, marks, strength, step_bias,
    letters0, letters1, letters2, heard0, heard1, heard2, sequences, log_p,
    batch, rows, temperature,
    H: tl.constexpr, G: tl.constexpr, LETTERS: tl.constexpr, LOGITS: tl.constexpr,
    IS_MARKED: tl.constexpr, HAS_STEP_BIAS: tl.constexpr,
):  # fmt: skip
    """Average the biased logits of a group, draw its letter, and store it for every member."""
    b = tl.program_id(0)
    c = tl.arange(0, LOGITS)
    h = tl.arange(0, H)
    is_letter = c < LETTERS
    step = tl.load(counter)
    mean = tl.zeros((LOGITS,), dtype=tl.float32)
    count = 0.0
    for g in tl.static_range(G):
        residue = tl.load(steps + (step * G + g) * batch + b)
        value = tl.load(logits + (g * batch + b) * LOGITS + c)
        value += tl.load(bias + residue * LETTERS + c, mask=is_letter, other=float("-inf"))
        if IS_MARKED:  # the bits of one number are the promoted letters of a residue
            promoted = (tl.load(marks + b.to(tl.int64) * rows + residue) >> c) & 1
            value += promoted.to(tl.float32) * tl.load(strength + b)
        if HAS_STEP_BIAS:
            at = (g * batch + b) * LETTERS + c
            value += tl.load(step_bias + at, mask=is_letter, other=0.0)
        is_member = residue != rows - 1  # the last row is padding
        mean += tl.where(is_member, value, 0.0)
        count += tl.where(is_member, 1.0, 0.0)
    scaled = tl.where(is_letter, mean / count / temperature, float("-inf"))
    weight = tl.exp(scaled - tl.max(scaled, axis=0))
    cumulative = tl.cumsum(weight, axis=0)
    threshold = tl.load(uniforms + step * batch + b) * tl.max(cumulative, axis=0)
    letter = tl.sum(tl.where(is_letter & (cumulative <= threshold), 1, 0), axis=0)
    for g in tl.static_range(G):
        residue = tl.load(steps + (step * G + g) * batch + b)
        raw = tl.load(logits + (g * batch + b) * LOGITS + c)
        raw = tl.where(is_letter, raw, float("-inf"))
        highest = tl.max(raw, axis=0)
        norm = highest + tl.log(tl.sum(tl.exp(raw - highest), axis=0))
        chosen = tl.sum(tl.where(c == letter, raw, 0.0), axis=0)
        at = b.to(tl.int64) * rows + residue
        tl.store(log_p + at, chosen - norm)
        tl.store(sequences + at, letter.to(tl.int64))
        here, of_letter = at * H + h, letter * H + h
        tl.store(heard0 + here, tl.load(heard0 + here) + tl.load(letters0 + of_letter))
        tl.store(heard1 + here, tl.load(heard1 + here) + tl.load(letters1 + of_letter))
        tl.store(heard2 + here, tl.load(heard2 + here) + tl.load(letters2 + of_letter))
