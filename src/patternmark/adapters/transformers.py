"""transformers: logits processors, a watermarking config and a detector in its manner.

A logits processor sees the tokens so far and the scores of what comes next; it is not told where
the prompt ends. That is learned from the first call of a generation, which sees the prompt alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log, pi, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.adapters.logit_bias import LogitBias, batch_keys, check_width
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.secret import fresh_seed
from patternmark.core.verdict import LN10, Verdict
from patternmark.detect import Detector
from patternmark.errors import ParameterError, PatternmarkError
from patternmark.evidence import DEFAULT_FPR

try:
    from transformers import LogitsProcessor
    from transformers.generation.configuration_utils import BaseWatermarkingConfig
    from transformers.generation.watermarking import WatermarkDetectorOutput
except ImportError:
    raise PatternmarkError("this hook needs transformers: pip install transformers") from None

_SMALLEST_LOG = -700.0  # exp of less is no normal float
_FIRST_KEYS = 256  # drawn at once, and twice as many as are needed when they run out


class _Generation:
    """Where the prompt of the running generation ends, and the bias of what follows it."""

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
            raise ParameterError(f"num_beams is a number from 1, not {num_beams}")
        self._marker, self._temperature, self._num_beams = marker, temperature, num_beams
        self._given, self._first_index = seed, first_index
        self._seed: int | str = 0  # of the running generation
        self._told = prompt_length
        self._prompt_length = 0
        self._last: Tensor | None = None  # what the last call saw
        self._shape = (0, 0)  # rows and positions that the bias is for
        self._bias: LogitBias

    def add_bias(self, tokens: Tensor, scores: Tensor) -> Tensor:
        """Return the scores [B, n, V] of the n positions behind tokens [B, m], with their bias."""
        rows, length = tokens.shape
        count = scores.shape[1]
        if self._told is not None:
            self._prompt_length = self._told
        elif not self._goes_on(tokens, count):
            self._prompt_length = length
            # Another generation, unless this is another step on the first canvas of the same one.
            if count == 1 or self._last is None or not torch.equal(tokens, self._last):
                self._shape = (0, 0)
        self._last = tokens.clone()
        start = length - self._prompt_length
        if start < 0:
            raise ParameterError(f"a prompt of {self._told} tokens does not fit into {length}")
        if self._shape == (0, 0):  # without a seed each generation has other keys
            self._seed = fresh_seed() if self._given is None else self._given
        if rows != self._shape[0] or start + count > self._shape[1]:
            self._prepare(rows, max(_FIRST_KEYS, 2 * (start + count)), scores.device)
        return self._bias.add_to(scores, (slice(None), slice(start, start + count)))

    def _goes_on(self, tokens: Tensor, step: int) -> bool:
        """Whether these are the tokens of the last call, and maybe one step more."""
        last, start, length = self._last, self._prompt_length, tokens.shape[1]
        if last is None or len(tokens) != len(last) or not start < length <= last.shape[1] + step:
            return False  # another batch, the prompt alone, or too much at once
        if not torch.equal(tokens[:, :start], last[:, :start]):
            return False  # another prompt
        shared = start if self._num_beams > 1 else last.shape[1]
        has_grown = length in (last.shape[1], last.shape[1] + step)
        if not has_grown or not torch.equal(tokens[:, :shared], last[:, :shared]):
            raise ParameterError(
                "these tokens begin with the prompt of the last call, and do not continue its "
                "text: for beam search tell num_beams, for assisted decoding prompt_length; for "
                "another text make another processor"
            )
        return True

    def _prepare(self, rows: int, length: int, device: torch.device) -> None:
        if rows % self._num_beams:
            raise ParameterError(f"{rows} rows are no whole number of {self._num_beams} beams")
        sequences = rows // self._num_beams  # the beams of a sequence change places
        drawn = batch_keys(self._marker, sequences, length, self._seed, self._first_index)
        keys = np.repeat(drawn, self._num_beams, axis=0)
        self._shape = keys.shape
        self._bias = LogitBias(self._marker, keys, temperature=self._temperature, device=device)


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
        self._generation = _Generation(
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
        self._generation = _Generation(marker, seed, first_index)

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


@dataclass
class PatternMarkDetectorOutput(WatermarkDetectorOutput):
    """transformers' fields, one entry for each sequence, and the verdicts behind them.

    `p_value` is exact and not made from a z-score: `z_score` is the one that a normal variable
    exceeds with that probability. There is no green list, so the fields about it stay None.
    """

    verdicts: Sequence[Verdict] = ()


class PatternMarkDetector:
    """Judge batches of token ids, called as transformers' `WatermarkDetector`.

    It needs no model and no device. Special tokens and ids beyond the key's alphabet say nothing.
    """

    def __init__(self, key: Key, detector: str = "auto", *, fpr: float = DEFAULT_FPR) -> None:
        self.detector = Detector(key, detector, fpr=fpr)

    def __call__(
        self,
        input_ids: Tensor | Sequence[Sequence[int]],
        *,
        prompt_length: int = 0,
        return_dict: bool = False,
    ) -> PatternMarkDetectorOutput | NDArray[np.bool_]:
        """Judge sequences [B, n] from `prompt_length` on: predictions [B], or all there is."""
        alphabet = self.detector.key.profile.alphabet
        filler = alphabet.unscored[0] if alphabet.unscored else 0
        rows, masks = [], []
        for row in input_ids:
            ids = np.asarray(row.tolist() if isinstance(row, Tensor) else row, dtype=np.int64)
            ids = ids[prompt_length:]
            masks.append((ids >= 0) & (ids < alphabet.size))
            rows.append(np.where(masks[-1], ids, filler))
        verdicts = self.detector.detect_many(rows, scored=masks)
        prediction = np.array([verdict.prediction for verdict in verdicts], dtype=bool)
        if not return_dict:
            return prediction
        p_values = np.array([verdict.p_value for verdict in verdicts])
        return PatternMarkDetectorOutput(
            num_tokens_scored=np.array([verdict.num_tokens_scored for verdict in verdicts]),
            z_score=np.array([z_of(verdict.log10_p * LN10) for verdict in verdicts]),
            p_value=p_values,
            prediction=prediction,
            confidence=1.0 - p_values,
            verdicts=verdicts,
        )


def z_of(log_p: float) -> float:
    """Return the z-score of a one-sided p-value of any size.

    >>> round(z_of(log(0.0013498980316301)), 6), round(z_of(-5000.0), 1)
    (3.0, 99.9)
    """
    if log_p in (0.0, -inf):
        return -inf if log_p == 0.0 else inf
    if log_p > _SMALLEST_LOG:
        return -NormalDist().inv_cdf(exp(log_p))
    z = sqrt(-2.0 * log_p)
    for _ in range(20):  # far out, p is the density over z
        z = sqrt(-2.0 * (log_p + log(z) + 0.5 * log(2.0 * pi)))
    return z
