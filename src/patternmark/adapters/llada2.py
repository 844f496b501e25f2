"""LLaDA 2.x: block diffusion that fills masks and then edits the tokens that it has written.

Both phases read the model's logits. A mask becomes a token, and a token is replaced by another one,
if the model is sure enough. Without the bias in both phases, editing would remove the mark. So the
bias is added at the end of the model's `forward`. This works in every loop that runs the model,
such as its own `generate` and diffusers' `LLaDA2Pipeline`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from patternmark.adapters.logit_bias import LogitBias
from patternmark.adapters.masked import answer_keys, logits_of
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError

__all__ = ["llada2_marked"]

_FIRST_LENGTH = 1024  # positions whose bias is prepared first; later, twice the number needed


@contextmanager
def llada2_marked(
    model: Any,
    marker: Marker,
    prompt_length: int,
    *,
    temperature: float = 0.0,
    seed: int | str | None = None,
    first_index: int = 0,
) -> Iterator[None]:
    """Mark what a model writes inside the `with` block, which is one generation.

    `prompt_length` is the number of columns of the prompt, including padding on the left;
    `temperature` is that of the sampler. Row i has the keys of `seed` and `first_index + i`;
    without a seed, the keys are random. Nested blocks are an error, as they would add two marks.
    """
    if isinstance(getattr(model, "__dict__", {}).get("forward"), _MarkedForward):
        raise ParameterError("this model is being marked already: mark one generation at a time")
    given = vars(model).get("forward")
    chosen = fresh_seed() if seed is None else seed
    model.forward = _MarkedForward(
        model.forward, marker, prompt_length, temperature, chosen, first_index
    )
    try:
        yield
    finally:
        if given is None:
            del model.forward
        else:
            model.forward = given


class _MarkedForward:
    """A model's `forward` that adds the bias of each position to the logits."""

    def __init__(
        self,
        forward: Any,
        marker: Marker,
        prompt_length: int,
        temperature: float,
        seed: int | str,
        first_index: int,
    ) -> None:
        self._forward, self._marker = forward, marker
        self._prompt_length, self._temperature = prompt_length, temperature
        self._seed, self._first_index = seed, first_index
        self._shape = (0, 0)  # rows and positions of the bias
        self._bias: LogitBias

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the model's output, of the same type, with marked logits."""
        if kwargs.get("past_key_values") is not None and kwargs.get("position_ids") is None:
            raise ParameterError(
                "a model that continues from a cache must be given position_ids: without them "
                "the positions of its logits are unknown"
            )
        output = self._forward(*args, **kwargs)
        logits = logits_of(output)
        if not isinstance(logits, Tensor) or logits.ndim != 3:
            raise ParameterError(
                "the model's output has no logits of the shape [rows, positions, tokens]"
            )
        positions = self._positions(kwargs, logits)
        marked = self._add_bias(logits, positions)
        if output is logits:
            return marked
        copied = copy.copy(output)
        copied.logits = marked
        return copied

    def _positions(self, kwargs: dict[str, Any], logits: Tensor) -> Tensor:
        """Return the position of each logit in the whole text: [B, n]."""
        rows, count = logits.shape[:2]
        given = kwargs.get("position_ids")
        if given is None:
            given = torch.arange(count, device=logits.device)[None]
        return given[:, -count:].expand(rows, -1).to(logits.device)

    def _add_bias(self, logits: Tensor, positions: Tensor) -> Tensor:
        rows, needed = len(logits), int(positions.max()) + 1
        if rows != self._shape[0] or needed > self._shape[1]:
            self._prepare(rows, max(_FIRST_LENGTH, 2 * needed), logits.device)
        row_of = torch.arange(rows, device=logits.device)[:, None].expand_as(positions)
        return self._bias.add_to(logits, (row_of, positions.long()))

    def _prepare(self, rows: int, length: int, device: torch.device) -> None:
        self._shape = (rows, max(length, self._prompt_length))
        whole = torch.empty(self._shape, device=device)
        keys = answer_keys(self._marker, whole, self._prompt_length, self._seed, self._first_index)
        self._bias = LogitBias(self._marker, keys, temperature=self._temperature, device=device)
