"""Every hook with its model on a GPU: its mark is found, and no mark where there is none.

Greedy decoding writes what it writes on the CPU; hooks in loops that only sample are asked for
their bias on both.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, Profile
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.dream import dream_hook  # noqa: E402
from patternmark.adapters.llada import llada_generate  # noqa: E402
from patternmark.adapters.llada2 import llada2_marked  # noqa: E402
from patternmark.adapters.mdlm import mdlm_generate  # noqa: E402
from patternmark.adapters.protein_lm import ESM, esm_generate, order_agnostic_generate  # noqa: E402
from patternmark.adapters.serving import ServerKey  # noqa: E402
from patternmark.adapters.sglang import marked_algorithm  # noqa: E402
from patternmark.adapters.transformers import (  # noqa: E402
    PatternMarkConfig,
    PatternMarkDiffusionProcessor,
    PatternMarkLogitsProcessor,
)
from tests.adapters import loops, stack_copies  # noqa: E402
from tests.adapters import tiny_models as tiny  # noqa: E402

DEVICE = "cuda"
needs_diffusion_gemma = pytest.mark.skipif(
    not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"),
    reason=f"transformers {transformers.__version__} has no DiffusionGemma",
)
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    # Devices have warnings of their own, about torch and not about the hooks.
    pytest.mark.filterwarnings("default"),
]
PROMPT, LENGTH = 10, 160
TEMPLATES = ["MK" + "_" * 180, "_" * 60 + "GSGSGS" + "_" * 140]


class Place(NamedTuple):
    """Where and in which numbers a model works, and whether it draws what it writes."""

    device: str
    dtype: str = "float32"
    is_greedy: bool = False

    def of(self, model: Any) -> Any:
        return model.to(self.device, getattr(torch, self.dtype))

    @property
    def prompt(self) -> Any:
        return tiny.prompts(2, PROMPT).to(self.device)

    @property
    def temperature(self) -> float:
        return 0.0 if self.is_greedy else 1.0

    @property
    def generator(self) -> Any:
        return torch.Generator(self.device).manual_seed(7)


Writer = Callable[[Marker, Place], Sequence[Any]]


def answers(tokens: Any) -> Any:
    return tokens[:, PROMPT:].cpu().numpy()


def by_processor(marker: Marker, place: Place) -> Any:
    return with_llama(place, logits_processor=[PatternMarkLogitsProcessor(marker, seed=1)])


def by_config(marker: Marker, place: Place) -> Any:
    own = PatternMarkConfig(marker.key, delta=marker.delta, seed=1)
    return with_llama(place, watermarking_config=own)


def with_llama(place: Place, **mark: Any) -> Any:
    sampling: dict[str, Any] = {"do_sample": False, "top_k": None} if place.is_greedy else {}
    llama = place.of(tiny.tiny_llama())
    return answers(loops.generate_words(llama, place.prompt, LENGTH, **sampling, **mark))


def by_diffusion_processor(marker: Marker, place: Place) -> Any:
    gemma = place.of(tiny.tiny_diffusion_gemma())
    processor = PatternMarkDiffusionProcessor(marker, temperatures=loops.SCHEDULE, seed=1)
    return answers(loops.generate_canvases(gemma, place.prompt, processor, 128))


def by_dream(marker: Marker, place: Place) -> Any:
    hook = dream_hook(marker, PROMPT, temperature=place.temperature, seed=1)
    bert = place.of(tiny.tiny_bert())
    return answers(loops.dream_generate(bert, place.prompt, LENGTH, 32, place.temperature, hook))


def by_llada(marker: Marker, place: Place) -> Any:
    written = llada_generate(
        place.of(tiny.tiny_bert()), place.prompt, marker, mask_id=tiny.MASK, gen_length=LENGTH,
        block_length=32, steps=40, temperature=place.temperature, forbidden=tiny.SPECIAL, seed=1,
        generator=place.generator,
    )  # fmt: skip
    return answers(written)


def by_llada2(marker: Marker, place: Place) -> Any:
    bert = place.of(tiny.fluent_bert())
    with llada2_marked(bert, marker, PROMPT, seed=1):  # this model repeats itself: a long text
        return answers(loops.llada2_generate(bert, place.prompt, LENGTH + 80))


def by_mdlm(marker: Marker, place: Place) -> Any:
    written = mdlm_generate(
        place.of(tiny.tiny_bert()), place.prompt, marker, mask_id=tiny.MASK, length=LENGTH,
        steps=1 if place.is_greedy else 16,  # which masks settle in a step is always drawn
        temperature=place.temperature, forbidden=tiny.SPECIAL, seed=1, generator=place.generator,
    )  # fmt: skip
    return answers(written)


def by_esm(marker: Marker, place: Place) -> Any:
    return esm_generate(place.of(tiny.tiny_esm(columns=40)), TEMPLATES, marker, **in_order(place))


def by_order_agnostic(marker: Marker, place: Place) -> Any:
    esm = place.of(tiny.tiny_esm())
    return order_agnostic_generate(
        lambda tokens: esm(tokens).logits, TEMPLATES, marker, layout=ESM, device=place.device,
        **in_order(place),
    )  # fmt: skip


def in_order(place: Place) -> dict[str, Any]:
    how = {"order": "confidence" if place.is_greedy else "random", "per_step": 5, "seed": 1}
    return {**how, "temperature": place.temperature, "generator": place.generator}


def by_sglang(name: str) -> Writer:
    def write(marker: Marker, place: Place) -> Any:
        made = marked_algorithm(stack_copies.algorithms()[name], ServerKey(marker))
        requests = {
            "a": tiny.prompts(1, 21)[0].tolist(),
            "b": tiny.prompts(1, 16, seed=1)[0].tolist(),
        }
        config = stack_copies.dllm_config(stack_copies.BLOCK, tiny.MASK, 0.5)
        server = stack_copies.Server(made(config), requests, place.of(tiny.fluent_bert(spread=0.1)))
        while server.done_prefill["a"] < LENGTH + 32:
            server.run_block(["b", "a"])
        return [server.written(name, LENGTH) for name in requests]

    return write


def by_vllm(marker: Marker, place: Place) -> Any:
    texts = dict(enumerate(tiny.prompts(2, PROMPT).tolist()))
    llama = place.of(tiny.tiny_llama())
    generator = None if place.is_greedy else place.generator
    with stack_copies.vllm_processor(marker, PROMPT, place.device) as (_, processor):
        stack_copies.vllm_serve(processor, llama, texts, LENGTH, generator)
    return [np.array(text[PROMPT:]) for text in texts.values()]


def by_vllm_canvases(marker: Marker, place: Place) -> Any:
    """Its sampler takes the likeliest tokens of any logits: here of noise."""
    noise, written = torch.Generator().manual_seed(2), []
    with stack_copies.vllm_processor(marker, PROMPT, place.device) as (hook, processor):
        sampler = hook.MarkedDiffusionSampler(stack_copies.DiffusionSampler(16, 4, 2), processor)
        for slot in (0, 1):
            sampler.add_request(slot, stack_copies.vllm_request(slot))
        for start in range(PROMPT, PROMPT + LENGTH, 16):
            logits = place.of(torch.randn(32, tiny.NUM_COLUMNS, generator=noise))
            logits[:, tiny.NEVER] = -torch.inf
            batch = stack_copies.vllm_canvas_batch([1, 0], [start, start], 16, place.device)
            written.append(sampler(logits, batch).cpu())
    return torch.cat(written, dim=1).numpy()


WRITERS: dict[str, Writer] = {
    "processor": by_processor,
    "config": by_config,
    "diffusion processor": by_diffusion_processor,
    "dream": by_dream,
    "llada": by_llada,
    "llada2": by_llada2,
    "mdlm": by_mdlm,
    "esm": by_esm,
    "order-agnostic": by_order_agnostic,
    "sglang LowConfidence": by_sglang("LowConfidence"),
    "sglang JointThreshold": by_sglang("JointThreshold"),
    "vllm": by_vllm,
    "vllm canvases": by_vllm_canvases,
}
MARKS = {"diffusion processor": needs_diffusion_gemma}


def each(names: Iterable[str]) -> Any:
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in names]
    )


def key_for(name: str, secret: Secret) -> Key:
    if name in ("esm", "order-agnostic"):
        return Key.of(secret, Profile(delta=2.5, scheme=Blocks(nonces=1)))
    return tiny.words_key(secret, scheme="turns")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@each(WRITERS)
def test_the_mark_is_found_and_nothing_else(secret: Secret, name: str, dtype: str) -> None:
    key, written = key_for(name, secret), {}
    for delta in (None, 0.0):
        written[delta] = WRITERS[name](Marker(key, delta=delta), Place(DEVICE, dtype))
    marked, unmarked = (
        [verdict.p_value for verdict in Detector(key).detect_many(texts)]
        for texts in written.values()
    )
    assert max(marked) < 1e-4
    assert min(unmarked) > 1e-3


@each(name for name in WRITERS if name != "diffusion processor")  # it draws at every step
def test_greedy_decoding_writes_what_it_writes_on_the_cpu(secret: Secret, name: str) -> None:
    marker = Marker(key_for(name, secret))
    here, there = (WRITERS[name](marker, Place(at, is_greedy=True)) for at in (DEVICE, "cpu"))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@needs_diffusion_gemma
def test_canvases_have_the_bias_that_they_have_on_the_cpu(secret: Secret, dtype: str) -> None:
    marker, found = Marker(tiny.words_key(secret, scheme="turns")), []
    for place in (Place(DEVICE, dtype), Place("cpu", dtype)):
        processor = PatternMarkDiffusionProcessor(marker, seed=1)
        zeros = place.of(torch.zeros(2, 64, tiny.NUM_COLUMNS))
        bias = processor(place.prompt, zeros, torch.tensor(3, device=place.device))
        assert bias.device == zeros.device
        assert bias.any()
        found.append(bias.cpu())
    assert torch.equal(*found)
