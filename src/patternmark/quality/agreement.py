"""Whether a design would fold as intended, judged by a small predictor of secondary structure.

The predictor predicts helix, strand and coil from the designed sequence, and its result is compared
with DSSP of the backbone. It is wrong for one residue in four even of natural chains, so compare
values only with those of the native sequence or of unmarked designs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.io.structures import Backbone
from patternmark.quality.dssp import dssp_three
from patternmark.quality.predictor import StructurePredictor, shipped_predictor, three_sums
from patternmark.quality.states import THREE_STATES


@dataclass(frozen=True)
class Agreement:
    """How well the predicted structure of a sequence agrees with a backbone."""

    same: float  # share of residues whose most probable state is that of the backbone
    probability: float  # predicted probability of the backbone's state, mean over residues
    residues: int


def structure_agreement(
    backbone: Backbone,
    sequences: Sequence[NDArray[np.int64]],
    *,
    counted: NDArray[np.bool_] | None = None,
    predictor: StructurePredictor | None = None,
) -> list[Agreement]:
    """Compare the predicted structures of sequences [B, L] with their backbone.

    A residue counts if its atoms and its letter are known, and if it is in `counted` [L]. Each
    chain is predicted alone, because the predictor was trained that way.
    """
    predictor = predictor or shipped_predictor()
    states = np.array([THREE_STATES.index(state) for state in dssp_three(backbone)])
    wanted = backbone.is_complete if counted is None else backbone.is_complete & counted
    chains = [rows for rows in map(backbone.chain, backbone.chain_ids) if wanted[rows].any()]
    texts = ["".join(PROTEIN.letters[i] for i in ids[rows]) for ids in sequences for rows in chains]
    found = iter(predictor.probabilities(texts))
    results = []
    for ids in sequences:
        shares = np.zeros((len(states), len(THREE_STATES)), np.float32)  # [L, 3]
        for rows in chains:
            shares[rows] = three_sums(next(found))
        known = np.flatnonzero(wanted & PROTEIN.is_scored(np.asarray(ids)))
        same = shares[known].argmax(axis=-1) == states[known]
        given = shares[known, states[known]]
        results.append(
            Agreement(
                float(same.mean()) if known.size else np.nan,
                float(given.mean()) if known.size else np.nan,
                int(known.size),
            )
        )
    return results
