"""Small copies of what vLLM 0.32 and SGLang 0.5.23 show to a hook, written for these tests.

They keep the names, arguments and order of events of the real classes, and nothing of their speed.
Tests run on them everywhere; where the packages are installed, the same tests run on the real ones.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Marker

torch = pytest.importorskip("torch")

from patternmark.adapters.serving import ServerKey  # noqa: E402
from tests.adapters.tiny_models import MASK, NEVER, fluent_bert  # noqa: E402

BLOCK = 16


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
        self.argmax_canvas[torch.as_tensor(slots)] = best.to(self.argmax_canvas.device)
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


@contextmanager
def imported_afresh(name: str) -> Iterator[Any]:
    """A module that finds the copies, or the packages, of this moment."""
    sys.modules.pop(name, None)
    yield import_module(name)
    sys.modules.pop(name, None)


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


def request_states(prompt_lengths: list[int], device: Any = "cpu") -> Any:
    """vllm's LogitsProcRequestState: what a processor may read."""
    lengths = np.array(prompt_lengths, dtype=np.int32)
    return SimpleNamespace(
        device=torch.device(device),
        max_num_reqs=len(lengths),
        vocab_size=1024,
        prompt_len=SimpleNamespace(np=lengths, gpu=torch.as_tensor(lengths, device=device)),
    )


def consecutive(starts: list[int], length: int, device: Any = "cpu") -> Any:
    """The positions of blocks, one behind another."""
    first = torch.tensor(starts, device=device)[:, None]
    return (first + torch.arange(length, device=device)).view(-1)


def vllm_parameters(**extra: Any) -> Any:
    return SimpleNamespace(extra_args=extra or None, seed=None, temperature=1.0)


def vllm_config(is_diffusion: bool = False) -> Any:
    return SimpleNamespace(model_config=SimpleNamespace(is_diffusion=is_diffusion))


def vllm_context(slots: list[int], positions: list[int], device: Any = "cpu") -> Any:
    """vLLM's LogitsContext, one row for each request; positions are of the tokens just read."""
    rows = np.array(slots)
    return SimpleNamespace(
        expanded_idx_mapping=torch.as_tensor(rows, dtype=torch.int32, device=device),
        idx_mapping_np=rows,
        pos=torch.tensor(positions, device=device),
        seq_lens_upper_bound_np=np.array(positions) + 1,
    )


def vllm_serve(
    processor: Any, model: Any, texts: dict[int, list[int]], steps: int, generator: Any = None
) -> None:
    """Continue the text of each slot, rows in another order at each step; greedily by default."""
    for step in range(steps):
        order = sorted(texts, reverse=step % 2 == 0)
        ids = [torch.tensor([texts[slot]], device=model.device) for slot in order]
        with torch.no_grad():
            logits = torch.stack([model(row).logits[0, -1] for row in ids])
        ends = [len(texts[slot]) - 1 for slot in order]
        marked = processor.apply(logits, vllm_context(order, ends, model.device))
        marked[:, NEVER] = -torch.inf
        drawn = marked.argmax(dim=-1)
        if generator is not None:
            drawn = torch.multinomial(marked.softmax(dim=-1), 1, generator=generator)[:, 0]
        for slot, token in zip(order, drawn.tolist(), strict=True):
            texts[slot].append(token)


def vllm_canvas_batch(slots: list[int], starts: list[int], length: int, device: Any = "cpu") -> Any:
    """vLLM's InputBatch of a denoising step: each request has one row for each canvas position."""
    positions = consecutive(starts, length, device)
    return SimpleNamespace(
        num_reqs=len(slots),
        num_draft_tokens=len(positions),
        idx_mapping_np=np.array(slots),
        expanded_idx_mapping=torch.tensor(slots, device=device).repeat_interleave(length),
        positions=positions,
        logits_indices=torch.arange(len(positions), device=device),
        seq_lens_cpu_upper_bound=torch.tensor(starts) + length,
    )


class Server:
    """Runs requests together, block by block; a finished block becomes part of the prefix."""

    def __init__(self, algorithm: Any, requests: dict[str, list[int]], model: Any = None) -> None:
        self.algorithm, self.texts = algorithm, dict(requests)
        self.prompt_lengths = {name: len(prompt) for name, prompt in requests.items()}
        self.states: dict[str, Any] = dict.fromkeys(requests)
        self.open: dict[str, list[int]] = {}
        self.model = fluent_bert(spread=0.1) if model is None else model
        self.device = self.model.device
        self.done_prefill = dict.fromkeys(requests, 0)

    @torch.no_grad()
    def forward(self, batch: Any, pp_proxy_tensors: Any = None) -> Any:
        """Logits of each row's block, which sees the text before it."""
        blocks = batch.input_ids.view(-1, BLOCK)
        logits = []
        for name, block, first in zip(batch.rids, blocks, batch.positions[::BLOCK], strict=True):
            before = block.new_tensor(self.texts[name][: int(first)])
            logits.append(self.model(torch.cat([before, block])[None]).logits[0, -BLOCK:])
        output = SimpleNamespace(full_logits=torch.cat(logits))
        return SimpleNamespace(logits_output=output, can_run_graph=False)

    def run_block(self, names: list[str]) -> None:
        starts = [self.done_prefill[name] for name in names]
        tokens = []
        for name, start in zip(names, starts, strict=True):
            block = self.open.get(name) or self.texts[name][start : start + BLOCK]
            tokens += block + [MASK] * (BLOCK - len(block))
        batch = SimpleNamespace(
            batch_size=len(names),
            input_ids=torch.tensor(tokens, device=self.device),
            positions=consecutive(starts, BLOCK, self.device),
            rids=names,
            dllm_prompt_mask=None,
            forward_mode=SimpleNamespace(is_dllm_extend=lambda: True),
        )
        states = [self.states[name] for name in names]
        _, _, accepted, left, _ = self.algorithm.run(self, batch, states)
        for row, name in enumerate(names):
            block = batch.input_ids.view(-1, BLOCK)[row].tolist()
            self.states[name] = left[row] if left else None
            if accepted is not None and not accepted[row]:
                self.open[name] = block
                continue
            self.open.pop(name, None)
            self.texts[name][starts[row] : starts[row] + BLOCK] = block
            self.done_prefill[name] += BLOCK

    def written(self, name: str, length: int) -> np.ndarray:
        start = self.prompt_lengths[name]
        return np.array(self.texts[name][start : start + length])


@contextmanager
def vllm_processor(marker: Marker, prompt_length: int, device: Any) -> Iterator[tuple[Any, Any]]:
    """The hook over the copy of vLLM, and its processor with a text in each of two slots."""
    with pytest.MonkeyPatch.context() as patch:
        install_vllm(patch)
        with imported_afresh("patternmark.adapters.vllm") as hook:
            hook._server_key = lambda: ServerKey(marker)
            states = request_states([prompt_length] * 2, device)
            processor = hook.PatternMarkProcessor(vllm_config(), states)
            for slot in (0, 1):
                processor.add_request(slot, vllm_request(slot))
            yield hook, processor


def vllm_request(slot: int) -> Any:
    return vllm_parameters(patternmark_seed=slot)
