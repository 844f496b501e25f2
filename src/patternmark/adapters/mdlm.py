"""Marked ancestral sampling of masked diffusion models (MDLM and similar ones).

Time runs from 1 to 0, and a(t) is the share of tokens that are not masked at time t. From t to s,
each mask becomes a token independently with probability (a(s) - a(t)) / (1 - a(t)). The token is
drawn from the model's distribution, here with the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from patternmark.adapters.logit_bias import LogitBias
from patternmark.adapters.masked import (
    MaskedSampler,
    answer_keys,
    each_with_probability,
    logits_of,
)
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError

__all__ = ["mdlm_generate"]


def linear(time: float) -> float:
    """Return the share of tokens that are not masked, linear in time: MDLM's log-linear noise."""
    return 1.0 - time


@torch.no_grad()
def mdlm_generate(
    model: Callable[[Tensor], Any],
    prompt: Tensor,
    marker: Marker,
    *,
    mask_id: int,
    length: int,
    steps: int,
    schedule: Callable[[float], float] = linear,
    temperature: float = 1.0,
    forbidden: Sequence[int] = (),
    seed: int | str | None = None,
    first_index: int = 0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Write `length` marked tokens after prompts [B, P], which may be empty: [B, P + length].

    `model` takes tokens and returns logits, or an output that has them; wrap a model that also
    needs the time. `schedule` is a(t), 0 at time 1 and 1 at time 0.
    """
    if steps < 1:
        raise ParameterError(f"steps must be at least 1, not {steps}")
    tokens = torch.nn.functional.pad(prompt, (0, length), value=mask_id)
    keys = answer_keys(marker, tokens, prompt.shape[1], seed, first_index)
    sampler = MaskedSampler(
        lambda tokens: logits_of(model(tokens)),
        mask_id,
        LogitBias(marker, keys, temperature=temperature, device=tokens.device),
        temperature=temperature,
        forbidden=forbidden,
        generator=generator,
    )
    choices = [each_with_probability(chance, generator) for chance in _chances(schedule, steps)]
    within = torch.arange(tokens.shape[1], device=tokens.device) >= prompt.shape[1]
    return sampler.fill(tokens, choices, within.expand(tokens.shape))


def _chances(schedule: Callable[[float], float], steps: int) -> list[float]:
    """Return the probability that a mask becomes a token, for each step; 1 in the last one."""
    shares = [schedule(1.0 - step / steps) for step in range(steps)]
    if any(not 0.0 <= share < 1.0 for share in shares) or shares != sorted(shares):
        raise ParameterError(
            "a schedule must rise from 0 at time 1 to 1 at time 0, and reach 1 only there"
        )
    return [(later - now) / (1.0 - now) for now, later in pairwise([*shares, 1.0])]
