"""vLLM's own loader, parameters and DiffusionGemma sampler, where vLLM is installed.

On a machine without a GPU three helpers of the sampler are replaced: the buffers that a GPU reads
from the host's memory, and the questions whether memory can be pinned and how much is free. All
else is vLLM's.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Key
from patternmark.core.keyfile import save_key
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
loader = pytest.importorskip(
    "vllm.v1.worker.gpu.sample.logits_processor.loader", reason="vllm is not installed"
)

from tests.adapters.stack_copies import request_states  # noqa: E402
from tests.adapters.tiny_models import NO_TOKENS, NUM_COLUMNS, SPECIAL, words_key  # noqa: E402

NEVER = [*SPECIAL, *NO_TOKENS]
NAME = "patternmark.adapters.vllm:PatternMarkProcessor"
CANVAS = 32


@pytest.fixture
def key(secret: Secret, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Key:
    made = words_key(secret, scheme="turns", starts=512, nonces=64)
    save_key(made, tmp_path / "text.key")
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "text.key"))
    monkeypatch.setenv("PATTERNMARK_PAYLOAD", "request")
    from patternmark.adapters import vllm

    vllm._server_key.cache_clear()
    return made


def processor_of(prompt_lengths: list[int]) -> Any:
    """The processor as vLLM makes it from its name."""
    states = request_states(prompt_lengths)
    states.all_token_ids = states.prefill_len = states.total_len = None
    config = SimpleNamespace(model_config=SimpleNamespace(is_diffusion=True))
    [made] = loader.build_custom_logits_processors(config, states, False, [NAME])
    return made


def test_vllm_loads_the_processor_and_checks_requests(key: Key) -> None:
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    validate = loader.build_custom_logits_processors_params_validator([NAME])
    own = SamplingParams(temperature=0.7, extra_args={"patternmark_payload": 3})
    validate(own)
    clones = [own.clone()]
    validate(own)
    clones.append(own.clone())
    seeds = {clone.extra_args["patternmark_seed"] for clone in clones}
    assert len(seeds) == 2  # one parameter object for two prompts
    assert processor_of([5]).add_request(0, clones[0])
    with pytest.raises(VLLMValidationError, match="payloads from 0 to 63"):
        validate(SamplingParams(extra_args={"patternmark_payload": 64}))


class HostBuffer:
    """UvaBackedTensor without a GPU that would look into it."""

    def __init__(self, size: int, dtype: Any) -> None:
        self.gpu = torch.zeros(size, dtype=dtype)
        self.np = self.gpu.numpy()

    def copy_to_uva(self) -> Any:
        return self.gpu


@pytest.fixture
def gemma(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    module = pytest.importorskip("vllm.model_executor.models.diffusion_gemma")
    if not torch.cuda.is_available():
        monkeypatch.setattr(module, "UvaBackedTensor", HostBuffer)
        monkeypatch.setattr("vllm.utils.torch_utils.is_pin_memory_available", lambda: False)
        monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda: (2**30, 2**30))
    with torch._dynamo.config.patch(disable=True):
        yield module


def real_sampler(module: Any, slots: int) -> Any:
    states = module.DiffusionGemmaRequestStates(
        max_num_reqs=slots, canvas_length=CANVAS, vocab_size=NUM_COLUMNS, max_denoising_steps=4,
        device=torch.device("cpu"), hidden_size=8, stability_threshold=2,
    )  # fmt: skip
    sampling = SimpleNamespace(
        add_request=lambda slot, own: None,
        get_top_k_top_p=lambda slots, numbers: (None, None),
        max_num_logprobs=lambda slots: -1,
    )
    ids = SimpleNamespace(add_request=lambda *_: None, max_num_token_ids=lambda slots: 0)
    outer = SimpleNamespace(
        sampling_states=sampling,
        logprob_token_ids_state=ids,
        req_states=SimpleNamespace(draft_tokens=torch.zeros(slots, CANVAS, dtype=torch.long)),
        logprobs_mode="raw_logprobs",
    )
    return module.DiffusionSampler(
        outer, SimpleNamespace(canvas_length=CANVAS), NUM_COLUMNS, states,
        confidence_threshold=0.005, t_min=0.4, t_max=0.8, entropy_bound=0.1,
        embed_weight=torch.randn(NUM_COLUMNS, 8), normalizer=torch.ones(()),
    )  # fmt: skip


def batch(prompt: int, canvas: int, *, prefill: bool = False) -> Any:
    """One request in slot 1."""
    rows = 0 if prefill else CANVAS
    start = prompt + CANVAS * canvas
    return SimpleNamespace(
        num_reqs=1,
        num_draft_tokens=rows,
        idx_mapping=torch.tensor([1]),
        idx_mapping_np=np.array([1]),
        expanded_idx_mapping=torch.ones(rows, dtype=torch.int32),
        positions=torch.arange(start, start + rows),
        logits_indices=torch.arange(rows),
        seq_lens_cpu_upper_bound=torch.tensor([start + rows]),
        cu_num_logits_np=np.array([0, rows]),
        query_start_loc=torch.tensor([0, max(rows, prompt)]),
        query_start_loc_np=np.array([0, max(rows, prompt)]),
        num_computed_prefill_tokens_np=np.array([0]),
        num_scheduled_tokens=np.array([prompt]),
        prefill_len_np=np.array([prompt]),
    )


@pytest.mark.parametrize("delta", [3.0, 0.0])
def test_the_real_sampler_writes_marked_canvases(
    key: Key, gemma: Any, monkeypatch: pytest.MonkeyPatch, delta: float
) -> None:
    from vllm import SamplingParams

    from patternmark.adapters import vllm as hook

    monkeypatch.setenv("PATTERNMARK_DELTA", str(delta))
    hook._server_key.cache_clear()
    prompt, processor = 7, processor_of([0, 7])
    inner = real_sampler(gemma, slots=2)
    sampler = hook.MarkedDiffusionSampler(inner, processor)
    own = SamplingParams(extra_args={"patternmark_payload": 21})
    processor.validate_params(own)
    inner.diffusion_states.add_request(1)
    sampler.add_request(1, own)
    generator = torch.Generator().manual_seed(4)
    sampler(torch.zeros(0, NUM_COLUMNS), batch(prompt, 0, prefill=True))
    written: list[int] = []
    logits = torch.randn(CANVAS, NUM_COLUMNS, generator=generator)
    for _ in range(60):
        logits[:, NEVER] = -30.0
        output = sampler(logits, batch(prompt, len(written) // CANVAS))
        if int(output.num_sampled[0]):
            written += output.sampled_token_ids[0].tolist()
            logits = torch.randn(CANVAS, NUM_COLUMNS, generator=generator)
        if len(written) == 6 * CANVAS:
            break
    verdict = Detector(key).detect(np.array(written))
    assert len(written) == 6 * CANVAS
    assert verdict.prediction is (delta > 0)
    if delta:
        assert (verdict.payload, verdict.log10_p < -6) == (21, True)
