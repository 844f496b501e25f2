"""What decoding a batch remembers between steps, and how it begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.models.mpnn import HIDDEN, Prepared


@dataclass(frozen=True, eq=False)
class Task:
    """What to sample on a backbone: B sequences.

    To the logits of residue r of sequence b is added bias[r] + key_bias[keys[b, r]], before the
    division by the temperature; -inf forbids a letter. NO_KEY = -1 indexes key_bias's last row.
    """

    # [L] letters of the residues that are not designed, or [B, L]: of each sequence its own
    native: NDArray[np.int64]
    steps: NDArray[np.int64]  # [B, groups, G] designed residues in order, padded with L
    uniforms: NDArray[np.float32]  # [B, groups] in [0, 1): one for each letter drawn
    keys: NDArray[np.int64]  # [B, L]
    key_bias: NDArray[np.float64]  # [l + 1, 21]
    bias: NDArray[np.float64]  # [L, 21]
    temperature: float


@dataclass(frozen=True, eq=False)
class State:
    """Every tensor a step reads or writes; each keeps its place, so that a GPU can replay a step.

    Row L is nobody: it fills groups that have fewer members than the largest.
    """

    steps: Tensor  # [groups, G, B] the residues to decode
    uniforms: Tensor  # [groups, B]
    counter: Tensor  # [1] the group that is next
    temperature: float
    neighbours: Tensor  # [L + 1, K]
    bias: Tensor  # [L + 1, 21]
    key_bias: Tensor  # [l + 1, 21], that of NO_KEY first
    keys: Tensor  # [B, L + 1], from 0: NO_KEY
    heard: list[Tensor]  # per layer [B * (L + 1), H] what residues contribute to their neighbours
    # What `heard` is before the first step, per layer [R * (L + 1), H]: for all sequences at once
    # (R = 1), or for each of them (R = B).
    undecoded: list[Tensor]
    native: Tensor  # [R, L + 1]
    sequences: Tensor  # [B, L + 1]
    log_p: Tensor  # [B, L + 1]

    @classmethod
    def start(cls, prepared: Prepared, task: Task) -> State:
        """Lay out a task on the model's device."""
        device = prepared.encoded.nodes.device
        rows = np.atleast_2d(task.native)
        copies, length = len(task.steps) // len(rows), rows.shape[1]
        native = torch.tensor(np.pad(rows, ((0, 0), (0, 1))), device=device)
        started = [
            _decode_fixed(prepared, steps, letters)
            for steps, letters in zip(task.steps[: len(rows)], native[:, :-1], strict=True)
        ]
        # Half precision has the mantissa of a GPU's fast products, and half the memory.
        kind = torch.float16 if device.type == "cuda" else torch.float32
        by_layer = zip(*(heard for heard, _ in started), strict=True)
        undecoded = [torch.cat([with_row(own).to(kind) for own in layer]) for layer in by_layer]
        fixed_log_p = torch.stack([with_row(log_p) for _, log_p in started])
        bias = torch.tensor(task.bias, dtype=torch.float32, device=device)
        key_bias = torch.tensor(task.key_bias, dtype=torch.float32, device=device)
        keys = torch.tensor(task.keys, device=device) + 1
        return cls(
            steps=torch.tensor(task.steps, device=device).permute(1, 2, 0).contiguous(),
            uniforms=torch.tensor(task.uniforms, device=device).T.contiguous(),
            counter=torch.zeros(1, dtype=torch.long, device=device),
            temperature=task.temperature,
            neighbours=with_row(prepared.encoded.neighbours, length),
            bias=with_row(bias),
            key_bias=key_bias.roll(1, dims=0),
            keys=torch.cat([keys, torch.zeros_like(keys[:, :1])], dim=1),
            heard=[layer.repeat(copies, 1) for layer in undecoded],
            undecoded=undecoded,
            native=native,
            sequences=native.repeat(copies, 1),
            log_p=fixed_log_p.repeat(copies, 1),
        )

    def restart(self) -> None:
        """Forget all steps."""
        self.counter.zero_()
        self.sequences.copy_(self.native.expand_as(self.sequences))
        for heard, start in zip(self.heard, self.undecoded, strict=True):
            rows = start.view(len(self.native), -1, HIDDEN)
            heard.view(len(self.sequences), -1, HIDDEN).copy_(rows)


def _decode_fixed(
    prepared: Prepared, steps: NDArray[np.int64], native: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Return what residues contribute before the first step: those not designed are decoded.

    Also return the log-probability of every native letter, which holds for these.
    """
    is_designed = np.zeros(len(native) + 1, dtype=bool)
    is_designed[steps] = True
    fixed = torch.tensor(~is_designed[:-1], device=native.device)
    if is_designed[:-1].all():
        undecoded = [layer.undecoded for layer in prepared.layers]
        return undecoded, undecoded[0].new_zeros(len(native))
    rank = torch.where(fixed, torch.arange(len(fixed), device=native.device), len(fixed))
    nodes = prepared.decode_known(native, rank)
    heard = [
        torch.where(fixed[:, None], level @ p.node + p.letters[native], p.undecoded)
        for level, p in zip(nodes, prepared.layers, strict=False)
    ]
    log_p = torch.log_softmax(prepared.W_out(nodes[-1]), dim=-1)
    return heard, log_p.gather(1, native[:, None])[:, 0]


def with_row(rows: Tensor, value: float = 0.0) -> Tensor:
    """Append the row that is nobody."""
    return torch.cat([rows, torch.full_like(rows[:1], value)])
