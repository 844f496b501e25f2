"""SGLang's diffusion models: add the mark in each step of its denoising algorithms.

SGLang finds algorithms by their names, and some models require an algorithm with a certain name. So
`register` replaces each algorithm by a marked one with the same name: LowConfidence and
JointThreshold (LLaDA 2.x, which also edits its tokens), JointThresholdInDel, Gemma4Renoise
(DiffusionGemma), and future ones. The bias is added to the logits of the block before the step of
the algorithm, so it affects every choice of the step.

patternmark is a plugin of SGLang ("sglang.srt.plugins"): SGLang runs `plugin` in each of its
processes. It has no effect unless PATTERNMARK_KEY is set.
"""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.adapters.serving import KEY_FILE, ServedMarks, ServerKey
from patternmark.errors import ParameterError, PatternmarkError

_WAITING_PAYLOADS = 2**16  # payloads of waiting requests that are remembered
_SPARE_REQUESTS = 64  # requests that are remembered besides running ones, as some are paused


def plugin() -> None:
    """Register, or end the process if that fails.

    SGLang only logs the errors of a plugin, and then runs without it. A server that should mark
    must not run unmarked.
    """
    try:
        register()
    except Exception as error:
        raise SystemExit(f"patternmark: {error}") from error


def register() -> None:
    """Mark all diffusion algorithms of this process if a key is set. It may be called again."""
    if not os.environ.get(KEY_FILE):
        return
    try:
        from sglang.srt.dllm import algorithm  # noqa: PLC0415
    except ImportError:
        advice = "pip install sglang (0.5.23 or later)"
        raise PatternmarkError(f"this hook needs sglang: {advice}") from None
    served = ServerKey.from_environment()
    if not algorithm.algo_name_to_cls:
        raise PatternmarkError("sglang has no diffusion algorithms: look for the reason in its log")
    for name, found in algorithm.algo_name_to_cls.items():
        if not issubclass(found, _Marked):
            algorithm.algo_name_to_cls[name] = marked_algorithm(found, served)


def marked_algorithm(algorithm: type[Any], served: ServerKey) -> type[Any]:
    """Return an algorithm with the same name that marks what it writes."""
    own = {"served": served, "payloads": OrderedDict(), "__doc__": algorithm.__doc__}
    return type(algorithm.__name__, (_Marked, algorithm), own)


@dataclass(frozen=True)
class _Request:
    slot: int
    prompt_length: int


class _Marked:
    """The base class of marked algorithms: `run` finds where texts begin, `step` adds the bias."""

    served: ServerKey
    payloads: OrderedDict[str, int]  # payloads of requests that were admitted but have not begun

    @classmethod
    def validate_request(cls, req: Any) -> str | None:
        """Return what is wrong with a request, or None; remember its payload.

        Requests are checked in the process that runs them; batches do not contain the payload.
        """
        try:
            payload = cls.served.payload_of(req.sampling_params.custom_params)
        except ParameterError as error:
            return str(error)
        wrong: str | None = super().validate_request(req)  # type: ignore[misc]
        if wrong is None and payload is not None:
            cls.payloads[req.rid] = payload
            if len(cls.payloads) > _WAITING_PAYLOADS:  # requests that were cancelled leave theirs
                cls.payloads.popitem(last=False)
        return wrong

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        self._limit = config.max_running_requests + _SPARE_REQUESTS
        self._requests: OrderedDict[str, _Request] = OrderedDict()
        self._marks: ServedMarks | None = None
        profile = self.served.marker.key.profile
        if profile.delta_at == "tempered" and hasattr(self, "t_min"):
            raise ParameterError(
                f"key {self.served.marker.key.key_id} has delta_at = 'tempered', but this "
                "algorithm changes its temperature at every step: take a key with "
                "delta_at = 'logits'"
            )

    def run(self, model_runner: Any, forward_batch: Any, algo_states: Any = None) -> Any:
        """Remember where the text of each request begins, then run the algorithm."""
        if forward_batch.forward_mode.is_dllm_extend():
            self._begin_texts(forward_batch)
        return super().run(model_runner, forward_batch, algo_states)  # type: ignore[misc]

    def step(self, forward_batch: Any, logits: Any, states: list[Any]) -> Any:
        """Run the step of the algorithm on marked logits: a tensor, or an output that has them."""
        if isinstance(logits, Tensor):
            marked = self._add_bias(forward_batch, logits)
        else:
            if getattr(logits, "full_logits", None) is None:
                raise ParameterError(
                    "this step has no logits of the whole vocabulary, so nothing can be marked: "
                    "switch off the option that shortens them"
                )
            marked = copy.copy(logits)
            marked.full_logits = self._add_bias(forward_batch, logits.full_logits)
        return super().step(forward_batch, marked, states)  # type: ignore[misc]

    def _begin_texts(self, forward_batch: Any) -> None:
        """Give new requests their slots. A text begins at the first position to be denoised.

        A block that contains only prompt begins no text. A request keeps its slot and its start,
        even if it was paused and its text has become part of its prefix.
        """
        given = self._block_start_list(forward_batch)  # type: ignore[attr-defined]
        block = self.block_size  # type: ignore[attr-defined]
        first = forward_batch.positions.view(-1, block)[:, 0].tolist()
        for row, request_id in enumerate(forward_batch.rids):
            if request_id in self._requests:
                self._requests.move_to_end(request_id)
            elif given[row] < block:
                self._open(request_id, first[row] + given[row], forward_batch.input_ids.device)

    def _open(self, request_id: str, prompt_length: int, device: torch.device) -> None:
        if self._marks is None:
            self._marks = ServedMarks(self.served.marker, self._limit, device)
        slot = len(self._requests)
        if slot >= self._limit:
            slot = self._requests.popitem(last=False)[1].slot  # the least recently used
        self._requests[request_id] = _Request(slot, prompt_length)
        self._marks.open(slot, request_id, self.payloads.pop(request_id, None))

    def _add_bias(self, forward_batch: Any, logits: Tensor) -> Tensor:
        known = [self._requests.get(request_id) for request_id in forward_batch.rids]
        if self._marks is None or not any(known):
            return logits
        block = self.block_size  # type: ignore[attr-defined]
        positions = forward_batch.positions.view(-1, block)
        ends = (positions[:, -1] + 1).tolist()
        self._marks.cover(
            {
                request.slot: end - request.prompt_length
                for request, end in zip(known, ends, strict=True)
                if request
            }
        )
        slots = positions.new_tensor([request.slot if request else 0 for request in known])
        # For an unknown request, the whole block counts as prompt.
        begins = positions.new_tensor(
            [
                request.prompt_length if request else end
                for request, end in zip(known, ends, strict=True)
            ]
        )
        places = positions - begins[:, None]
        return self._marks.add_to(logits, slots.repeat_interleave(block), places.reshape(-1))
