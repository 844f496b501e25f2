"""`patternmark bench agreement`: how often marked residues agree with their keys, letter by letter.

It uses every third backbone, which `patternmark bench detectors` leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Paper
from patternmark.designing.plan import plan_design
from patternmark.io.structures import Backbone
from patternmark.statistics.rates import DELTAS
from patternmark_lab.bench.protein import design_all, numbered_keys

_PRIOR = 5.0  # added to the hits and to the misses of each letter, so that rare ones stay near 1/2
_LETTERS = "ACDEFGHIKLMNPQRSTVWY"
PROFILES = {s.name: Profile(scheme=s) for s in (Paper(), Blocks(nonces=1))}


def measure_agreement(
    weights: Path,
    backbones: Sequence[Backbone],
    *,
    num_keys: int = 16,
    seed: int = 1,
    device: str = "cpu",
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Return the rates that ship with the package (`patternmark.statistics.rates`)."""
    from patternmark.models.mpnn import ProteinMPNN  # noqa: PLC0415  # torch is an extra

    keys = {
        scheme: numbered_keys(f"bench agreement {seed} {scheme}", profile, num_keys)
        for scheme, profile in PROFILES.items()
    }
    conditions = [(k, d) for scheme in keys for k in keys[scheme] for d in DELTAS]
    counts = {scheme: np.full((len(DELTAS), 2, 20), _PRIOR) for scheme in keys}
    model = ProteinMPNN.load(weights, device)
    chosen = backbones[::3]
    for backbone in chosen:
        made = design_all(model, backbone, conditions, seed)["sequences"]
        plan = plan_design(backbone)
        for row, (key, delta) in enumerate(conditions):
            drawn = plan.keys(Marker(key), seed, [row])[0]
            _count(
                counts[key.profile.scheme.name][DELTAS.index(delta)],
                made[row][plan.designed],
                key.schedule.promoted_rows(drawn[plan.designed]),
            )
        step(backbone.name)
    return {
        "about": "How often a marked residue agrees with its key, by amino acid; one row for each "
        f"delta. ProteinMPNN {weights.stem}, T = 0.1, {len(chosen)} backbones, {num_keys} keys, "
        "made by 'patternmark bench agreement'.",
        "letters": _LETTERS,
        "deltas": list(DELTAS),
        **{
            scheme: np.round(table[:, 0] / table.sum(axis=1), 4).tolist()
            for scheme, table in counts.items()
        },
    }


def _count(
    counts: NDArray[np.float64], letters: NDArray[np.int64], promoted: NDArray[np.bool_]
) -> None:
    """Add a sequence's hits and misses: counts [2, 20], promoted [n, V]."""
    agrees = promoted[np.arange(len(letters)), letters]
    place = np.full(PROTEIN.size, -1)
    place[PROTEIN.encode(_LETTERS)] = np.arange(20)
    for which, chosen in enumerate((agrees, ~agrees)):
        counts[which] += np.bincount(place[letters[chosen]], minlength=20)
