"""The hook in a loop that keeps to Dream's contract, over a real bidirectional model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Marker, ParameterError
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.dream import dream_hook  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    MASK,
    NUM_COLUMNS,
    NUM_TOKENS,
    SPECIAL,
    prompts,
    tiny_bert,
    words_key,
)


def diffusion_generate(
    model: Any,
    prompt: Any,
    length: int,
    steps: int,
    temperature: float,
    generation_logits_hook_func: Callable[..., Any],
) -> Any:
    """Dream's order of events: shift, hook, temperature, sample, confidence, most confident first.

    t falls from 1 to 1e-3; int(masks * (1 - s/t)) tokens settle in a step, all in the last.
    """
    generator = torch.Generator().manual_seed(3)
    tokens = torch.nn.functional.pad(prompt, (0, length), value=MASK)
    times = torch.linspace(1.0, 1e-3, steps + 1, dtype=torch.float64).tolist()
    for step in range(steps):
        is_open = tokens == MASK
        with torch.no_grad():
            logits = model(tokens).logits
        logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        logits = generation_logits_hook_func(step, tokens, logits)
        logits[..., [*SPECIAL, *range(NUM_TOKENS, NUM_COLUMNS)]] = -torch.inf
        shares = (logits / temperature).softmax(dim=-1)
        drawn = torch.multinomial(shares.flatten(0, 1), 1, generator=generator)
        drawn = drawn.view(tokens.shape)
        confidence = shares.gather(-1, drawn[..., None])[..., 0]
        confidence = confidence.masked_fill(~is_open, -torch.inf)
        masks = int(is_open.sum()) // len(tokens)
        is_last = step == steps - 1
        count = masks if is_last else int(masks * (1 - times[step + 1] / times[step]))
        if count:
            best = confidence.topk(count, dim=1).indices
            settled = torch.zeros_like(is_open).scatter(1, best, True)
            tokens = torch.where(settled, drawn, tokens)
    return tokens


@pytest.mark.parametrize("delta_at", ["logits", "tempered"])
def test_marked_answers_are_detected_and_unmarked_ones_are_not(
    secret: Secret, delta_at: str
) -> None:
    key = words_key(secret, delta_at=delta_at)
    bert, prompt = tiny_bert(), prompts(3, 10)
    log10_p = {}
    for delta in (3.0, 0.0):
        hook = dream_hook(Marker(key, delta=delta), prompt.shape[1], temperature=0.8)
        written = diffusion_generate(bert, prompt, 128, 32, 0.8, generation_logits_hook_func=hook)
        assert torch.equal(written[:, :10], prompt)
        answer = written[:, 10:].numpy()
        assert not np.isin(answer, SPECIAL).any()
        log10_p[delta] = [verdict.log10_p for verdict in Detector(key).detect_many(answer)]
    assert max(log10_p[3.0]) < -6
    assert min(log10_p[0.0]) > -2


def test_the_bias_stands_where_the_token_stands(secret: Secret) -> None:
    """The logits are shifted already: position i of the answer has key i, the prompt none."""
    marker = Marker(words_key(secret, scheme="turns"))
    tokens = torch.nn.functional.pad(prompts(2, 6), (0, 10), value=MASK)
    hook = dream_hook(marker, 6, seed="job", first_index=4)
    bias = hook(0, tokens, torch.zeros(2, 16, NUM_COLUMNS))
    assert not bias[:, :6].any()
    for row in range(2):
        keys = marker.key_sequence(10, seed="job", index=4 + row)
        expected = marker.bias(keys, temperature=1.0)
        np.testing.assert_allclose(bias[row, 6:, :NUM_TOKENS].numpy(), expected, atol=1e-6)
    again = hook(1, tokens, torch.zeros(2, 16, NUM_COLUMNS))
    assert torch.equal(again, bias)


def test_a_prompt_longer_than_the_canvas_is_refused(secret: Secret) -> None:
    hook = dream_hook(Marker(words_key(secret)), 6)
    with pytest.raises(ParameterError, match="prompt of 6 tokens does not fit into 4"):
        hook(0, torch.zeros(1, 4), torch.zeros(1, 4, NUM_COLUMNS))
