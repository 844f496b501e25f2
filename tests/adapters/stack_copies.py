"""Small copies of what vLLM 0.32 and SGLang 0.5.23 show to a hook, written for these tests.

They keep the names, arguments and order of events of the real classes, and nothing of their speed.
Tests run on them everywhere; where the packages are installed, the same tests run on the real ones.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


class LogitsProcessor(ABC):
    """vllm.v1.worker.gpu.sample.logits_processor.LogitsProcessor."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:  # noqa: B027
        """Take what stays as long as the server runs."""

    @classmethod  # noqa: B027
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request, or not."""

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        return True

    def apply_staged_writes(self) -> None:  # noqa: B027
        """Called before each step."""

    @abstractmethod
    def apply(self, logits: Any, ctx: Any) -> Any: ...


class DiffusionSampler:
    """DiffusionGemma's sampler: accept what is certain, renoise the rest, keep the best guess.

    A canvas of every slot is denoised for some steps; then its argmax is what was written.
    """

    def __init__(self, canvas_length: int, steps: int, slots: int) -> None:
        self.canvas_length, self.steps = canvas_length, steps
        self.diffusion_states = SimpleNamespace(step_allowed=None, read_only_slots=set())
        self.argmax_canvas = torch.zeros(slots, canvas_length, dtype=torch.long)
        self.added: list[int] = []

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        self.added.append(req_idx)

    def __call__(self, logits: Any, input_batch: Any, draft_logits: Any = None) -> Any:
        if input_batch.num_draft_tokens == 0:
            return None
        slots = input_batch.idx_mapping_np[: input_batch.num_reqs]
        best = logits.argmax(dim=-1).view(len(slots), self.canvas_length)
        self.argmax_canvas[torch.as_tensor(slots)] = best
        return best


class DiffusionGemmaModelState:
    """The one method that makes the sampler, out of the sampler for other models."""

    def custom_sampler(self, sampler: Any) -> Any:
        return DiffusionSampler(16, 4, 8), None


def install_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `import vllm...` find the copies."""
    processors = ModuleType("vllm.v1.worker.gpu.sample.logits_processor")
    processors.LogitsProcessor = LogitsProcessor  # type: ignore[attr-defined]
    gemma = ModuleType("vllm.model_executor.models.diffusion_gemma")
    gemma.DiffusionGemmaModelState = DiffusionGemmaModelState  # type: ignore[attr-defined]
    for module in (processors, gemma):
        names = module.__name__.split(".")
        for end in range(1, len(names)):
            name = ".".join(names[:end])
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, module.__name__, module)


class DllmAlgorithm:
    """sglang.srt.dllm.algorithm.base.DllmAlgorithm, without first-done-first-out."""

    def __init__(self, config: Any) -> None:
        self.block_size, self.mask_id = config.block_size, config.mask_id
        self.fdfo = config.first_done_first_out_mode

    @classmethod
    def validate_request(cls, req: Any) -> str | None:
        return None

    def init_step_state(self, forward_batch: Any) -> list[Any]:
        return [None] * forward_batch.batch_size

    def step(self, forward_batch: Any, full_logits: Any, states: list[Any]) -> list[bool]:
        raise NotImplementedError

    def _block_start_list(self, forward_batch: Any) -> list[int]:
        tokens = forward_batch.input_ids.view(-1, self.block_size)
        starts: list[int] = (tokens != self.mask_id).sum(dim=1).tolist()
        return starts

    def run(self, model_runner: Any, forward_batch: Any, algo_states: Any = None) -> Any:
        starts = self._block_start_list(forward_batch)
        states = self.init_step_state(forward_batch)
        output = model_runner.forward(forward_batch, pp_proxy_tensors=None)
        if min(starts) == self.block_size:
            return output.logits_output, [], None, None, False
        for _ in range(4 * self.block_size):
            if all(self.step(forward_batch, output.logits_output.full_logits, states)):
                break
            output = model_runner.forward(forward_batch, pp_proxy_tensors=None)
        tokens = forward_batch.input_ids.view(-1, self.block_size)
        written = [row[start:] for row, start in zip(tokens, starts, strict=True)]
        return output.logits_output, written, None, None, False


class LowConfidence(DllmAlgorithm):
    """Masks above a threshold settle, or else the surest one; what is written stays."""

    edits = False

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.threshold = config.algorithm_config.get("threshold", 0.95)

    def step(self, forward_batch: Any, full_logits: Any, states: list[Any]) -> list[bool]:
        tokens = forward_batch.input_ids.view(-1, self.block_size)
        shares, best = full_logits.softmax(dim=-1).max(dim=-1)
        shares, best = shares.view(tokens.shape), best.view(tokens.shape)
        done = []
        for row in range(len(tokens)):
            is_open = tokens[row] == self.mask_id
            if states[row] is None:
                states[row] = is_open.clone()  # what the text may change
            sure = (shares[row] > self.threshold) & is_open
            if is_open.any() and not sure.any():
                sure[shares[row].masked_fill(~is_open, -1).argmax()] = True
            if self.edits:
                sure |= states[row] & ~is_open & (best[row] != tokens[row])
            done.append(not bool(sure.any()))
            tokens[row, sure] = best[row, sure]
        return done


class JointThreshold(LowConfidence):
    """The same, and written tokens give way to surer ones."""

    edits = True


def algorithms() -> dict[str, Any]:
    return {"LowConfidence": LowConfidence, "JointThreshold": JointThreshold}


def dllm_config(block_size: int, mask_id: int, threshold: float) -> Any:
    """sglang.srt.dllm.config.DllmConfig."""
    return SimpleNamespace(
        algorithm_config={"threshold": threshold},
        block_size=block_size,
        mask_id=mask_id,
        max_running_requests=4,
        first_done_first_out_mode=False,
    )


def request_states(prompt_lengths: list[int]) -> Any:
    """vllm's LogitsProcRequestState: what a processor may read."""
    lengths = np.array(prompt_lengths, dtype=np.int32)
    return SimpleNamespace(
        device=torch.device("cpu"),
        max_num_reqs=len(lengths),
        vocab_size=1024,
        prompt_len=SimpleNamespace(np=lengths, gpu=torch.as_tensor(lengths)),
    )
