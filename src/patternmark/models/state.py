"""The task of decoding a batch, and its state between steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.core.promote import Promotion
from patternmark.errors import ParameterError
from patternmark.models.mpnn import HIDDEN, LETTERS, Prepared


@dataclass(frozen=True, eq=False)
class Task:
    """What to sample on a backbone: B sequences.

    For residue r of a sequence, bias[r] (-inf forbids a letter) and the promotion of the sequence
    are added to the logits. The sums are then divided by the temperature.
    """

    # [L] letters of the residues that are not designed, or [B, L] if they differ by sequence
    native: NDArray[np.int64]
    steps: NDArray[np.int64]  # [B, groups, G] designed residues in order, padded with L
    uniforms: NDArray[np.float32]  # [B, groups] in [0, 1): one for each letter drawn
    bias: NDArray[np.float64]  # [L, 21]
    temperature: float
    # Of the sequences in turn, each of one [L] or of several [b, L]; without any, no mark.
    promotions: tuple[Promotion[NDArray[Any]], ...] = ()
    has_step_bias: bool = False  # whether `State.step_bias` is written before every step
    name: str = "the backbone"  # for messages

    def only(self, rows: NDArray[np.int64]) -> Task:
        """Return the task of some of the sequences."""
        return replace(
            self,
            native=self.native if self.native.ndim == 1 else self.native[rows],
            steps=self.steps[rows],
            uniforms=self.uniforms[rows],
            promotions=tuple(self._promotion_of(row) for row in rows) if self.promotions else (),
        )

    def _promotion_of(self, row: int) -> Promotion[NDArray[Any]]:
        for promotion in self.promotions:
            sequences = len(np.atleast_2d(promotion.row_of))
            if row < sequences:
                return promotion if promotion.row_of.ndim == 1 else promotion.only(row)
            row -= sequences
        raise IndexError("fewer promotions than sequences")


@dataclass(frozen=True, eq=False)
class State:
    """All tensors that a step reads or writes. They are never moved, so a GPU can replay a step.

    Row L is padding: it fills groups that have fewer members than the largest.
    """

    steps: Tensor  # [groups, G, B] the residues to decode
    uniforms: Tensor  # [groups, B]
    counter: Tensor  # [1] the next group
    temperature: float
    neighbours: Tensor  # [L + 1, K]
    bias: Tensor  # [L + 1, 21]
    marks: Tensor | None  # [B, L + 1] int32: the promoted letters, a bit for each
    strength: Tensor  # [B] what is added to the logits of promoted letters
    step_bias: Tensor | None  # [G, B, 21] bias of the next group, for marks that depend on letters
    heard: list[Tensor]  # per layer [B * (L + 1), H] what residues contribute to their neighbours
    # The value of `heard` before the first step, per layer [R * (L + 1), H]: one for all sequences
    # (R = 1), or one for each (R = B).
    undecoded: list[Tensor]
    native: Tensor  # [R, L + 1]
    sequences: Tensor  # [B, L + 1]
    log_p: Tensor  # [B, L + 1]

    @classmethod
    def start(cls, prepared: Prepared, task: Task) -> State:
        """Create the tensors of a task on the model's device."""
        device = prepared.encoded.nodes.device
        rows = np.atleast_2d(task.native)
        copies, length = len(task.steps) // len(rows), rows.shape[1]
        native = torch.tensor(np.pad(rows, ((0, 0), (0, 1))), device=device)
        started = [
            _decode_fixed(prepared, steps, letters)
            for steps, letters in zip(task.steps[: len(rows)], native[:, :-1], strict=True)
        ]
        # Half precision takes half the memory, and has as many bits as the fast products of a GPU.
        kind = torch.float16 if device.type == "cuda" else torch.float32
        by_layer = zip(*(heard for heard, _ in started), strict=True)
        undecoded = [torch.cat([with_row(own).to(kind) for own in layer]) for layer in by_layer]
        fixed_log_p = torch.stack([with_row(log_p) for _, log_p in started])
        bias = torch.tensor(task.bias, dtype=torch.float32, device=device)
        _, members = task.steps.shape[1:]
        batch = len(task.steps)
        marks, strength, step_bias = None, np.zeros(batch, dtype=np.float32), None
        if task.promotions:
            letters, strength = _as_bits(task.promotions)
            marks = torch.tensor(np.pad(letters, ((0, 0), (0, 1))), device=device)
        if task.has_step_bias:
            step_bias = torch.zeros(members, batch, LETTERS, device=device)
        return cls(
            steps=torch.tensor(task.steps, device=device).permute(1, 2, 0).contiguous(),
            uniforms=torch.tensor(task.uniforms, device=device).T.contiguous(),
            counter=torch.zeros(1, dtype=torch.long, device=device),
            temperature=task.temperature,
            neighbours=with_row(prepared.encoded.neighbours, length),
            bias=with_row(bias),
            marks=marks,
            strength=torch.tensor(strength, device=device),
            step_bias=step_bias,
            heard=[layer.repeat(copies, 1) for layer in undecoded],
            undecoded=undecoded,
            native=native,
            sequences=native.repeat(copies, 1),
            log_p=fixed_log_p.repeat(copies, 1),
        )

    def restart(self) -> None:
        """Return to the state before the first step."""
        self.counter.zero_()
        self.sequences.copy_(self.native.expand_as(self.sequences))
        for heard, start in zip(self.heard, self.undecoded, strict=True):
            rows = start.view(len(self.native), -1, HIDDEN)
            heard.view(len(self.sequences), -1, HIDDEN).copy_(rows)


def _as_bits(
    promotions: Sequence[Promotion[NDArray[Any]]],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the promoted letters of all positions, bit i for letter i, and the strengths.

    [B, L] and [B]: a step then reads one number for each position.
    """
    bits, strengths = [], []
    for promotion in promotions:
        if promotion.promoted.shape[1] != LETTERS:
            raise ParameterError(
                f"the model writes {LETTERS} letters, and the key promotes "
                f"{promotion.promoted.shape[1]} symbols"
            )
        table = promotion.promoted @ (1 << np.arange(LETTERS, dtype=np.int32))
        bits.append(np.take(table.astype(np.int32), np.atleast_2d(promotion.row_of)))
        strengths.append(np.full(len(bits[-1]), promotion.strength, dtype=np.float32))
    return np.concatenate(bits), np.concatenate(strengths)


def _decode_fixed(
    prepared: Prepared, steps: NDArray[np.int64], native: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Decode the residues that are not designed; return what all residues contribute then.

    Also return the log-probabilities of the native letters, which are valid for those residues.
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
    """Append the padding row."""
    return torch.cat([rows, torch.full_like(rows[:1], value)])
