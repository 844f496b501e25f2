"""Whether a design would fold as it should, as far as a small predictor can tell.

The predictor reads helix, strand and coil off the designed sequence; what it finds is compared with
the backbone's own, by DSSP. It is wrong about one residue in four of natural chains too, so a value
means something only beside that of the native sequence or of unmarked designs.
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
    """How a sequence's predicted structure agrees with a backbone's."""

    same: float  # share of residues whose most probable state is the backbone's
    probability: float  # that the predictor gives to the backbone's state, mean over residues
    residues: int


def structure_agreement(
    backbone: Backbone,
    sequences: Sequence[NDArray[np.int64]],
    *,
    counted: NDArray[np.bool_] | None = None,
    predictor: StructurePredictor | None = None,
) -> list[Agreement]:
    """Compare sequences [B, L] for a backbone with its structure.

    Residues count whose atoms and letter are known; of these, `counted` [L] may name some. Chains
    are predicted alone, as the predictor was trained.
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
