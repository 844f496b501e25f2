"""LLaDA's sampler with the mark: blocks from left to right, any order within a block.

LLaDA has no hook, so its loop is written again here. The bias is added after guidance and after
tokens are forbidden, and before the Gumbel noise and the confidence that decides which tokens stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patternmark.adapters.logit_bias import LogitBias
from patternmark.adapters.masked import (
    Choice,
    MaskedSampler,
    answer_keys,
    at_random,
    logits_of,
    most_confident,
)
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError

__all__ = ["llada_generate"]

LOW_CONFIDENCE, RANDOM = "low_confidence", "random"


@torch.no_grad()
def llada_generate(
    model: Any,
    prompt: Tensor,
    marker: Marker,
    *,
    mask_id: int,
    attention_mask: Tensor | None = None,
    steps: int = 128,
    gen_length: int = 128,
    block_length: int = 128,
    temperature: float = 0.0,
    cfg_scale: float = 0.0,
    remasking: str = LOW_CONFIDENCE,
    forbidden: Sequence[int] = (),
    late: Sequence[int] = (),
    seed: int | str | None = None,
    first_index: int = 0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Continue prompts [B, P] by `gen_length` marked tokens: [B, P + gen_length].

    The arguments are LLaDA's own. `forbidden` tokens are never written (its `logits_eos_inf`);
    `late` tokens are fixed last (its `confidence_eos_eot_inf`). Row i of the batch has the keys of
    `seed` and index `first_index + i`. Prompts of several lengths must be padded on the left and
    need an `attention_mask`. For the same text without a mark, give `Marker(key, delta=0.0)`.
    """
    blocks = _check_blocks(steps, gen_length, block_length, remasking)
    rows, prompt_length = prompt.shape
    tokens = torch.nn.functional.pad(prompt, (0, gen_length), value=mask_id)
    if attention_mask is not None:
        attention_mask = torch.nn.functional.pad(attention_mask, (0, gen_length), value=1)
    keys = answer_keys(marker, tokens, prompt_length, seed, first_index)
    sampler = MaskedSampler(
        _Guided(model, attention_mask, prompt_length, mask_id, cfg_scale),
        mask_id,
        LogitBias(marker, keys, temperature=temperature, device=tokens.device),
        temperature=temperature,
        forbidden=forbidden,
        late=late,
        generator=generator,
    )
    place = torch.arange(tokens.shape[1], device=tokens.device).expand(rows, -1)
    for block in range(blocks):
        start = prompt_length + block * block_length
        within = (place >= start) & (place < start + block_length)
        choices = [
            _choice(count, remasking, generator)
            for count in transfer_counts(block_length, steps // blocks)
        ]
        tokens = sampler.fill(tokens, choices, within)
    return tokens


def transfer_counts(masks: int, steps: int) -> list[int]:
    """Return how many tokens are fixed in each step: equal shares; early steps take the rest.

    >>> transfer_counts(10, 4)
    [3, 3, 2, 2]
    """
    share, left = divmod(masks, steps)
    return [share + (step < left) for step in range(steps)]


def _choice(count: int, remasking: str, generator: torch.Generator | None) -> Choice:
    return most_confident(count) if remasking == LOW_CONFIDENCE else at_random(count, generator)


class _Guided:
    """A model whose logits are moved away from those without the prompt (guidance)."""

    def __init__(
        self,
        model: Any,
        attention_mask: Tensor | None,
        prompt_length: int,
        mask_id: int,
        scale: float,
    ) -> None:
        self._model = model
        self._seen = {} if attention_mask is None else {"attention_mask": attention_mask}
        self._prompt_length, self._mask_id, self._scale = prompt_length, mask_id, scale

    def __call__(self, tokens: Tensor) -> Tensor:
        with_prompt = logits_of(self._model(tokens, **self._seen))
        if self._scale == 0:
            return with_prompt
        blind = tokens.clone()
        blind[:, : self._prompt_length] = self._mask_id
        without = logits_of(self._model(blind, **self._seen))
        return without + (self._scale + 1) * (with_prompt - without)


def _check_blocks(steps: int, gen_length: int, block_length: int, remasking: str) -> int:
    if remasking not in (LOW_CONFIDENCE, RANDOM):
        raise ParameterError(f"remasking must be {LOW_CONFIDENCE} or {RANDOM}, not {remasking!r}")
    blocks, left = divmod(gen_length, block_length)
    if left:
        raise ParameterError(
            f"gen_length {gen_length} is not a multiple of block_length {block_length}"
        )
    if steps % blocks:
        raise ParameterError(f"steps {steps} must be a multiple of the number of blocks, {blocks}")
    return blocks
