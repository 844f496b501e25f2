"""A hook for Dream's `diffusion_generate`.

Dream calls `generation_logits_hook_func(step, x, logits)` at every step, before temperature,
truncation and confidence. The logits are already shifted, so that those at i belong to token i.
"""

from __future__ import annotations

from collections.abc import Callable

from patternmark.adapters.logit_bias import LogitBias
from patternmark.adapters.masked import answer_keys
from patternmark.adapters.needs_torch import Tensor
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError

__all__ = ["dream_hook"]

LogitsHook = Callable[[int | None, Tensor, Tensor], Tensor]


def dream_hook(
    marker: Marker,
    prompt_length: int,
    *,
    temperature: float = 0.0,
    seed: int | str | None = None,
    first_index: int = 0,
) -> LogitsHook:
    """Return the function to pass to `diffusion_generate` as `generation_logits_hook_func`.

    `prompt_length` is the number of columns of the prompt, including padding on the left;
    `temperature` is that of `diffusion_generate`. Row i has the keys of `seed` and
    `first_index + i`. Without a seed, each hook has random keys: make one for each generation.
    """
    biases: dict[tuple[int, ...], LogitBias] = {}  # made once for each shape [B, L] of a canvas
    chosen = fresh_seed() if seed is None else seed  # the same for all steps

    def hook(step: int | None, tokens: Tensor, logits: Tensor) -> Tensor:
        del step  # the keys depend only on the position
        shape = tuple(tokens.shape)
        if prompt_length > shape[1]:
            raise ParameterError(f"a prompt of {prompt_length} tokens does not fit into {shape[1]}")
        if shape not in biases:
            keys = answer_keys(marker, tokens, prompt_length, chosen, first_index)
            biases[shape] = LogitBias(marker, keys, temperature=temperature, device=tokens.device)
        return biases[shape].add_to(logits)

    return hook
