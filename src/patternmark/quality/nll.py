"""The negative log-likelihood of designs under ProteinMPNN, with any of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from patternmark.designing.plan import DesignPlan
from patternmark.designing.run import Design, random_ranks, score_in_order
from patternmark.models.mpnn import Prepared


def judge(
    prepared: Prepared,
    plan: DesignPlan,
    sequences: Sequence[NDArray[np.int64]] | NDArray[np.int64],
    *,
    seed: int = 0,
    orders: int = 1,
    ranks: NDArray[np.int64] | None = None,
    batch: int = 256,
) -> list[Design]:
    """Return scores (mean negative log-likelihood) and native recovery of sequences [B, L].

    All sequences are read in the same orders, so their scores can be compared: `orders` random
    ones, or those given by `ranks` [orders, L], the step at which each residue is read. Scores are
    means over orders. `prepared` is `model.prepare(model.encode(plan.backbone))`.
    """
    if ranks is None:
        ranks = random_ranks(plan, seed, orders)
    found: list[Design] = []
    for start in range(0, len(sequences), batch):
        part = np.asarray(sequences[start : start + batch])
        judged = [
            score_in_order(prepared, plan, part, np.tile(rank, (len(part), 1))) for rank in ranks
        ]
        found += [_mean(start + i + 1, over) for i, over in enumerate(zip(*judged, strict=True))]
    return found


def _mean(index: int, over: Sequence[Design]) -> Design:
    """Return one design with its mean scores over orders."""
    score = float(np.mean([design.score for design in over]))
    global_score = float(np.mean([design.global_score for design in over]))
    return replace(over[0], index=index, score=score, global_score=global_score)
