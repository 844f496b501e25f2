"""LLaDA 2.x: a loop that keeps to its `generate`, and diffusers' pipeline where it is installed.

The loop is a small copy of what the model's code does.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Key, Marker, ParameterError
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.llada2 import llada2_marked  # noqa: E402
from tests.adapters.loops import llada2_generate as generate  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    MASK,
    NEVER,
    NUM_COLUMNS,
    NUM_TOKENS,
    fluent_bert,
    prompts,
    words_key,
)


class Silent(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A model that prefers nothing."""

    def forward(self, tokens: Any, **more: Any) -> Any:
        del more
        return SimpleNamespace(logits=torch.zeros(*tokens.shape, NUM_COLUMNS))


@pytest.mark.slow
def test_both_phases_are_marked_and_detected(secret: Secret) -> None:
    key = words_key(secret, scheme="turns")
    bert, prompt = fluent_bert(), prompts(2, 10)
    log10_p = {}
    for delta in (3.0, 0.0):
        edits: list[int] = []
        with llada2_marked(bert, Marker(key, delta=delta), prompt_length=10):
            written = generate(bert, prompt, 96, edits=edits)
        assert sum(edits) > 0
        assert torch.equal(written[:, :10], prompt)
        answer = written[:, 10:].numpy()
        assert not np.isin(answer, NEVER).any()
        log10_p[delta] = [verdict.log10_p for verdict in Detector(key).detect_many(answer)]
    assert max(log10_p[3.0]) < -4  # this model repeats itself: each token counts once
    assert min(log10_p[0.0]) > -3


@pytest.mark.slow
def test_the_largest_payload_is_marked(secret: Secret) -> None:
    """This model says too few different tokens for 16 bits to be read: ask the schedule itself."""
    key = words_key(secret, scheme="turns", nonces=65536)
    bert, prompt = fluent_bert(), prompts(2, 10)
    with llada2_marked(bert, Marker(key, payload=65535), prompt_length=10):
        written = generate(bert, prompt, 96)[:, 10:].numpy()
    place = np.arange(96)
    for row in written:
        shares = [key.circle.promoted_to(n, row)[place, place].mean() for n in (65535, 65534, 0)]
        assert shares[0] > 0.9
        assert max(shares[1:]) < 0.85


@pytest.mark.slow
def test_a_mark_in_the_first_phase_alone_is_edited_away(secret: Secret) -> None:
    """Why the bias acts in both: the same loop, where edits see the model's own logits."""
    key = words_key(secret, scheme="turns")
    bert, prompt = fluent_bert(), prompts(2, 10)
    with llada2_marked(bert, Marker(key), prompt_length=10):
        kept = generate(bert, prompt, 96)
        marked = bert.forward

    def first_phase_only(tokens: Any, **more: Any) -> Any:
        own = type(bert).forward(bert, tokens, **more).logits
        bias = marked(tokens, **more).logits
        return SimpleNamespace(logits=torch.where((tokens == MASK)[..., None], bias, own))

    bert.forward = first_phase_only
    washed = generate(bert, prompt, 96)
    del bert.forward
    p_kept, p_washed = (
        [verdict.log10_p for verdict in Detector(key).detect_many(text[:, 10:].numpy())]
        for text in (kept, washed)
    )
    assert max(p_kept) < -4
    assert min(p_washed) > max(p_kept) + 3


def test_the_bias_stands_at_the_positions_the_model_is_told(secret: Secret) -> None:
    """Also for a block alone, after a cache; the prompt carries none."""
    marker = Marker(words_key(secret, scheme="turns", nonces=32), payload=11)
    model, tokens = Silent(), prompts(2, 12)
    with llada2_marked(model, marker, prompt_length=4, seed="job", first_index=3):
        whole = model(tokens).logits
        later = model(
            tokens, position_ids=torch.arange(1500, 1512)[None], past_key_values=()
        ).logits
        with pytest.raises(ParameterError, match="must be given position_ids"):
            model(tokens, past_key_values=())
    assert not whole[:, :4].any()
    for row in range(2):
        keys = marker.key_sequence(1508, seed="job", index=3 + row)
        for logits, own in ((whole[row, 4:], keys[:8]), (later[row], keys[1496:])):
            expected = marker.bias(own, temperature=1.0)
            np.testing.assert_allclose(logits[:, :NUM_TOKENS].numpy(), expected, atol=1e-6)


def test_the_model_is_as_it_was_afterwards(secret: Secret) -> None:
    marker, bert = Marker(words_key(secret)), fluent_bert()
    tokens = prompts(1, 8)
    before = bert(tokens).logits
    with llada2_marked(bert, marker, prompt_length=2):
        assert not torch.equal(bert(tokens).logits, before)
        with pytest.raises(ParameterError, match="marked already"):
            llada2_marked(bert, marker, prompt_length=2).__enter__()
    assert torch.equal(bert(tokens).logits, before)

    def fail() -> None:
        with llada2_marked(bert, marker, prompt_length=2):
            bert("no tokens")

    with pytest.raises(AttributeError):
        fail()
    assert torch.equal(bert(tokens).logits, before)
    assert "forward" not in vars(bert)


@pytest.mark.parametrize("editing_threshold", [0.05, None])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_pipeline_of_diffusers(secret: Secret, editing_threshold: float | None) -> None:
    """The real LLaDA2Pipeline and BlockRefinementScheduler (diffusers 0.42), a small model."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    key: Key = words_key(secret, scheme="turns", nonces=64)
    bert, prompt = fluent_bert(), prompts(2, 10)
    pipeline = diffusers.LLaDA2Pipeline(
        model=bert, scheduler=diffusers.BlockRefinementScheduler(), tokenizer=None
    )
    pipeline.set_progress_bar_config(disable=True)
    found, edited = {}, []

    def count(pipe: Any, step: int, timestep: int, values: dict[str, Any]) -> dict[str, Any]:
        edited.append(int(values["editing_transfer_index"].sum()))
        return {}

    for delta in (3.0, 0.0):
        with llada2_marked(bert, Marker(key, delta=delta, payload=33), prompt_length=10):
            sequences = pipeline(
                input_ids=prompt, gen_length=128, block_length=32, threshold=0.5,
                editing_threshold=editing_threshold, mask_token_id=MASK, output_type="seq",
                callback_on_step_end=count,
                callback_on_step_end_tensor_inputs=["editing_transfer_index"],
            ).sequences  # fmt: skip
        assert not np.isin(sequences.numpy(), NEVER).any()
        found[delta] = Detector(key).detect_many(sequences.numpy())
    assert (sum(edited) > 0) == (editing_threshold is not None)
    assert max(verdict.log10_p for verdict in found[3.0]) < -6
    assert {verdict.payload for verdict in found[3.0]} == {33}
    assert min(verdict.log10_p for verdict in found[0.0]) > -3
