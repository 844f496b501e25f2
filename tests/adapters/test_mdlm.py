from math import cos, pi

import numpy as np
import pytest

from patternmark import Detector, Marker, ParameterError
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.mdlm import mdlm_generate  # noqa: E402
from tests.adapters.test_llada import Watched  # noqa: E402
from tests.adapters.tiny_models import MASK, NUM_TOKENS, SPECIAL, prompts, tiny_bert, words_key  # noqa: E402


def cosine(time: float) -> float:
    return 1.0 - cos(pi / 2 * (1.0 - time))


@pytest.mark.parametrize("prompt_length", [0, 10])
def test_marked_texts_are_detected_and_unmarked_ones_are_not(
    secret: Secret, prompt_length: int
) -> None:
    key = words_key(secret)
    bert, prompt = tiny_bert(), prompts(3, prompt_length)
    log10_p = {}
    for delta in (3.0, 0.0):
        written = mdlm_generate(
            bert,
            prompt,
            Marker(key, delta=delta),
            mask_id=MASK,
            length=128,
            steps=16,
            forbidden=SPECIAL,
            generator=torch.Generator().manual_seed(8),
        )
        assert torch.equal(written[:, :prompt_length], prompt)
        answer = written[:, prompt_length:].numpy()
        assert not np.isin(answer, SPECIAL).any()
        assert answer.max() < NUM_TOKENS
        log10_p[delta] = [verdict.log10_p for verdict in Detector(key).detect_many(answer)]
    assert max(log10_p[3.0]) < -6
    assert min(log10_p[0.0]) > -2


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [lambda time: 1.0 - time, cosine])
def test_masks_settle_as_the_schedule_says(secret: Secret, schedule: object) -> None:
    """5,120 masks: at every time the share of settled ones is a(t), within four deviations."""
    bert = Watched(tiny_bert())
    mdlm_generate(
        bert, prompts(20, 0), Marker(words_key(secret)), mask_id=MASK, length=256, steps=8,
        schedule=schedule, generator=torch.Generator().manual_seed(9),  # type: ignore[arg-type]
    )  # fmt: skip
    n = 20 * 256
    assert len(bert.seen) == 8
    for step, tokens in enumerate(bert.seen):
        expected = schedule(1.0 - step / 8)  # type: ignore[operator]
        settled = float((tokens != MASK).double().mean())
        assert abs(settled - expected) <= 4 * np.sqrt(expected * (1 - expected) / n) + 1e-12


def test_bad_schedules_are_refused(secret: Secret) -> None:
    marker, bert = Marker(words_key(secret)), tiny_bert()
    for schedule in (lambda time: time, lambda time: 1.0):
        with pytest.raises(ParameterError, match="must rise from 0 at time 1 to 1 at time 0"):
            mdlm_generate(
                bert, prompts(1, 0), marker, mask_id=MASK, length=8, steps=4, schedule=schedule
            )
    with pytest.raises(ParameterError, match="steps must be at least 1, not 0"):
        mdlm_generate(bert, prompts(1, 0), marker, mask_id=MASK, length=8, steps=0)
