"""An attacker who has the design model and the backbone, but not the key (needs torch).

The model's probabilities say how much a residue reveals. If the model leaves no choice, a letter
reveals nothing about its coin; if several letters are about equally likely, it reveals nearly
everything. The attacker does not know the order and the random numbers of a design, which come from
the secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from patternmark.attacks.forge import Knowledge
from patternmark.attacks.seen import Seen
from patternmark.core.alphabet import PROTEIN, UNREAD
from patternmark.core.profile import Profile
from patternmark.designing.expected import expected_rates
from patternmark.designing.plan import DesignPlan
from patternmark.designing.run import random_ranks
from patternmark.models.mpnn import Prepared
from patternmark.models.sampler import sample
from patternmark.models.state import State
from patternmark.statistics.expected_rates import level_of
from patternmark_lab.generation.batch import designs_of, unmarked_task

_ORDERS = 8  # decoding orders that are averaged


def seen_on(
    prepared: Prepared,
    plan: DesignPlan,
    sequence: NDArray[np.int64],
    profile: Profile,
    *,
    temperature: float,
    orders: int = _ORDERS,
) -> Seen:
    """Weigh the first designed chain of a design [L] by the model's probabilities of residues."""
    rates = expected_rates(
        prepared, plan, sequence, profile, orders=orders, temperature=temperature
    )
    rows = plan.backbone.chain(plan.chains[0])
    symbols = np.where(plan.designed, sequence, UNREAD)
    return Seen.of(symbols[rows], rates[level_of(profile.delta), rows])


class Belief(NamedTuple):
    """The letters that a forger promotes in one sequence, and how strongly."""

    knowledge: Knowledge
    strength: float


class _OwnBias:
    """Adds a separate bias to the logits of every sequence of a batch."""

    def __init__(self, bias: NDArray[np.float64]) -> None:
        self._bias = bias  # [B, L, V]
        padding = np.zeros_like(bias[:, :1])  # fills groups that have fewer members
        self._rows = torch.tensor(np.concatenate([bias, padding], axis=1), dtype=torch.float32)

    def __call__(self, state: State, step: int) -> None:
        """Write the bias of the residues about to be decoded."""
        if state.step_bias is None:
            raise TypeError("this task has no step_bias")
        residues = state.steps[step]  # [G, B]
        rows = self._rows.to(residues.device)
        state.step_bias.copy_(rows[torch.arange(len(rows), device=residues.device), residues])

    def only(self, prepared: Prepared, rows: NDArray[np.int64]) -> _OwnBias:
        """Return the bias of some of the sequences."""
        del prepared
        return _OwnBias(self._bias[rows])


def forge_on(
    prepared: Prepared,
    plan: DesignPlan,
    beliefs: Sequence[Belief],
    *,
    temperature: float,
    seed: int = 0,
) -> dict[str, NDArray[Any]]:
    """Design on a backbone, each sequence with the mark that its forger has learned.

    The logits of letters that the forger believes to be promoted rise by the strength, and those of
    letters that it believes not to be promoted fall by as much. Returns the result of `designs_of`.
    """
    bias = np.zeros((len(beliefs), plan.length, PROTEIN.size))
    rows = plan.backbone.chain(plan.chains[0])
    for own, (knowledge, strength) in zip(bias, beliefs, strict=True):
        own[rows] = strength * np.sign(knowledge.best_signs(rows.stop - rows.start))
    task = unmarked_task(plan, seed, range(len(beliefs)), temperature)
    task = replace(task, has_step_bias=True)
    return designs_of(plan, sample(prepared, task, before_step=_OwnBias(bias)))


def second_choices(
    prepared: Prepared,
    plan: DesignPlan,
    sequence: NDArray[np.int64],
    *,
    temperature: float,
    orders: int = _ORDERS,
) -> NDArray[np.int64]:
    """Return the model's best letter at each residue, other than the present one: [L]."""
    device = prepared.encoded.nodes.device
    letters = torch.tensor(np.tile(sequence, (orders, 1)), device=device)
    ranks = torch.tensor(random_ranks(plan, 0, orders), device=device)
    logits = prepared.logits(letters, ranks).double() / temperature
    likely = torch.softmax(logits, dim=-1).mean(dim=0).cpu().numpy()  # [L, V]
    likely[:, list(PROTEIN.unscored)] = 0.0
    likely[np.arange(len(sequence)), sequence] = -1.0
    return np.asarray(likely.argmax(axis=1))


def strip_by_model(one: Seen, second: NDArray[np.int64], edits: int) -> NDArray[np.int64]:
    """Write the model's second choice at the letters that reveal most about their coins."""
    edited = one.symbols.copy()
    chosen = np.argsort(-one.log_odds, kind="stable")[:edits]
    chosen = chosen[one.symbols[chosen] != UNREAD]
    edited[chosen] = second[chosen]
    return edited
