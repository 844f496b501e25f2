"""The real DiffusionGemma class and its own generate(), with small random weights."""

import numpy as np
import pytest

from patternmark import Marker, ParameterError
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.transformers import (  # noqa: E402
    PatternMarkDetector,
    PatternMarkDiffusionProcessor,
)
from tests.adapters.loops import SCHEDULE  # noqa: E402
from tests.adapters.loops import generate_canvases as generate  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    NEVER,
    NUM_COLUMNS,
    NUM_TOKENS,
    prompts,
    tiny_diffusion_gemma,
    words_key,
)

# torch warns about its own modules when generate() first imports them.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["paper", "turns"])
@pytest.mark.parametrize("delta_at", ["logits", "tempered"])
def test_canvases_are_marked_and_detected(secret: Secret, scheme: str, delta_at: str) -> None:
    key = words_key(secret, scheme=scheme, delta_at=delta_at)
    model, prompt = tiny_diffusion_gemma(), prompts(2, 10)
    found = {}
    for delta in (3.0, 0.0):
        processor = PatternMarkDiffusionProcessor(
            Marker(key, delta=delta), temperatures=SCHEDULE, seed=1
        )
        written = generate(model, prompt, processor)
        assert written.shape == (2, 10 + 128)  # two canvases
        assert torch.equal(written[:, :10], prompt)
        assert not np.isin(written[:, 10:].numpy(), NEVER).any()
        judged = PatternMarkDetector(key)(written, prompt_length=10, return_dict=True)
        found[delta] = judged.p_value
    assert max(found[3.0]) < 1e-6
    assert min(found[0.0]) > 0.01


def test_positions_count_on_over_canvases_and_steps(secret: Secret) -> None:
    """Position index = tokens so far - prompt + place on the canvas, at every step alike."""
    marker = Marker(words_key(secret, scheme="turns"))
    processor = PatternMarkDiffusionProcessor(marker, seed=2, first_index=3)
    prompt, zeros = prompts(2, 7), torch.zeros(2, 16, NUM_COLUMNS)
    second = torch.cat([prompt, prompts(2, 16, seed=1)], dim=1)
    for tokens, start, steps in ((prompt, 0, 3), (second, 16, 2), (prompt, 0, 1)):
        for steps_left in range(steps, 0, -1):
            bias = processor(tokens, zeros, cur_step=torch.tensor(steps_left))
            for row in range(2):
                keys = marker.key_sequence(32, seed=2, index=3 + row)[start : start + 16]
                expected = marker.bias(keys, temperature=1.0)
                np.testing.assert_allclose(bias[row, :, :NUM_TOKENS].numpy(), expected, atol=1e-6)
            assert not bias[..., NUM_TOKENS:].any()


def test_a_tempered_delta_follows_the_temperatures(secret: Secret) -> None:
    """Divided by the temperature of its step, the bias is delta at every step."""
    marker = Marker(words_key(secret, delta=2.0, delta_at="tempered"))
    processor = PatternMarkDiffusionProcessor(marker, temperatures=SCHEDULE)
    schedule = transformers.models.diffusion_gemma.generation_diffusion_gemma
    cool = schedule.LinearTemperatureScheduleLogitsProcessor(**SCHEDULE._asdict())
    prompt, zeros = prompts(1, 7), torch.zeros(1, 4, NUM_COLUMNS)
    for left in range(6, 0, -1):
        step = torch.tensor(left)
        tilt = cool(prompt, processor(prompt, zeros, cur_step=step), cur_step=step)
        assert float(tilt.max()) == pytest.approx(2.0, abs=1e-5)
    with pytest.raises(ParameterError, match="give the temperatures"):
        PatternMarkDiffusionProcessor(marker)


def test_without_a_seed_the_steps_of_a_generation_share_its_keys(secret: Secret) -> None:
    marker = Marker(words_key(secret, scheme="turns", starts=512))
    processor = PatternMarkDiffusionProcessor(marker)
    scores = torch.zeros(2, 16, NUM_COLUMNS)

    def steps(prompt: torch.Tensor) -> torch.Tensor:
        first, *others = (processor(prompt, scores, step) for step in (3, 2, 1))
        assert all(torch.equal(first, other) for other in others)
        return first

    one, other = steps(prompts(2, 8)), steps(prompts(2, 8, seed=1))
    assert not torch.equal(one, other)
