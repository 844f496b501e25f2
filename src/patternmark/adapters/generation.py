"""The state of a generation, for processors that see only the tokens so far.

A logits processor gets the tokens so far and the scores of the next token, but not the end of the
prompt. The first call of a generation shows it, because the tokens are then the prompt alone.
"""

from __future__ import annotations

import numpy as np

from patternmark.adapters.logit_bias import LogitBias, batch_keys
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError

_FIRST_KEYS = 256  # keys that are drawn first; when they run out, twice the number needed


class Generation:
    """The end of the prompt of a generation, and the bias of the tokens after it."""

    def __init__(
        self,
        marker: Marker,
        seed: int | str | None,
        first_index: int,
        *,
        temperature: float = 1.0,
        num_beams: int = 1,
        prompt_length: int | None = None,
    ) -> None:
        if num_beams < 1:
            raise ParameterError(f"num_beams must be at least 1, not {num_beams}")
        self._marker, self._temperature, self._num_beams = marker, temperature, num_beams
        self._given, self._first_index = seed, first_index
        self._seed: int | str = 0  # of the running generation
        self._given_prompt_length = prompt_length
        self._prompt_length = 0
        self._last: Tensor | None = None  # the tokens of the last call
        self._shape = (0, 0)  # rows and positions of the bias
        self._bias: LogitBias

    def add_bias(self, tokens: Tensor, scores: Tensor) -> Tensor:
        """Return the scores [B, n, V] of the n positions after tokens [B, m], with their bias."""
        rows, length = tokens.shape
        count = scores.shape[1]
        if self._given_prompt_length is not None:
            self._prompt_length = self._given_prompt_length
        elif not self._continues(tokens, count):
            self._prompt_length = length
            # A new generation, or another step on the first canvas of the same one.
            if count == 1 or self._last is None or not torch.equal(tokens, self._last):
                self._shape = (0, 0)
        self._last = tokens.clone()
        start = length - self._prompt_length
        if start < 0:
            raise ParameterError(
                f"a prompt of {self._given_prompt_length} tokens does not fit into {length}"
            )
        if self._shape == (0, 0):  # without a seed, each generation has new keys
            self._seed = fresh_seed() if self._given is None else self._given
        if rows != self._shape[0] or start + count > self._shape[1]:
            self._prepare(rows, max(_FIRST_KEYS, 2 * (start + count)), scores.device)
        return self._bias.add_to(scores, (slice(None), slice(start, start + count)))

    def _continues(self, tokens: Tensor, step: int) -> bool:
        """Tell whether these are the tokens of the last call, with at most one step more."""
        last, start, length = self._last, self._prompt_length, tokens.shape[1]
        if last is None or len(tokens) != len(last) or not start < length <= last.shape[1] + step:
            return False  # another batch, the prompt alone, or too much at once
        if not torch.equal(tokens[:, :start], last[:, :start]):
            return False  # another prompt
        shared = start if self._num_beams > 1 else last.shape[1]
        has_grown = length in (last.shape[1], last.shape[1] + step)
        if not has_grown or not torch.equal(tokens[:, :shared], last[:, :shared]):
            raise ParameterError(
                "these tokens begin with the prompt of the last call but do not continue its "
                "text: for beam search give num_beams, for assisted decoding give prompt_length, "
                "for another text make another processor"
            )
        return True

    def _prepare(self, rows: int, length: int, device: torch.device) -> None:
        if rows % self._num_beams:
            raise ParameterError(
                f"{rows} rows are not a multiple of {self._num_beams} beams: give the num_beams of "
                "generate"
            )
        sequences = rows // self._num_beams  # beams of a sequence swap rows, so they share keys
        drawn = batch_keys(self._marker, sequences, length, self._seed, self._first_index)
        keys = np.repeat(drawn, self._num_beams, axis=0)
        self._shape = keys.shape
        self._bias = LogitBias(self._marker, keys, temperature=self._temperature, device=device)
