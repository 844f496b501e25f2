"""Design several sequences of one backbone in one batch, each under its own scheme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.designing.plan import DesignPlan, plan_design
from patternmark.designing.run import DesignOptions
from patternmark.io.structures import Backbone
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.sampler import Sampled, decoding_steps, sample
from patternmark.models.state import Task
from patternmark_lab.generation.online import OnlineMarks
from patternmark_lab.schemes import Scheme


def design_schemes(
    model: ProteinMPNN,
    backbone: Backbone,
    schemes: Sequence[Scheme | None],
    seed: int = 0,
    *,
    temperature: float = 0.1,
    numbers: Sequence[int] | None = None,
) -> dict[str, NDArray[Any]]:
    """Design one sequence for each scheme (None: without a mark); for the result see `designs_of`.

    A sequence depends only on its scheme, the seed and its number, which is i for the i-th scheme
    unless `numbers` says otherwise.
    """
    plan = plan_design(backbone)
    indices = range(len(schemes)) if numbers is None else numbers
    task = unmarked_task(plan, seed, indices, temperature)
    prepared = model.prepare(model.encode(backbone))
    label = f"{seed}/{backbone.name}"
    marks = OnlineMarks(prepared, task, schemes, backbone.chain_index, label, indices)
    return designs_of(plan, sample(prepared, marks.task, before_step=marks))


def unmarked_task(plan: DesignPlan, seed: int, indices: Sequence[int], temperature: float) -> Task:
    """Return the task to sample these sequence numbers of a seed without a mark."""
    steps, uniforms = decoding_steps(plan.groups, seed, indices, plan.length)
    return Task(
        native=plan.backbone.sequence,
        steps=steps,
        uniforms=uniforms,
        bias=np.tile(DesignOptions().letter_bias(), (plan.length, 1)),
        temperature=temperature,
        name=plan.backbone.name,
    )


def designs_of(plan: DesignPlan, sampled: Sampled) -> dict[str, NDArray[Any]]:
    """Return sequences [B, L], their mean negative log-likelihood and native recovery [B]."""
    sequences = sampled.sequences.cpu().numpy()
    return {
        "sequences": sequences,
        "nll": -sampled.log_p.cpu().numpy()[:, plan.designed].mean(axis=1),
        "recovery": (sequences == plan.backbone.sequence)[:, plan.designed].mean(axis=1),
    }
