"""Marks that depend on the residues that ProteinMPNN has decoded so far.

The sampler reads its array `step_bias` in every step, also in a replayed CUDA graph. The array has
a row for each sequence and each member of a group and keeps its place in memory. Before each step
these marks write the bias of the residues about to be decoded into it, without waiting for the
device.

While ProteinMPNN decodes a residue, it gives no probabilities of other residues. Schemes that need
those of an open neighbour get its probabilities with nothing decoded at all, which are computed
once for each backbone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.models.mpnn import LETTERS, Prepared
from patternmark.models.state import State, Task
from patternmark_lab.schemes import EMPTY, OUTSIDE, Canvas, Marks, Scheme, Stack
from patternmark_lab.schemes.rules import GAP


class OnlineMarks:
    """The marks of a batch in which each sequence has its own scheme or none.

    Sample `self.task` with `before_step=self`.
    """

    def __init__(
        self,
        prepared: Prepared,
        task: Task,
        schemes: Sequence[Scheme | None],
        chain_index: NDArray[np.int64],
        seed: int | str = 0,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Take a task without marks. Sequence i has number i of the seed, or `numbers[i]`."""
        batch = len(task.steps)
        length = len(task.native)
        device = prepared.encoded.nodes.device
        self._like = torch.zeros(0, device=device)
        # On a canvas there are gaps between chains. Residue L is padding and has the last place.
        place_of = np.append(np.arange(length) + GAP * chain_index, 0)
        width = int(place_of.max()) + GAP
        place_of[-1] = width
        self._place_of = torch.tensor(place_of, device=device)
        self._tokens = torch.tensor(_initial_canvas(task, place_of, width + 1), device=device)
        self._previous = torch.full((batch,), EMPTY, device=device)
        self.task = replace(task, has_step_bias=True)
        self._schemes, self._chain_index, self._seed = schemes, chain_index, seed
        self._numbers = list(range(batch)) if numbers is None else list(numbers)
        self._parts = self._divide(schemes, width, seed)
        most = max((marks.likely for marks, _ in self._parts), default=0)
        self._likeliest: tuple[Tensor, Tensor] | None = None
        if most:
            top = unconditional_probabilities(prepared, task).topk(min(most, LETTERS))
            of_place = torch.zeros(width + 1, dtype=torch.long, device=device)
            of_place[self._place_of[:-1]] = torch.arange(length, device=device)
            self._likeliest = top.indices[of_place], top.values[of_place]  # [places, k]

    def only(self, prepared: Prepared, rows: NDArray[np.int64]) -> OnlineMarks:
        """Return the marks of some of the sequences, ready for the first step."""
        schemes = [self._schemes[row] for row in rows]
        numbers = [self._numbers[row] for row in rows]
        task = self.task.only(rows)
        return OnlineMarks(prepared, task, schemes, self._chain_index, self._seed, numbers)

    def _divide(
        self, schemes: Sequence[Scheme | None], width: int, seed: int | str
    ) -> list[tuple[Marks, Tensor]]:
        """Group the sequences by rule; return the marks and the row numbers of each group."""
        by_rule: dict[object, list[int]] = {}
        for row, scheme in enumerate(schemes):
            if scheme is not None:
                by_rule.setdefault(scheme.rule, []).append(row)
        batch = len(schemes)
        parts = []
        for rows in by_rule.values():
            own = [scheme for row in rows if (scheme := schemes[row]) is not None]
            different = list({id(scheme): scheme for scheme in own}.values())
            number = {id(scheme): i for i, scheme in enumerate(different)}
            which, keys = np.zeros(batch, dtype=np.int64), np.full((batch, width + 1), -1)
            which[rows] = [number[id(scheme)] for scheme in own]
            for row, scheme in zip(rows, own, strict=True):
                drawn = scheme.keys(width, seed, [self._numbers[row]])
                if drawn is not None:
                    keys[row, :width] = drawn[0]
            marks = Stack(different, self._like).marks(which.tolist(), keys)
            parts.append((marks, torch.tensor(rows, device=self._like.device)))
        return parts

    def __call__(self, state: State, step: int) -> None:
        """Write the bias of the residues about to be decoded."""
        if state.step_bias is None:
            raise TypeError("sample the task of these marks: another task has no step_bias")
        if step:
            decoded = state.steps[step - 1].T  # [B, G]
            letters = state.sequences.gather(1, decoded)
            self._tokens.scatter_(1, self._place_of[decoded], letters)
            self._tokens[:, -1] = OUTSIDE  # padding was written here
            self._previous = letters[:, 0]
        for member, residues in enumerate(state.steps[step].unbind()):
            places = self._place_of[residues]
            for marks, rows in self._parts:
                canvas = Canvas(self._tokens, rows, places[rows], self._previous, self._likely)
                state.step_bias[member, rows] = marks.bias(canvas).float()

    def _likely(self, rows: Tensor, places: Tensor, count: int) -> tuple[Tensor, Tensor]:
        del rows  # all sequences have one backbone
        if self._likeliest is None:
            raise TypeError("no scheme of this batch needs likely tokens of open neighbours")
        ids, p = self._likeliest
        return ids[places, :count], p[places, :count]


def _initial_canvas(task: Task, place_of: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the canvas before the first step: [B, width]."""
    tokens = np.full((len(task.steps), width), OUTSIDE)
    tokens[:, place_of[:-1]] = task.native
    for row, steps in zip(tokens, task.steps, strict=True):
        row[place_of[steps.ravel()]] = EMPTY
    tokens[:, place_of[-1]] = OUTSIDE
    return tokens


def unconditional_probabilities(prepared: Prepared, task: Task) -> Tensor:
    """Return the probabilities of letters when nothing is decoded yet: [L, 21]."""
    device = prepared.encoded.nodes.device
    native = torch.tensor(task.native, device=device)
    logits = prepared.logits(native[None], torch.zeros_like(native)[None])[0]
    bias = torch.tensor(task.bias, dtype=logits.dtype, device=device)
    return torch.softmax((logits + bias) / task.temperature, dim=-1)
