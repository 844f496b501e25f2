"""transformers: logits processors and a watermarking config in its manner; its detector as well."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from patternmark.adapters.generation import Generation
from patternmark.adapters.logit_bias import check_width
from patternmark.adapters.needs_torch import Tensor
from patternmark.adapters.transformers_detector import (
    PatternMarkDetector,
    PatternMarkDetectorOutput,
)
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError, PatternmarkError

try:
    from transformers import LogitsProcessor
    from transformers.generation.configuration_utils import BaseWatermarkingConfig
except ImportError:
    raise PatternmarkError("this hook needs transformers: pip install transformers") from None

__all__ = [
    "DiffusionTemperatures",
    "PatternMarkConfig",
    "PatternMarkDetector",
    "PatternMarkDetectorOutput",
    "PatternMarkDiffusionProcessor",
    "PatternMarkLogitsProcessor",
]


class PatternMarkLogitsProcessor(LogitsProcessor):
    """Mark what `generate(logits_processor=[...])` writes from left to right.

    The prompt carries no key, whatever its padding. Row i of the batch, or the i-th group of
    `num_beams` rows, has the keys of `seed` and index `first_index + i`; without a seed, fresh ones
    for each generation. Processors run before the temperature: give the one of `generate`, which
    matters for keys with delta_at = "tempered"; `after_temperature` is for processors that run
    after it. `prompt_length` need be told only where tokens are taken back, as in assisted
    decoding: make a processor for each generation then.
    """

    supports_continuous_batching = False  # rows come and go there: no row keeps its keys

    def __init__(
        self,
        marker: Marker,
        *,
        temperature: float = 1.0,
        num_beams: int = 1,
        seed: int | str | None = None,
        first_index: int = 0,
        after_temperature: bool = False,
        prompt_length: int | None = None,
    ) -> None:
        self._divisor = (temperature or 1.0) if after_temperature else 1.0
        self._generation = Generation(
            marker,
            seed,
            first_index,
            temperature=temperature,
            num_beams=num_beams,
            prompt_length=prompt_length,
        )

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the scores [B, V] of the next token with its parts promoted."""
        raw = scores[:, None] * self._divisor
        return self._generation.add_bias(input_ids, raw)[:, 0] / self._divisor


class DiffusionTemperatures(NamedTuple):
    """DiffusionGemma's temperatures, as given to `generate`: they fall from `t_max` to `t_min`."""

    t_min: float
    t_max: float
    max_denoising_steps: int

    def at(self, steps_left: int) -> float:
        return self.t_min + (self.t_max - self.t_min) * steps_left / self.max_denoising_steps


class PatternMarkDiffusionProcessor(LogitsProcessor):
    """Mark what DiffusionGemma's `generate(logits_processor=LogitsProcessorList([...]))` writes.

    It denoises one canvas after the other; the bias reaches every step, hence also what a step
    accepts, what the next one is conditioned on, and the final choice. A key with delta_at =
    "tempered" needs the `temperatures`. `generate` adds a processor of its own to the list it is
    given: make a new list for each call.
    """

    supports_continuous_batching = False

    def __init__(
        self,
        marker: Marker,
        *,
        temperatures: DiffusionTemperatures | None = None,
        seed: int | str | None = None,
        first_index: int = 0,
    ) -> None:
        if temperatures is None and marker.key.profile.delta_at == "tempered":
            raise ParameterError(
                f"key {marker.key.key_id} has delta_at = 'tempered': tell the temperatures, "
                "DiffusionTemperatures(t_min, t_max, max_denoising_steps), as given to generate"
            )
        is_tempered = marker.key.profile.delta_at == "tempered"
        self._temperatures = temperatures if is_tempered else None
        self._generation = Generation(marker, seed, first_index)

    def __call__(self, input_ids: Tensor, scores: Tensor, cur_step: Any) -> Tensor:
        """Return the scores [B, canvas, V] of the running canvas with their parts promoted."""
        if self._temperatures is None:
            return self._generation.add_bias(input_ids, scores)
        temperature = self._temperatures.at(int(cur_step))  # the bias is delta after its division
        return self._generation.add_bias(input_ids, scores / temperature) * temperature


class PatternMarkConfig(BaseWatermarkingConfig):
    """What `generate(watermarking_config=...)` takes, as transformers' own configs.

    transformers adds watermarks last, to scores that were divided by the temperature already. So
    a key with delta_at = "logits" (the default) needs the `temperature` given to `generate`; leave
    it at 1 for greedy decoding and beam search. The secret is in no output of this object.
    """

    def __init__(
        self,
        key: Key,
        *,
        delta: float | None = None,
        payload: int | None = None,
        temperature: float = 1.0,
        num_beams: int = 1,
        seed: int | str | None = None,
        first_index: int = 0,
    ) -> None:
        self.marker = Marker(key, delta=delta, payload=payload)
        self.temperature, self.num_beams = temperature, num_beams
        self.seed, self.first_index = seed, first_index
        self.validate()

    def validate(self) -> None:
        """Refuse what no generation can have."""
        if not self.temperature > 0:
            raise ParameterError(f"a temperature must be positive, not {self.temperature}")

    def construct_processor(self, vocab_size: int, device: Any = None) -> LogitsProcessor:
        """Return a processor for one generation of a model with so many columns."""
        del device  # the scores say where they are
        check_width(self.marker.key, vocab_size)
        return PatternMarkLogitsProcessor(
            self.marker,
            temperature=self.temperature,
            num_beams=self.num_beams,
            seed=self.seed,
            first_index=self.first_index,
            after_temperature=True,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what may be seen of the config: the key's id and not its secret."""
        return {
            "key_id": self.marker.key.key_id,
            "delta": self.marker.delta,
            "payload": self.marker.payload,
            "temperature": self.temperature,
            "num_beams": self.num_beams,
            "seed": self.seed,
            "first_index": self.first_index,
        }

    def to_json_string(self) -> str:
        """Return what may be seen of the config as JSON."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Go through what may be seen of the config."""
        yield from self.to_dict().items()

    def __deepcopy__(self, memo: dict[int, Any]) -> PatternMarkConfig:
        """Share the marker, which never changes: `generate` copies its whole configuration."""
        return copy.copy(self)
