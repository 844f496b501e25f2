"""Expected rates: how often ProteinMPNN expects each residue to agree with its key."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.profile import Profile
from patternmark.designing.plan import DesignPlan
from patternmark.models.mpnn import Prepared
from patternmark.statistics.expected_rates import position_rates

_UNKNOWN = PROTEIN.letters.index("X")


def expected_rates(
    prepared: Prepared,
    plan: DesignPlan,
    sequence: NDArray[np.int64],
    profile: Profile,
    *,
    orders: int,
    temperature: float,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the rates [levels, L] of a sequence [L], averaged over random decoding orders.

    The order in which the sequence was sampled is unknown, so random orders are tried. In each, a
    residue depends on those before it; residues that were not designed come first, as in a design.
    """
    ranks = np.array([_ranks(plan, np.random.default_rng([seed, i])) for i in range(orders)])
    device = prepared.encoded.nodes.device
    letters = torch.tensor(np.tile(sequence, (orders, 1)), device=device)
    logits = prepared.logits(letters, torch.tensor(ranks, device=device)).double()
    for group in plan.groups:
        if len(group) > 1:  # tied residues are drawn from their mean
            rows = list(group)
            logits[:, rows] = logits[:, rows].mean(dim=1, keepdim=True)
    logits[..., _UNKNOWN] = -torch.inf
    laws = torch.softmax(logits / temperature, dim=-1).cpu().numpy()
    return position_rates(laws, sequence, profile, temperature)


def _ranks(plan: DesignPlan, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a decoding order as ranks; tied residues share a rank."""
    noise = rng.random(plan.length)
    for group in plan.groups:
        if len(group) > 1:
            noise[list(group)] = noise[group[0]]
    return np.unique(noise + plan.designed, return_inverse=True)[1]
