"""Random checkpoints laid out as Mask-Predict and fairseq write theirs, and plain forward passes.

The passes know nothing of the package: functions of a state dict, one sentence at a time, as
section by section the papers' code has it. No padding is needed for one sentence.
"""

from __future__ import annotations

import argparse
import math
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]
NUM_WORDS = 40
MASK_PREDICT_VOCAB, FAIRSEQ_VOCAB = NUM_WORDS + 5, NUM_WORDS + 4
WIDTH, HIDDEN, HEADS, LAYERS, LENGTHS, POSITIONS = 16, 24, 2, 2, 30, 64
BEGIN, PAD, END, UNKNOWN, MASK = range(5)  # <mask> in Mask-Predict alone
WORDS = [f"w{i}{'@@' if i % 4 == 0 else ''}" for i in range(NUM_WORDS - 2)]


def write_dictionary(folder: Path) -> Path:
    """Write a dictionary for each of two languages, the same, as fairseq does."""
    lines = [f"{word} {100_000 - i}" for i, word in enumerate(WORDS)]
    lines += ["madeupword0000 0", "madeupword0001 0"]
    for name in ("dict.ro.txt", "dict.en.txt"):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "dict.en.txt"


class _Maker:
    """Random tensors, large enough that a network's outputs vary."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.state: State = {}

    def add(self, name: str, *shape: int, scale: float = 0.0, mean: float = 0.0) -> None:
        scale = scale or shape[-1] ** -0.5
        noise = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        self.state[name] = mean + scale * noise

    def linear(self, name: str, out: int, into: int) -> None:
        self.add(f"{name}.weight", out, into)
        self.add(f"{name}.bias", out, scale=0.1)

    def norm(self, name: str, weight: str, bias: str) -> None:
        self.add(f"{name}.{weight}", WIDTH, scale=0.1, mean=1.0)
        self.add(f"{name}.{bias}", WIDTH, scale=0.1)

    def suppress(self, ids: list[int], last_bias: str) -> None:
        """Make symbols as unlikely as training does: the last norm pushes against their rows."""
        direction = torch.zeros(WIDTH, dtype=torch.float64)
        direction[0] = 1.0
        self.state[last_bias][0] = 45.0
        for table in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
            self.state[table][:, 0] = 0.0
            self.state[table][[*ids, -2, -1]] = -direction  # and the filling


def mask_predict_state(seed: int = 0) -> State:
    """Return a `bert_transformer_seq2seq`: in_proj matrices, gamma and beta, a table of lengths."""
    make = _Maker(seed)
    make.add("encoder.embed_tokens.weight", MASK_PREDICT_VOCAB, WIDTH, scale=0.6)
    make.add("encoder.embed_positions.weight", POSITIONS + 2, WIDTH, scale=1.5)
    make.add("encoder.embed_lengths.weight", LENGTHS, WIDTH)
    make.state["encoder.version"] = torch.tensor([2.0])
    for layer in range(LAYERS):
        begin = f"encoder.layers.{layer}"
        _joint_attention(make, f"{begin}.self_attn")
        make.linear(f"{begin}.fc1", HIDDEN, WIDTH)
        make.linear(f"{begin}.fc2", WIDTH, HIDDEN)
        make.norm(f"{begin}.layer_norms.0", "gamma", "beta")
        make.norm(f"{begin}.layer_norms.1", "gamma", "beta")
    make.state["decoder.embed_tokens.weight"] = make.state["encoder.embed_tokens.weight"]
    make.add("decoder.embed_positions.weight", POSITIONS + 2, WIDTH, scale=1.5)
    make.state["decoder.version"] = torch.tensor([2.0])
    for layer in range(LAYERS):
        begin = f"decoder.layers.{layer}"
        for part in ("self_attn", "encoder_attn"):
            _joint_attention(make, f"{begin}.{part}")
            make.norm(f"{begin}.{part}_layer_norm", "gamma", "beta")
        make.linear(f"{begin}.fc1", HIDDEN, WIDTH)
        make.linear(f"{begin}.fc2", WIDTH, HIDDEN)
        make.norm(f"{begin}.final_layer_norm", "gamma", "beta")
    make.suppress([BEGIN, PAD, MASK], f"decoder.layers.{LAYERS - 1}.final_layer_norm.beta")
    return make.state


def _joint_attention(make: _Maker, name: str) -> None:
    make.add(f"{name}.in_proj_weight", 3 * WIDTH, WIDTH)
    make.add(f"{name}.in_proj_bias", 3 * WIDTH, scale=0.1)
    make.linear(f"{name}.out_proj", WIDTH, WIDTH)


def fairseq_state(seed: int = 0, *, learned: bool = True, norm_first: bool = False) -> State:
    """Return a `cmlm_transformer`: q, k and v apart, lengths in the decoder, a tied output."""
    make = _Maker(seed)
    make.state["encoder.version"] = torch.tensor([3.0])
    make.add("encoder.embed_tokens.weight", FAIRSEQ_VOCAB, WIDTH, scale=0.6)
    make.state["decoder.version"] = torch.tensor([3.0])
    make.state["decoder.embed_tokens.weight"] = make.state["encoder.embed_tokens.weight"]
    for side in ("encoder", "decoder"):
        if learned:
            make.add(f"{side}.embed_positions.weight", POSITIONS + 2, WIDTH, scale=1.5)
        else:
            make.state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for layer in range(LAYERS):
            begin = f"{side}.layers.{layer}"
            for part in ["self_attn"] + ["encoder_attn"] * (side == "decoder"):
                for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
                    make.linear(f"{begin}.{part}.{projection}", WIDTH, WIDTH)
                make.norm(f"{begin}.{part}_layer_norm", "weight", "bias")
            make.linear(f"{begin}.fc1", HIDDEN, WIDTH)
            make.linear(f"{begin}.fc2", WIDTH, HIDDEN)
            make.norm(f"{begin}.final_layer_norm", "weight", "bias")
        if norm_first:
            make.norm(f"{side}.layer_norm", "weight", "bias")
    last = f"layers.{LAYERS - 1}.final_layer_norm" if not norm_first else "layer_norm"
    make.suppress([BEGIN, PAD, END, UNKNOWN], f"decoder.{last}.bias")
    make.state["decoder.output_projection.weight"] = make.state["decoder.embed_tokens.weight"]
    make.add("decoder.embed_length.weight", 256, WIDTH)
    return make.state


def write_checkpoint(
    file: Path,
    state: State,
    *,
    dtype: torch.dtype = torch.float32,
    old_format: bool = False,
    new_cfg: bool = False,
    **arguments: Any,
) -> Path:
    """Write a state dict with all that fairseq puts around it: arguments, meters, an optimizer."""
    weights = OrderedDict((name, tensor.to(dtype)) for name, tensor in state.items())
    for name in ("decoder.embed_tokens.weight", "decoder.output_projection.weight"):
        if name in weights and torch.equal(state[name], state["encoder.embed_tokens.weight"]):
            weights[name] = weights["encoder.embed_tokens.weight"]  # one storage, as in the model
    given = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS} | arguments
    namespace = argparse.Namespace(**given)
    with _meters() as meter:
        content = {
            "args": None if new_cfg else namespace,
            "cfg": {"model": namespace, "task": {"_name": "translation_lev"}} if new_cfg else None,
            "model": weights,
            "optimizer_history": [{"optimizer_name": "FairseqAdam", "num_updates": 7}],
            "extra_state": {"train_meters": OrderedDict(train_loss=meter), "best": 4.5},
            "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(3)}}},
        }
        torch.save(content, file, _use_new_zipfile_serialization=not old_format)
    return file


@contextmanager
def _meters() -> Iterator[Any]:
    """Give an object whose class is of fairseq, which is not there when the file is read."""
    package, module = types.ModuleType("fairseq"), types.ModuleType("fairseq.meters")
    kind = type("AverageMeter", (), {"__module__": "fairseq.meters"})
    module.AverageMeter = kind  # type: ignore[attr-defined]
    sys.modules |= {"fairseq": package, "fairseq.meters": module}
    try:
        meter: Any = kind()
        meter.avg, meter.count = 4.5, 12
        yield meter
    finally:
        del sys.modules["fairseq"], sys.modules["fairseq.meters"]


@dataclass(frozen=True)
class Encoded:
    """One encoded sentence: states [S, D] and logits of the lengths [classes]."""

    states: Tensor
    lengths: Tensor


class PlainMaskPredict:
    """The forward pass of `bert_transformer_seq2seq`."""

    def __init__(self, state: State) -> None:
        self.state = state

    def encode(self, ids: list[int]) -> Encoded:
        s = self.state
        places = torch.arange(2, 2 + len(ids))
        x = s["encoder.embed_tokens.weight"][ids] + s["encoder.embed_positions.weight"][places]
        x = torch.cat([s["encoder.embed_lengths.weight"][:1], x])
        for layer in range(LAYERS):
            begin = f"encoder.layers.{layer}"
            x = self._norm(f"{begin}.layer_norms.0", x + self._attend(f"{begin}.self_attn", x, x))
            x = self._norm(f"{begin}.layer_norms.1", x + self._feed(begin, x))
        lengths = s["encoder.embed_lengths.weight"] @ x[0]
        lengths[0] = -math.inf
        return Encoded(x[1:], lengths)

    def logits(self, tokens: list[int], encoded: Encoded) -> Tensor:
        s = self.state
        places = torch.arange(2, 2 + len(tokens))
        x = s["decoder.embed_tokens.weight"][tokens] + s["decoder.embed_positions.weight"][places]
        for layer in range(LAYERS):
            begin = f"decoder.layers.{layer}"
            found = x + self._attend(f"{begin}.self_attn", x, x)
            x = self._norm(f"{begin}.self_attn_layer_norm", found)
            found = x + self._attend(f"{begin}.encoder_attn", x, encoded.states)
            x = self._norm(f"{begin}.encoder_attn_layer_norm", found)
            x = self._norm(f"{begin}.final_layer_norm", x + self._feed(begin, x))
        return x @ s["decoder.embed_tokens.weight"].T

    def _attend(self, name: str, x: Tensor, memory: Tensor) -> Tensor:
        weight = self.state[f"{name}.in_proj_weight"]
        bias = self.state[f"{name}.in_proj_bias"]
        parts = [slice(i * WIDTH, (i + 1) * WIDTH) for i in range(3)]
        query = x @ weight[parts[0]].T + bias[parts[0]]
        key, value = (memory @ weight[part].T + bias[part] for part in parts[1:])
        return _linear(self.state, f"{name}.out_proj", _heads(query, key, value))

    def _feed(self, begin: str, x: Tensor) -> Tensor:
        up = _linear(self.state, f"{begin}.fc1", x)
        up = up * 0.5 * (1.0 + torch.erf(up / math.sqrt(2.0)))
        return _linear(self.state, f"{begin}.fc2", up)

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return _norm(x, self.state[f"{name}.gamma"], self.state[f"{name}.beta"], 1e-12)


class PlainFairseq:
    """The forward pass of `cmlm_transformer`."""

    def __init__(self, state: State, *, norm_first: bool = False) -> None:
        self.state, self.norm_first = state, norm_first

    def encode(self, ids: list[int]) -> Encoded:
        x = self._embed("encoder", ids)
        for layer in range(LAYERS):
            begin = f"encoder.layers.{layer}"
            x = self._around(f"{begin}.self_attn_layer_norm", x, self._itself(begin))
            x = self._around(f"{begin}.final_layer_norm", x, self._feed(begin))
        x = self._last_norm("encoder", x)
        return Encoded(x, self.state["decoder.embed_length.weight"] @ x.mean(dim=0))

    def logits(self, tokens: list[int], encoded: Encoded) -> Tensor:
        x = self._embed("decoder", tokens)
        for layer in range(LAYERS):
            begin = f"decoder.layers.{layer}"
            x = self._around(f"{begin}.self_attn_layer_norm", x, self._itself(begin))
            x = self._around(
                f"{begin}.encoder_attn_layer_norm",
                x,
                lambda y, name=f"{begin}.encoder_attn": self._attend(name, y, encoded.states),
            )
            x = self._around(f"{begin}.final_layer_norm", x, self._feed(begin))
        return self._last_norm("decoder", x) @ self.state["decoder.output_projection.weight"].T

    def _embed(self, side: str, ids: list[int]) -> Tensor:
        x = math.sqrt(WIDTH) * self.state[f"{side}.embed_tokens.weight"][ids]
        places = torch.arange(2, 2 + len(ids))  # padding is 1
        learned = self.state.get(f"{side}.embed_positions.weight")
        if learned is not None:
            return x + learned[places]
        half = WIDTH // 2
        for place, row in zip(places.tolist(), x, strict=True):
            for i in range(half):
                angle = place / 10_000 ** (i / (half - 1))
                row[i] += math.sin(angle)
                row[half + i] += math.cos(angle)
        return x

    def _itself(self, begin: str) -> Callable[[Tensor], Tensor]:
        return lambda y: self._attend(f"{begin}.self_attn", y, y)

    def _attend(self, name: str, x: Tensor, memory: Tensor) -> Tensor:
        query = _linear(self.state, f"{name}.q_proj", x)
        key = _linear(self.state, f"{name}.k_proj", memory)
        value = _linear(self.state, f"{name}.v_proj", memory)
        return _linear(self.state, f"{name}.out_proj", _heads(query, key, value))

    def _feed(self, begin: str) -> Callable[[Tensor], Tensor]:
        return lambda y: _linear(
            self.state, f"{begin}.fc2", _linear(self.state, f"{begin}.fc1", y).clamp(min=0.0)
        )

    def _around(self, norm: str, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        weight, bias = self.state[f"{norm}.weight"], self.state[f"{norm}.bias"]
        if self.norm_first:
            return x + part(_norm(x, weight, bias, 1e-5))
        return _norm(x + part(x), weight, bias, 1e-5)

    def _last_norm(self, side: str, x: Tensor) -> Tensor:
        if not self.norm_first:
            return x
        name = f"{side}.layer_norm"
        return _norm(x, self.state[f"{name}.weight"], self.state[f"{name}.bias"], 1e-5)


def _linear(state: State, name: str, x: Tensor) -> Tensor:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def _norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean(dim=-1, keepdim=True)
    return weight * centred / torch.sqrt(variance + epsilon) + bias


def _heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend head by head: [L, D], [K, D], [K, D] -> [L, D]."""
    size = WIDTH // HEADS
    found = []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        scores = (query[:, part] * size**-0.5) @ key[:, part].T
        found.append(torch.softmax(scores, dim=-1) @ value[:, part])
    return torch.cat(found, dim=1)
