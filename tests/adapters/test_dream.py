"""The hook in a loop that keeps to Dream's contract, over a real bidirectional model."""

import numpy as np
import pytest

from patternmark import Detector, Marker, ParameterError
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.dream import dream_hook  # noqa: E402
from tests.adapters.loops import dream_generate  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    MASK,
    NUM_COLUMNS,
    NUM_TOKENS,
    SPECIAL,
    prompts,
    tiny_bert,
    words_key,
)


@pytest.mark.slow
@pytest.mark.parametrize("delta_at", ["logits", "tempered"])
def test_marked_answers_are_detected_and_unmarked_ones_are_not(
    secret: Secret, delta_at: str
) -> None:
    key = words_key(secret, delta_at=delta_at)
    bert, prompt = tiny_bert(), prompts(3, 10)
    log10_p = {}
    for delta in (3.0, 0.0):
        hook = dream_hook(Marker(key, delta=delta), prompt.shape[1], temperature=0.8)
        written = dream_generate(bert, prompt, 128, 32, 0.8, generation_logits_hook_func=hook)
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
