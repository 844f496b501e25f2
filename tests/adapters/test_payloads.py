"""Every hook writes a number of 16 bits into about 200 tokens, and `Detector` reads it back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, ParameterError
from patternmark.core.keyfile import save_key
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.dream import dream_hook  # noqa: E402
from patternmark.adapters.llada import llada_generate  # noqa: E402
from patternmark.adapters.llada2 import llada2_marked  # noqa: E402
from patternmark.adapters.mdlm import mdlm_generate  # noqa: E402
from patternmark.adapters.transformers import (  # noqa: E402
    PatternMarkConfig,
    PatternMarkDiffusionProcessor,
    PatternMarkLogitsProcessor,
)
from tests.adapters import stack_copies, test_sglang  # noqa: E402
from tests.adapters.loops import (  # noqa: E402
    dream_generate,
    generate_canvases,
    generate_words,
    llada2_generate,
)
from tests.adapters.tiny_models import (  # noqa: E402
    MASK,
    NO_TOKENS,
    NUM_COLUMNS,
    SPECIAL,
    prompts,
    tiny_bert,
    tiny_diffusion_gemma,
    tiny_gpt2,
    tiny_llama,
    words_key,
)

PAYLOAD, PROMPT, LENGTH = 40961, 10, 192

# torch warns about its own modules when generate() first imports them.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


@pytest.fixture
def key(secret: Secret) -> Key:
    return words_key(secret, scheme="turns", nonces=65536)


def generator() -> Any:
    return torch.Generator().manual_seed(7)


def of_config(key: Key) -> Any:
    config = PatternMarkConfig(key, payload=PAYLOAD)
    return generate_words(tiny_llama(), prompts(2, PROMPT), LENGTH, watermarking_config=config)


def of_processor(key: Key) -> Any:
    processor = PatternMarkLogitsProcessor(Marker(key, payload=PAYLOAD))
    return generate_words(tiny_gpt2(), prompts(2, PROMPT), LENGTH, logits_processor=[processor])


def of_diffusion_gemma(key: Key) -> Any:
    processor = PatternMarkDiffusionProcessor(Marker(key, payload=PAYLOAD))
    return generate_canvases(tiny_diffusion_gemma(), prompts(2, PROMPT), processor, LENGTH)


def of_llada(key: Key) -> Any:
    return llada_generate(
        tiny_bert(), prompts(2, PROMPT), Marker(key, payload=PAYLOAD), mask_id=MASK,
        gen_length=LENGTH, block_length=32, steps=48, temperature=1.0, forbidden=SPECIAL,
        generator=generator(),
    )  # fmt: skip


def of_mdlm(key: Key) -> Any:
    return mdlm_generate(
        tiny_bert(), prompts(2, PROMPT), Marker(key, payload=PAYLOAD), mask_id=MASK,
        length=LENGTH, steps=16, forbidden=SPECIAL, generator=generator(),
    )  # fmt: skip


def of_dream(key: Key) -> Any:
    hook = dream_hook(Marker(key, payload=PAYLOAD), PROMPT, temperature=0.8)
    bert, prompt = tiny_bert(), prompts(2, PROMPT)
    return dream_generate(bert, prompt, LENGTH, 32, 0.8, generation_logits_hook_func=hook)


class Varied(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A model that likes other tokens at every place, so that greedy decoding draws at random."""

    def __init__(self) -> None:
        super().__init__()
        shares = torch.rand(256, NUM_COLUMNS, generator=generator())
        self.likes = -(-shares.log()).log()
        self.likes[:, [*SPECIAL, *NO_TOKENS]] = -50.0

    def forward(self, tokens: Any, position_ids: Any) -> Any:
        return SimpleNamespace(logits=self.likes[position_ids].clone())


def of_llada2(key: Key) -> Any:
    model = Varied()
    with llada2_marked(model, Marker(key, payload=PAYLOAD), prompt_length=PROMPT):
        return llada2_generate(model, prompts(2, PROMPT), LENGTH)


HOOKS = [of_config, of_processor, of_diffusion_gemma, of_llada, of_llada2, of_mdlm, of_dream]


def assert_read(key: Key, texts: Any) -> None:
    for verdict in Detector(key).detect_many(texts):
        assert (verdict.prediction, verdict.payload) == (True, PAYLOAD)
        assert verdict.payload_error is not None
        assert verdict.payload_error < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("written_by", HOOKS)
def test_sixteen_bits_come_back(key: Key, written_by: Callable[[Key], Any]) -> None:
    assert_read(key, written_by(key)[:, PROMPT:].numpy())


def test_sixteen_bits_come_back_from_sglang(key: Key) -> None:
    made = test_sglang.marked_algorithm(
        stack_copies.LowConfidence, test_sglang.served_by(key, delta=3.0)
    )
    prompt = prompts(1, 16)[0].tolist()
    server = stack_copies.Server(made(test_sglang.config("copy")), {"text": prompt})
    assert test_sglang.admitted(made, "text", patternmark_payload=PAYLOAD) is None
    while server.done_prefill["text"] < 16 + LENGTH:
        server.run_block(["text"])
    assert_read(key, [server.written("text", LENGTH)])


@pytest.mark.parametrize("by_request", [True, False])
def test_sixteen_bits_come_back_from_vllm(
    key: Key, by_request: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack_copies.install_vllm(monkeypatch)
    save_key(key, tmp_path / "text.key")
    monkeypatch.setenv("PATTERNMARK_KEY", str(tmp_path / "text.key"))
    monkeypatch.setenv("PATTERNMARK_PAYLOAD", "request" if by_request else str(PAYLOAD))
    own = {"patternmark_payload": PAYLOAD} if by_request else {}
    texts = {0: prompts(1, PROMPT)[0].tolist()}
    with stack_copies.imported_afresh("patternmark.adapters.vllm") as hook:
        states = stack_copies.request_states([PROMPT])
        processor = hook.PatternMarkProcessor(stack_copies.vllm_config(), states)
        parameters = stack_copies.vllm_parameters(**own)
        processor.validate_params(parameters)
        processor.add_request(0, parameters)
        stack_copies.vllm_serve(processor, tiny_gpt2(), texts, LENGTH, generator())
    text = texts[0]
    assert_read(key, [np.array(text[PROMPT:])])


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (65536, "carries payloads from 0 to 65535, not 65536: make one with more nonces"),
        (-1, "carries payloads from 0 to 65535, not -1"),
        (2**70, "carries payloads from 0 to 65535, not 1180591620717411303424"),
        (3.7, "a payload must be a whole number, not 3.7"),
        ("3", "a payload must be a whole number, not '3'"),
        (True, "a payload must be a whole number, not True"),
    ],
)
def test_what_no_key_carries_is_refused(key: Key, payload: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Marker(key, payload=payload)
    with pytest.raises(ParameterError, match=message):
        PatternMarkConfig(key, payload=payload)
    assert Marker(key, payload=np.int64(7)).payload == 7  # type: ignore[arg-type]


def test_a_key_of_one_nonce_says_what_to_make(secret: Secret) -> None:
    one = words_key(secret, scheme="turns")
    with pytest.raises(
        ParameterError,
        match=r"carries no payload, not 0: make one with more nonces by 'patternmark keygen'",
    ):
        PatternMarkConfig(one, payload=0)


def test_a_server_refuses_a_wrong_number_when_it_starts(
    key: Key, secret: Secret, tmp_path: Path
) -> None:
    from patternmark.adapters.serving import ServerKey

    save_key(key, tmp_path / "text.key")
    save_key(words_key(secret, scheme="turns"), tmp_path / "one.key")
    for file, number, message in (
        ("text.key", "65536", "payloads from 0 to 65535, not 65536"),
        ("text.key", "4.5", "PATTERNMARK_PAYLOAD must be a whole number, not '4.5'"),
        ("text.key", "yes", "PATTERNMARK_PAYLOAD must be a whole number, not 'yes'"),
        ("one.key", "3", "carries no payload"),
    ):
        wrong = {"PATTERNMARK_KEY": str(tmp_path / file), "PATTERNMARK_PAYLOAD": number}
        with pytest.raises(ParameterError, match=message):
            ServerKey.from_environment(wrong)
