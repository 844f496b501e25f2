"""Sample sequences from ProteinMPNN: a batch on one backbone, each in an order of its own.

Residues that are tied together form a group: they are decoded one after the other, their logits
are averaged, and all of them get the same letter. A residue without ties is a group of one.
Residues that are not designed are known from the start; they are decoded once for the whole batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.core.secret import Secret
from patternmark.errors import PatternmarkError
from patternmark.models.cpu import CpuStep, small_operations
from patternmark.models.mpnn import Prepared
from patternmark.models.state import State, Task

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Sampled:
    """Sequences with the model's own log-probability of every letter, without bias."""

    sequences: Tensor  # [B, L]
    log_p: Tensor  # [B, L]


class Following(Protocol):
    """Changes `State.step_bias` before every step, by what was decoded so far."""

    def __call__(self, state: State, step: int) -> None:
        """Write the bias of the group that is next."""

    def only(self, prepared: Prepared, rows: NDArray[np.int64]) -> Following:
        """Return the same for some of the sequences, from the first step on."""


def decoding_steps(
    groups: Sequence[Sequence[int]], seed: int, indices: Sequence[int], length: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Draw the order of the groups and the uniform numbers of each sequence of a batch.

    Both depend on seed and index alone, so a sequence comes out the same in any batch. Whoever
    knows the seed can draw them too: marked designs take `secret_steps`.
    """

    def drawn(index: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rng = np.random.default_rng([seed, index])
        return rng.permutation(len(groups)), rng.random(len(groups), dtype=np.float32)

    return _laid_out(groups, length, map(drawn, indices), len(indices))


def secret_steps(
    groups: Sequence[Sequence[int]],
    secret: Secret,
    label: str,
    indices: Sequence[int],
    length: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Draw the same from a secret: nobody without it can draw them again.

    Who could, and has model and backbone, would learn from each letter what its key promotes.
    """
    count = len(groups)

    def drawn(index: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        words = secret.octets(f"sampler/{label}/{index}", 8 * count).view("<u4")
        order = np.argsort(words[:count], kind="stable")
        upper = words[count:] >> 8  # a float32 in [0, 1) has 24 bits
        return order, upper.astype(np.float32) * np.float32(2.0**-24)

    return _laid_out(groups, length, map(drawn, indices), len(indices))


def _laid_out(
    groups: Sequence[Sequence[int]],
    length: int,
    drawn: Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]],
    batch: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return groups in their orders [B, groups, widest], and uniform numbers [B, groups]."""
    orders = np.empty((batch, len(groups)), dtype=np.int64)
    uniforms = np.empty((batch, len(groups)), dtype=np.float32)
    for row, (order, numbers) in enumerate(drawn):
        orders[row], uniforms[row] = order, numbers
    return padded_groups(groups, length)[orders], uniforms


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
    before_step: Following | None = None,
) -> Sampled:
    """Draw letters for every sequence; `progress` hears how many groups are done.

    Half precision on a GPU may overflow in a sequence now and then. Such a sequence is drawn again
    on the CPU from the same numbers, with a warning; the others stay as they are.
    """
    sampled = _sample(prepared, task, progress, before_step)
    failed = np.flatnonzero(~_is_finite(sampled))
    if not len(failed):
        return sampled
    slower = prepared.on_cpu()
    again = None if before_step is None else before_step.only(slower, failed)
    mended = _sample(slower, task.only(failed), lambda done: None, again)
    if not _is_finite(mended).all():
        raise PatternmarkError(
            f"{task.name}: the network's numbers overflowed in single precision too while it "
            "designed, so its letters mean nothing: look at the coordinates and at the weights"
        )
    _log.warning(
        "%s: the network's numbers overflowed in %d of %d sequences, which were sampled again in "
        "single precision on the CPU",
        task.name, len(failed), len(task.steps),
    )  # fmt: skip
    rows = torch.tensor(failed, device=sampled.log_p.device)
    return Sampled(
        sampled.sequences.index_copy(0, rows, mended.sequences.to(rows.device)),
        sampled.log_p.index_copy(0, rows, mended.log_p.to(rows.device)),
    )


def _is_finite(sampled: Sampled) -> NDArray[np.bool_]:
    """Return for each sequence whether all its numbers are numbers: [B]."""
    return np.asarray(sampled.log_p.isfinite().all(dim=1).cpu().numpy())


def _sample(
    prepared: Prepared,
    task: Task,
    progress: Callable[[int], None],
    before_step: Following | None,
) -> Sampled:
    state = State.start(prepared, task)
    with small_operations(len(task.steps)):
        advance = _step_for(prepared, state)
        for number in range(task.steps.shape[1]):
            if before_step is not None:
                before_step(state, number)
            advance()
            progress(number + 1)
    return Sampled(state.sequences[:, :-1], state.log_p[:, :-1])


def _step_for(prepared: Prepared, state: State) -> Callable[[], None]:
    if not state.sequences.is_cuda:
        return CpuStep(prepared, state)
    from patternmark.models.gpu import GpuStep  # noqa: PLC0415  # Triton comes with CUDA builds

    return GpuStep(prepared, state).captured()
