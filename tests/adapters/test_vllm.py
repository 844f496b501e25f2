"""vLLM's processor and DiffusionGemma's sampler: on copies of them, and on the real ones if here.

The real `Sampler` needs a GPU. So the loops around the hooks are written here, with the batches
that vLLM's model runner makes: rows change places, requests come and go, a slot is used again.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, ParameterError, PatternmarkError
from patternmark.core.keyfile import save_key
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from tests.adapters import stack_copies  # noqa: E402
from tests.adapters.stack_copies import (  # noqa: E402
    request_states,
    vllm_canvas_batch,
    vllm_config,
    vllm_context,
    vllm_parameters,
)
from tests.adapters.tiny_models import (  # noqa: E402
    NEVER,
    NUM_COLUMNS,
    prompts,
    tiny_gpt2,
    words_key,
)

HOOK = "patternmark.adapters.vllm"


@pytest.fixture
def key(secret: Secret) -> Key:
    return words_key(secret, scheme="turns", starts=512, nonces=64)


@pytest.fixture(params=["copy", "real"])
def hook(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: Key
) -> Iterator[Any]:
    """The hook's module over a copy of vLLM's interface, or over vLLM itself."""
    if request.param == "real":
        pytest.importorskip(
            "vllm.v1.worker.gpu.sample.logits_processor", reason="vllm is not installed"
        )
    else:
        stack_copies.install_vllm(monkeypatch)
    save_key(key, tmp_path / "text.key")
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "text.key"))
    monkeypatch.setenv("PATTERNMARK_PAYLOAD", "request")
    with stack_copies.imported_afresh(HOOK) as module:
        yield module


def test_running_requests_are_marked_and_detected(hook: Any, key: Key) -> None:
    """Two prompts of different lengths, rows in another order at each step, one slot used twice."""
    model, generator = tiny_gpt2(), torch.Generator().manual_seed(1)
    texts = {0: prompts(1, 9)[0].tolist(), 2: prompts(1, 5, seed=1)[0].tolist()}
    lengths = [9, 0, 5]
    processor = hook.PatternMarkProcessor(vllm_config(), request_states(lengths))
    for slot in (0, 2):
        stale = vllm_parameters()
        processor.add_request(slot, stale)
        own = vllm_parameters(patternmark_payload=40 + slot)
        processor.validate_params(own)
        assert processor.add_request(slot, own)
    stack_copies.vllm_serve(processor, model, texts, 140, generator)
    written = [texts[slot][lengths[slot] :] for slot in (0, 2)]
    verdicts = Detector(key).detect_many([np.array(text) for text in written])
    assert [verdict.prediction for verdict in verdicts] == [True, True]
    assert [verdict.payload for verdict in verdicts] == [40, 42]


def test_places_count_from_the_prompt_and_drafts_have_their_own(hook: Any, key: Key) -> None:
    """The row that read the prompt's last token writes place 0; earlier ones carry no key."""
    processor = hook.PatternMarkProcessor(vllm_config(), request_states([7, 4]))
    own = vllm_parameters(patternmark_payload=5)
    processor.validate_params(own)
    processor.add_request(1, own)
    ctx = vllm_context([1], [8])  # two drafts beyond the token that is certain
    ctx.expanded_idx_mapping, ctx.pos = torch.tensor([1] * 4), torch.tensor([2, 3, 7, 8])
    bias = processor.apply(torch.zeros(4, NUM_COLUMNS), ctx)[:, :1000].numpy()
    marker = Marker(key, payload=5)
    keys = marker.key_sequence(6, f"{own.extra_args['patternmark_seed']}/None")
    assert not bias[0].any()
    np.testing.assert_allclose(bias[1:], marker.bias(keys[[0, 4, 5]], temperature=1.0))


def test_every_request_has_a_fresh_seed_that_no_client_chose(hook: Any) -> None:
    first, second = vllm_parameters(patternmark_seed=1), vllm_parameters(patternmark_seed=1)
    shared = first.extra_args
    for own in (first, second):
        hook.PatternMarkProcessor.validate_params(own)
    seeds = {own.extra_args["patternmark_seed"] for own in (first, second)}
    assert len(seeds) == 2
    assert 1 not in seeds
    assert shared == {"patternmark_seed": 1}  # the client's own dictionary is not changed
    with pytest.raises(ValueError, match="payloads from 0 to 63, not 64"):
        hook.PatternMarkProcessor.validate_params(vllm_parameters(patternmark_payload=64))


def test_canvases_are_marked_at_their_own_positions(hook: Any, key: Key) -> None:
    """The sampler is wrapped; what only reads is left alone, and so is a prefill."""
    processor = hook.PatternMarkProcessor(vllm_config(), request_states([6, 3, 4]))
    inner = stack_copies.DiffusionSampler(16, 4, 3)
    sampler = hook.MarkedDiffusionSampler(inner, processor)
    own = vllm_parameters(patternmark_payload=7)
    processor.validate_params(own)
    for slot in (0, 2):
        sampler.add_request(slot, own)
    assert (inner.added, sampler.canvas_length) == ([0, 2], 16)
    logits = torch.randn(48, NUM_COLUMNS, generator=torch.Generator().manual_seed(2))
    logits[:, NEVER] = -torch.inf
    written: dict[int, list[int]] = {0: [], 2: []}
    for canvas in range(8):
        batch = vllm_canvas_batch([2, 0], [4 + 16 * canvas, 6 + 16 * canvas], 16)
        before = logits.clone()
        best = sampler(logits[:32], batch, draft_logits=None)
        assert torch.equal(logits, before)  # they belong to the model runner
        for slot, row in zip([2, 0], best, strict=True):
            written[slot] += row.tolist()
        logits = logits.roll(1, dims=0)[:, torch.randperm(NUM_COLUMNS)]
        logits[:, NEVER] = -torch.inf
    verdicts = Detector(key).detect_many([np.array(written[slot]) for slot in (0, 2)])
    assert [(verdict.prediction, verdict.payload) for verdict in verdicts] == [(True, 7)] * 2
    inner.diffusion_states.read_only_slots.add(0)
    best = sampler(logits[:32], vllm_canvas_batch([2, 0], [4, 6], 16))
    assert torch.equal(best[1], logits[16:32].argmax(dim=-1))
    assert not torch.equal(best[0], logits[:16].argmax(dim=-1))
    inner.diffusion_states.step_allowed = torch.arange(5, 15)
    narrow = sampler(logits[:32, 5:15], vllm_canvas_batch([2, 0], [4, 6], 16))
    assert torch.equal(narrow.view(-1), logits[:32, 5:15].argmax(dim=-1))


def test_the_processor_of_a_diffusion_model_wraps_its_sampler(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = importlib.import_module("vllm.model_executor.models.diffusion_gemma")
    made = stack_copies.DiffusionSampler(16, 4, 8)
    monkeypatch.setattr(
        state.DiffusionGemmaModelState, "custom_sampler", lambda self, sampler: (made, None)
    )
    served = vllm_config(is_diffusion=True)
    processors = [hook.PatternMarkProcessor(served, request_states([3])) for _ in range(2)]
    make = state.DiffusionGemmaModelState.custom_sampler
    own, rejection = make(None, SimpleNamespace(logits_processors=processors[1:]))
    assert isinstance(own, hook.MarkedDiffusionSampler)
    assert own._sampler is made  # wrapped once, although two processors were made
    assert rejection is None
    assert make(None, SimpleNamespace(logits_processors=[]))[0] is made


def test_a_tempered_key_is_refused_for_diffusion(
    hook: Any, secret: Secret, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sampler has another temperature at every step."""
    save_key(words_key(secret, delta_at="tempered"), tmp_path / "tempered.key")
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "tempered.key"))
    monkeypatch.delenv("PATTERNMARK_PAYLOAD")
    state = importlib.import_module("vllm.model_executor.models.diffusion_gemma")
    monkeypatch.setattr(
        state.DiffusionGemmaModelState, "custom_sampler", lambda self, sampler: (None, None)
    )
    own = hook.PatternMarkProcessor(vllm_config(is_diffusion=True), request_states([3]))
    with pytest.raises(ParameterError, match="take a key with delta_at = 'logits'"):
        state.DiffusionGemmaModelState.custom_sampler(
            None, SimpleNamespace(logits_processors=[own])
        )


def test_without_vllm_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.delitem(sys.modules, HOOK, raising=False)
    for name in [name for name in sys.modules if name.startswith("vllm.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(PatternmarkError, match="this hook needs vllm: pip install vllm"):
        importlib.import_module(HOOK)
