"""transformers: logits processors, a watermarking config and a detector with its interfaces."""

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
    """Marks what `generate(logits_processor=[...])` writes from left to right.

    The prompt has no keys, whatever its padding. Row i of the batch, or the i-th group of
    `num_beams` rows, has the keys of `seed` and index `first_index + i`; without a seed, each
    generation has random keys. Processors run before the temperature: give the `temperature` of
    `generate`, which matters for keys with delta_at = "tempered". `after_temperature` is for
    processors that run after it. `prompt_length` is needed only if tokens are taken back, as in
    assisted decoding; then make a processor for each generation.
    """

    supports_continuous_batching = False  # rows change there, so a text would change its keys

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
        """Return the scores [B, V] of the next token with their bias."""
        raw = scores[:, None] * self._divisor
        return self._generation.add_bias(input_ids, raw)[:, 0] / self._divisor


class DiffusionTemperatures(NamedTuple):
    """DiffusionGemma's temperatures, as in `generate`: they fall from `t_max` to `t_min`."""

    t_min: float
    t_max: float
    max_denoising_steps: int

    def at(self, steps_left: int) -> float:
        return self.t_min + (self.t_max - self.t_min) * steps_left / self.max_denoising_steps


class PatternMarkDiffusionProcessor(LogitsProcessor):
    """Marks what DiffusionGemma's `generate(logits_processor=LogitsProcessorList([...]))` writes.

    DiffusionGemma denoises one canvas after the other. The bias is added at every step. So it
    affects which tokens a step accepts, the input of the next step, and the final choice. A key
    with delta_at = "tempered" needs the `temperatures`. `generate` adds its own processor to the
    given list: make a new list for each call.
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
                f"key {marker.key.key_id} has delta_at = 'tempered': give the temperatures of "
                "generate as DiffusionTemperatures(t_min, t_max, max_denoising_steps)"
            )
        is_tempered = marker.key.profile.delta_at == "tempered"
        self._temperatures = temperatures if is_tempered else None
        self._generation = Generation(marker, seed, first_index)

    def __call__(self, input_ids: Tensor, scores: Tensor, cur_step: Any) -> Tensor:
        """Return the scores [B, canvas, V] of the current canvas with their bias."""
        if self._temperatures is None:
            return self._generation.add_bias(input_ids, scores)
        temperature = self._temperatures.at(int(cur_step))  # delta is added after the division
        return self._generation.add_bias(input_ids, scores / temperature) * temperature


class PatternMarkConfig(BaseWatermarkingConfig):
    """A config for `generate(watermarking_config=...)`, like transformers' own ones.

    transformers adds watermarks last, to scores that are already divided by the temperature. So a
    key with delta_at = "logits" (the default) needs the `temperature` of `generate`. Leave it at 1
    for greedy decoding and beam search. No output of this object contains the secret.
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
        """Raise an error if the temperature is not positive."""
        if not self.temperature > 0:
            raise ParameterError(f"temperature must be positive, not {self.temperature}")

    def construct_processor(self, vocab_size: int, device: Any = None) -> LogitsProcessor:
        """Return a processor for one generation of a model with `vocab_size` columns."""
        del device  # the processor uses the device of the scores
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
        """Return the public content of the config: the key id, but not the secret."""
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
        """Return the public content of the config as JSON."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the public content of the config."""
        yield from self.to_dict().items()

    def __deepcopy__(self, memo: dict[int, Any]) -> PatternMarkConfig:
        """Return a shallow copy: `generate` copies its whole config, and the marker is constant."""
        return copy.copy(self)
