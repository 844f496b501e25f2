"""Sample sequences from ProteinMPNN: a batch on one backbone, each in an order of its own.

Residues that are tied together form a group: they are decoded one after the other, their logits
are averaged, and all of them get the same letter. A residue without ties is a group of one.
Residues that are not designed are known from the start; they are decoded once for the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.errors import PatternmarkError
from patternmark.models.cpu import CpuStep, small_operations
from patternmark.models.mpnn import Prepared
from patternmark.models.state import State, Task


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
    padded = padded_groups(groups, length)
    steps = np.empty((len(indices), *padded.shape), dtype=np.int64)
    uniforms = np.empty((len(indices), len(groups)), dtype=np.float32)
    for row, index in enumerate(indices):
        rng = np.random.default_rng([seed, index])
        steps[row] = padded[rng.permutation(len(groups))]
        uniforms[row] = rng.random(len(groups), dtype=np.float32)
    return steps, uniforms


def padded_groups(groups: Sequence[Sequence[int]], length: int) -> NDArray[np.int64]:
    """Lay groups of residues out as a table: [groups, widest], filled up with `length`."""
    widest = max(map(len, groups), default=1)
    padded = np.full((len(groups), widest), length, dtype=np.int64)
    for row, group in enumerate(groups):
        padded[row, : len(group)] = group
    return padded


@torch.inference_mode()
def sample(
    prepared: Prepared,
    task: Task,
    progress: Callable[[int], None] = lambda done: None,
    before_step: Callable[[State, int], None] | None = None,
) -> Sampled:
    """Draw letters for every sequence; `progress` hears how many groups are done.

    `before_step` may change the bias of the group that is next, in `State.key_bias`.
    """
    state = State.start(prepared, task)
    with small_operations(len(task.steps)):
        advance = _step_for(prepared, state)
        for number in range(task.steps.shape[1]):
            if before_step is not None:
                before_step(state, number)
            advance()
            progress(number + 1)
    log_p = state.log_p[:, :-1]
    if not bool(log_p.isfinite().all()):
        raise PatternmarkError(
            "the network's numbers overflowed while it designed, so its letters mean nothing: "
            "look at the coordinates of the backbone and at the weights, or use --device cpu"
        )
    return Sampled(state.sequences[:, :-1], log_p)


def _step_for(prepared: Prepared, state: State) -> Callable[[], None]:
    if not state.sequences.is_cuda:
        return CpuStep(prepared, state)
    from patternmark.models.gpu import GpuStep  # noqa: PLC0415  # Triton comes with CUDA builds

    return GpuStep(prepared, state).captured()
