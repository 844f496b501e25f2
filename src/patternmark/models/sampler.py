"""Sample a batch of sequences from ProteinMPNN on one backbone, each in its own random order.

Residues that are tied together form a group: they are decoded one after the other, their logits
are averaged, and all of them get the same letter. A residue without ties is a group of one.
Residues that are not designed are known from the start, and decoded once for the whole batch.
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
    """Sequences with the model's log-probability of every letter, without bias."""

    sequences: Tensor  # [B, L]
    log_p: Tensor  # [B, L]


class Following(Protocol):
    """A mark that writes `State.step_bias` before every step, given what was decoded so far."""

    def __call__(self, state: State, step: int) -> None:
        """Write the bias of the next group."""

    def only(self, prepared: Prepared, rows: NDArray[np.int64]) -> Following:
        """Return this mark for some of the sequences, at the first step."""


def decoding_steps(
    groups: Sequence[Sequence[int]], seed: int, indices: Sequence[int], length: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Draw the order of the groups and the uniform numbers of each sequence of a batch.

    Both depend only on seed and index, so a sequence is the same in any batch. Everybody who knows
    the seed can draw them too, so marked designs use `secret_steps` instead.
    """

    def draw_one(index: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rng = np.random.default_rng([seed, index])
        return rng.permutation(len(groups)), rng.random(len(groups), dtype=np.float32)

    return _order_groups(groups, length, map(draw_one, indices), len(indices))


def secret_steps(
    groups: Sequence[Sequence[int]],
    secret: Secret,
    label: str,
    indices: Sequence[int],
    length: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Derive the order of the groups and the uniform numbers of each sequence from a secret.

    With the numbers, the model and the backbone, one could learn from each letter what its position
    key promotes. So only the secret gives the numbers.
    """
    count = len(groups)

    def draw_one(index: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        words = secret.octets(f"sampler/{label}/{index}", 8 * count).view("<u4")
        order = np.argsort(words[:count], kind="stable")
        upper = words[count:] >> 8  # a float32 in [0, 1) has 24 bits
        return order, upper.astype(np.float32) * np.float32(2.0**-24)

    return _order_groups(groups, length, map(draw_one, indices), len(indices))


def _order_groups(
    groups: Sequence[Sequence[int]],
    length: int,
    drawn: Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]],
    batch: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return groups in the drawn orders [B, groups, widest], and uniform numbers [B, groups]."""
    orders = np.empty((batch, len(groups)), dtype=np.int64)
    uniforms = np.empty((batch, len(groups)), dtype=np.float32)
    for row, (order, numbers) in enumerate(drawn):
        orders[row], uniforms[row] = order, numbers
    return padded_groups(groups, length)[orders], uniforms


def padded_groups(groups: Sequence[Sequence[int]], length: int) -> NDArray[np.int64]:
    """Return groups of residues as a table [groups, widest], padded with `length`."""
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
    """Draw letters for every sequence; `progress` is called with the number of decoded groups.

    Half precision on a GPU may overflow in rare sequences. Such a sequence is drawn again on the
    CPU from the same random numbers, with a warning. The other sequences are not changed.
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
            f"{task.name}: the network's numbers overflowed even in single precision, so the "
            "designed letters are meaningless: check the coordinates and the weights"
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
    """Return for each sequence whether all its log-probabilities are finite: [B]."""
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

    return GpuStep(prepared, state).capture()
