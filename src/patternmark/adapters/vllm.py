r"""vLLM: a logits processor that marks left-to-right models and DiffusionGemma.

    PATTERNMARK_KEY=text.key vllm serve MODEL \
        --logits-processors patternmark.adapters.vllm:PatternMarkProcessor

The processor uses the interface of model runner V2, `apply(logits, ctx)`, which gives the position
of each row of logits in its request. DiffusionGemma has its own sampler, which does not call
processors. So for this model the processor wraps the sampler.
"""

from __future__ import annotations

import logging
from functools import cache, wraps
from importlib import import_module
from typing import Any

from patternmark.adapters.needs_torch import Tensor
from patternmark.adapters.serving import ServedMarks, ServerKey
from patternmark.core.secret import fresh_seed
from patternmark.errors import ParameterError, PatternmarkError

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor
except ImportError:
    advice = "pip install vllm (0.32 or later: it has processors for model runner V2)"
    raise PatternmarkError(f"this hook needs vllm: {advice}") from None

SEED_FIELD = "patternmark_seed"  # in the extra_args of a request; see `validate_params`
_DIFFUSION_STATE = "vllm.model_executor.models.diffusion_gemma", "DiffusionGemmaModelState"

_log = logging.getLogger(__name__)


@cache
def _server_key() -> ServerKey:
    """Return the key of this process, which is read once."""
    return ServerKey.from_environment()


class PatternMarkProcessor(LogitsProcessor):  # type: ignore[misc]  # vllm may be absent
    """Marks every request of a server. No request can switch it off.

    A request may give its payload in `extra_args` if the operator allows it. Beam search in vLLM is
    a loop of requests of one token each. The places of these tokens in the text are unknown, so
    beam search cannot be marked.
    """

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self._req_states = req_states
        self.marks = ServedMarks(_server_key().marker, req_states.max_num_reqs, req_states.device)
        if getattr(vllm_config.model_config, "is_diffusion", False):
            mark_diffusion_samplers()

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Check the payload of a request, and give the request its seed.

        This runs once for each request, before its parameters are copied to the workers. All
        workers must use the same keys, also after a request was paused. So the seed is stored in
        the parameters. A seed from the client is replaced: clients who choose seeds could get the
        keys of one text again.
        """
        arguments = dict(sampling_params.extra_args or {})
        _server_key().payload_of(arguments)
        sampling_params.extra_args = arguments | {SEED_FIELD: fresh_seed()}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Begin the text of a request in its slot."""
        arguments = sampling_params.extra_args or {}
        seed = arguments.get(SEED_FIELD)
        if seed is None:
            _log.debug("a request has no seed of its own: it shares its keys with other requests")
        self.marks.open(
            req_idx,
            f"{seed}/{sampling_params.seed}",  # several answers of one request differ in the second
            _server_key().payload_of(arguments),
            sampling_params.temperature,
        )
        return True

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:
        """Return the logits [rows, V] of the next tokens with their bias."""
        prompt_lengths = self._req_states.prompt_len
        self.marks.cover(
            {
                slot: length - int(prompt_lengths.np[slot]) + 1
                for slot, length in zip(
                    ctx.idx_mapping_np.tolist(), ctx.seq_lens_upper_bound_np.tolist(), strict=False
                )
            }
        )
        slots = ctx.expanded_idx_mapping.long()
        places = ctx.pos + 1 - prompt_lengths.gpu[slots].to(ctx.pos.device)
        return self.marks.add_to(logits, slots, places)

    def mark_canvases(self, logits: Tensor, input_batch: Any, skipped: frozenset[int]) -> Tensor:
        """Return the logits [rows, V] of canvases with their bias; slots in `skipped` get none."""
        prompt_lengths = self._req_states.prompt_len
        slots = input_batch.expanded_idx_mapping.long()
        positions = input_batch.positions[input_batch.logits_indices]
        used = input_batch.idx_mapping_np[: input_batch.num_reqs].tolist()
        ends = input_batch.seq_lens_cpu_upper_bound.tolist()
        self.marks.cover(
            {
                slot: end - int(prompt_lengths.np[slot])
                for slot, end in zip(used, ends, strict=False)
            }
        )
        places = positions - prompt_lengths.gpu[slots].to(positions.device)
        for slot in skipped:
            places = places.masked_fill(slots == slot, -1)
        return self.marks.add_to(logits, slots, places)


class MarkedDiffusionSampler:
    """DiffusionGemma's sampler with marked logits; all else is unchanged.

    The bias is added at every denoising step. So it affects which tokens a step accepts, the input
    of the next step, and the final tokens. Requests that only read a canvas (`diffusion_read_only`,
    or a set of allowed tokens) get no bias, as they write no text.
    """

    def __init__(self, sampler: Any, processor: PatternMarkProcessor) -> None:
        self._sampler, self._processor = sampler, processor

    def __call__(self, logits: Tensor, input_batch: Any, *args: Any, **kwargs: Any) -> Any:
        states = self._sampler.diffusion_states
        if input_batch.num_draft_tokens and getattr(states, "step_allowed", None) is None:
            reading = {*getattr(states, "read_only_slots", ()), *getattr(states, "constrained", ())}
            logits = self._processor.mark_canvases(logits, input_batch, frozenset(reading))
        return self._sampler(logits, input_batch, *args, **kwargs)

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        """Begin a request in the sampler and in the processor."""
        self._sampler.add_request(req_idx, sampling_params)
        self._processor.add_request(req_idx, sampling_params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


def mark_diffusion_samplers() -> None:
    """Wrap DiffusionGemma's samplers in this process. Repeated calls have no effect."""
    module, name = _DIFFUSION_STATE
    state = getattr(import_module(module), name)
    make = state.custom_sampler
    if getattr(make, "is_marked", False):
        return

    @wraps(make)
    def custom_sampler(self: Any, sampler: Any) -> Any:
        made, rejection = make(self, sampler)
        ours = [p for p in sampler.logits_processors if isinstance(p, PatternMarkProcessor)]
        if not ours:
            return made, rejection
        if _server_key().marker.key.profile.delta_at == "tempered":
            raise ParameterError(
                f"key {_server_key().marker.key.key_id} has delta_at = 'tempered', but "
                "DiffusionGemma changes its temperature at every step: take a key with "
                "delta_at = 'logits'"
            )
        return MarkedDiffusionSampler(made, ours[0]), rejection

    custom_sampler.is_marked = True  # type: ignore[attr-defined]
    state.custom_sampler = custom_sampler
