"""All measures of designs on one backbone, their means and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import PROTEIN
from patternmark.designing.plan import DesignPlan
from patternmark.models.mpnn import Prepared
from patternmark.quality.agreement import Agreement, structure_agreement
from patternmark.quality.esmfold import Folder
from patternmark.quality.measured import Measured, difference_of, mean_of
from patternmark.quality.nll import judge
from patternmark.quality.predictor import StructurePredictor


@dataclass(frozen=True)
class DesignQuality:
    """The measures of one sequence."""

    recovery: float  # share of the designed residues that have the native letter
    agreement: Agreement
    scores: dict[str, float] = field(default_factory=dict)  # by the name of the weights
    plddt: float | None = None  # mean over residues

    def values(self) -> dict[str, float]:
        """Return all numbers by the names of their measures."""
        found = {f"score, {name}": score for name, score in self.scores.items()}
        found |= {
            "native recovery": self.recovery,
            "structure agreement": self.agreement.same,
            "structure probability": self.agreement.probability,
        }
        return found if self.plddt is None else found | {"pLDDT": self.plddt}


@dataclass(frozen=True, eq=False)
class Judges:
    """The models that measure designs on one backbone; without a model its measure is left out."""

    prepared: Mapping[str, Prepared] = field(default_factory=dict)  # by the name of the weights
    predictor: StructurePredictor | None = None  # None: the predictor of the package
    folder: Folder | None = None
    seed: int = 0  # of the orders in which sequences are read
    orders: int = 1


def measure_designs(
    plan: DesignPlan, sequences: Sequence[NDArray[np.int64]], judges: Judges
) -> list[DesignQuality]:
    """Measure sequences [B, L] of one plan; the native sequence is that of its backbone."""
    scores: list[dict[str, float]] = [{} for _ in sequences]
    for name, prepared in judges.prepared.items():
        judged = judge(prepared, plan, sequences, seed=judges.seed, orders=judges.orders)
        for row, design in zip(scores, judged, strict=True):
            row[name] = design.score
    native = plan.backbone.sequence
    recoveries = [float((ids == native)[plan.designed].mean()) for ids in sequences]
    counted = np.isin(np.arange(plan.length), plan.printed)
    agreements = structure_agreement(
        plan.backbone, sequences, counted=counted, predictor=judges.predictor
    )
    plddt = [_plddt(plan, ids, judges.folder) for ids in sequences]
    columns = zip(recoveries, agreements, scores, plddt, strict=True)
    return [DesignQuality(*row) for row in columns]


def _plddt(plan: DesignPlan, ids: NDArray[np.int64], folder: Folder | None) -> float | None:
    """Return the mean pLDDT of the designed chains, each folded alone.

    Residues without coordinates are left out.
    """
    if folder is None:
        return None
    complete = plan.backbone.is_complete
    texts = []
    for chain in plan.chains:
        rows = plan.backbone.chain(chain)
        texts.append("".join(PROTEIN.letters[i] for i in ids[rows][complete[rows]]))
    return float(np.concatenate(folder.plddt([text for text in texts if text])).mean())


def summary(designs: Sequence[DesignQuality]) -> list[Measured]:
    """Return the mean of each measure over designs."""
    return [mean_of(name, values) for name, values in _columns(designs).items()]


def differences(
    designs: Sequence[DesignQuality], others: Sequence[DesignQuality]
) -> list[Measured]:
    """Return how much higher each measure is for designs than for others."""
    ours, theirs = _columns(designs), _columns(others)
    return [difference_of(name, ours[name], theirs[name]) for name in ours if name in theirs]


def _columns(designs: Sequence[DesignQuality]) -> dict[str, list[float]]:
    rows: list[dict[str, Any]] = [design.values() for design in designs]
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
