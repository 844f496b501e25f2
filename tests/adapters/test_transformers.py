import json
from math import erfc, inf, log, sqrt
from typing import Any

import numpy as np
import pytest

from patternmark import Key, Marker, ParameterError
from patternmark.core.secret import Secret
from tests.conftest import SECRET_HEX

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.transformers import (  # noqa: E402
    PatternMarkConfig,
    PatternMarkDetector,
    PatternMarkLogitsProcessor,
)
from patternmark.adapters.transformers_detector import z_of  # noqa: E402
from tests.adapters.loops import generate_words as generate  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    NEVER,
    NUM_COLUMNS,
    NUM_TOKENS,
    PAD,
    SPECIAL,
    prompts,
    tiny_gpt2,
    tiny_llama,
    words_key,
)


def p_values(key: Key, tokens: Any, prompt_length: int) -> Any:
    found = PatternMarkDetector(key)(tokens, prompt_length=prompt_length, return_dict=True)
    return found.p_value


@pytest.mark.parametrize("make", [tiny_gpt2, tiny_llama])
@pytest.mark.parametrize("scheme", ["paper", "turns"])
def test_a_processor_marks_what_generate_writes(secret: Secret, make: Any, scheme: str) -> None:
    key = words_key(secret, scheme=scheme)
    model, prompt = make(), prompts(3, 10)
    prompt[1, :4] = PAD  # padded on the left
    marked = generate(model, prompt, logits_processor=[PatternMarkLogitsProcessor(Marker(key))])
    assert torch.equal(marked[:, :10], prompt)
    assert not np.isin(marked[:, 10:].numpy(), NEVER).any()
    assert max(p_values(key, marked, 10)) < 1e-6
    assert min(p_values(key, generate(model, prompt), 10)) > 0.01


@pytest.mark.parametrize("delta_at", ["logits", "tempered"])
def test_a_config_and_a_processor_make_the_same_text(secret: Secret, delta_at: str) -> None:
    """One adds the bias after the temperature, the other before it."""
    key = words_key(secret, delta_at=delta_at)
    model, prompt = tiny_gpt2(), prompts(2, 10)
    processor = PatternMarkLogitsProcessor(Marker(key), temperature=0.5, seed=4)
    before = generate(model, prompt, temperature=0.5, logits_processor=[processor])
    config = PatternMarkConfig(key, temperature=0.5, seed=4)
    after = generate(model, prompt, temperature=0.5, watermarking_config=config)
    assert torch.equal(before, after)
    assert max(p_values(key, after, 10)) < 1e-6


@pytest.mark.parametrize(("nonces", "payload"), [(64, 50), (65536, 65535)])
def test_a_config_writes_a_payload(secret: Secret, nonces: int, payload: int) -> None:
    key = words_key(secret, scheme="turns", nonces=nonces)
    config = PatternMarkConfig(key, payload=payload)
    assert config.to_dict()["payload"] == payload
    written = generate(tiny_gpt2(), prompts(2, 10), watermarking_config=config)
    found = PatternMarkDetector(key)(written, prompt_length=10, return_dict=True)
    assert [verdict.payload for verdict in found.verdicts] == [payload, payload]
    with pytest.raises(ParameterError, match=f"payloads from 0 to {nonces - 1}, not {nonces}"):
        PatternMarkConfig(key, payload=nonces)


def test_truncation_before_the_config_stays(secret: Secret) -> None:
    """transformers adds watermarks behind top-k: what that has ruled out stays out."""
    processor = PatternMarkConfig(words_key(secret)).construct_processor(NUM_COLUMNS, "cpu")
    scores = torch.full((1, NUM_COLUMNS), -torch.inf)
    scores[0, 10:20] = 0.0
    marked = processor(prompts(1, 3), scores)
    assert torch.equal(marked.isinf(), scores.isinf())


def test_beams_share_the_keys_of_their_sequence(secret: Secret) -> None:
    key = words_key(secret, scheme="turns")
    model, prompt = tiny_gpt2(), prompts(3, 10)
    beams: Any = {"num_beams": 3, "do_sample": False, "no_repeat_ngram_size": 2}
    config = PatternMarkConfig(key, num_beams=3)
    marked = generate(model, prompt, 96, watermarking_config=config, **beams)
    assert max(p_values(key, marked, 10)) < 1e-6
    with pytest.raises(ParameterError, match="for beam search give num_beams"):
        generate(model, prompt, 60, watermarking_config=PatternMarkConfig(key), **beams)
    with pytest.raises(ParameterError, match="3 rows are not a multiple of 2 beams"):
        generate(model, prompt, 4, watermarking_config=PatternMarkConfig(key, num_beams=2))


def test_a_row_has_the_keys_of_its_number_in_any_batch(secret: Secret) -> None:
    key = words_key(secret, scheme="turns", starts=512)
    model, prompt = tiny_gpt2(), prompts(1, 10).repeat(4, 1)
    greedy: Any = {"do_sample": False, "length": 40}
    config = PatternMarkConfig(key, seed="job")
    together = generate(model, prompt, watermarking_config=config, **greedy)
    config = PatternMarkConfig(key, seed="job", first_index=2)
    alone = generate(model, prompt[:1], watermarking_config=config, **greedy)
    assert torch.equal(alone[0], together[2])
    assert len({tuple(row) for row in together.tolist()}) == 4


def test_a_processor_can_be_used_again(secret: Secret) -> None:
    key = words_key(secret)
    model = tiny_gpt2()
    processor = PatternMarkLogitsProcessor(Marker(key), seed=4)
    first = generate(model, prompts(2, 10), 40, logits_processor=[processor])
    for prompt in (prompts(2, 10, seed=1), prompts(1, 7), prompts(2, 10)):
        again = generate(model, prompt, 40, logits_processor=[processor])
        fresh = PatternMarkLogitsProcessor(Marker(key), seed=4)
        assert torch.equal(again, generate(model, prompt, 40, logits_processor=[fresh]))
    assert torch.equal(again, first)


def test_without_a_seed_every_generation_has_keys_of_its_own(secret: Secret) -> None:
    key = words_key(secret, scheme="turns", starts=512, nonces=64)  # two alike: 1 in 2,000 runs
    model, prompt = tiny_gpt2(), prompts(1, 10)
    greedy: Any = {"do_sample": False, "length": 40}
    config, processor = PatternMarkConfig(key), PatternMarkLogitsProcessor(Marker(key))
    hooks: list[Any] = [{"watermarking_config": config}, {"logits_processor": [processor]}]
    written = [generate(model, prompt, **hook, **greedy) for hook in hooks for _ in range(3)]
    assert len({tuple(row) for tokens in written for row in tokens.tolist()}) == 6


def test_a_text_can_be_continued(secret: Secret) -> None:
    """Keys go on where they were when the output is the next prompt."""
    key = words_key(secret, scheme="turns")
    model, prompt = tiny_gpt2(), prompts(2, 10)
    processor = PatternMarkLogitsProcessor(Marker(key), seed=4)
    greedy: Any = {"do_sample": False, "logits_processor": [processor]}
    half = generate(model, prompt, 20, **greedy)
    whole = generate(model, half, 20, **greedy)
    fresh = PatternMarkLogitsProcessor(Marker(key), seed=4)
    again: Any = {**greedy, "logits_processor": [fresh]}
    assert torch.equal(whole, generate(model, prompt, 40, **again))


def test_assisted_decoding_is_marked_when_the_prompt_is_told(secret: Secret) -> None:
    key = words_key(secret)
    model, prompt = tiny_gpt2(), prompts(1, 10)
    helper = tiny_gpt2(seed=6)
    processor = PatternMarkLogitsProcessor(Marker(key), prompt_length=10, seed=4)
    arguments: Any = {"assistant_model": helper, "do_sample": False}
    marked = generate(model, prompt, 60, logits_processor=[processor], **arguments)
    plain = PatternMarkLogitsProcessor(Marker(key), seed=4)
    alone = generate(model, prompt, 60, logits_processor=[plain], do_sample=False)
    assert torch.equal(marked, alone)
    assert max(p_values(key, marked, 10)) < 1e-3


def test_a_prompt_that_is_too_long_is_refused(secret: Secret) -> None:
    processor = PatternMarkLogitsProcessor(Marker(words_key(secret)), prompt_length=10)
    with pytest.raises(ParameterError, match="prompt of 10 tokens does not fit into 4"):
        processor(prompts(1, 4), torch.zeros(1, NUM_COLUMNS))


def test_the_secret_is_in_no_output_of_a_config(secret: Secret) -> None:
    config = PatternMarkConfig(words_key(secret), seed=9)
    generation = transformers.GenerationConfig(watermarking_config=config)
    shown = [repr(config), config.to_json_string(), repr(generation), generation.to_json_string()]
    shown += [str(dict(config)), str(config.to_dict()), str(generation.to_dict())]
    for text in shown:
        assert SECRET_HEX not in text
        assert repr(bytes.fromhex(SECRET_HEX))[2:-1] not in text
    assert json.loads(config.to_json_string())["key_id"] == config.marker.key.key_id


def test_a_config_of_another_tokenizer_is_refused(secret: Secret) -> None:
    config = PatternMarkConfig(words_key(secret))
    with pytest.raises(ParameterError, match=r"the model has 500 columns .* another tokenizer"):
        config.construct_processor(500, "cpu")
    with pytest.raises(ParameterError, match="temperature must be positive, not 0"):
        PatternMarkConfig(words_key(secret), temperature=0.0)


def test_the_detector_speaks_as_that_of_transformers(secret: Secret) -> None:
    key = words_key(secret)
    model, prompt = tiny_gpt2(), prompts(2, 10)
    marked = generate(model, prompt, watermarking_config=PatternMarkConfig(key))
    tokens = torch.cat([marked, generate(model, prompt)])
    detector = PatternMarkDetector(key)
    assert detector(tokens, prompt_length=10).tolist() == [True, True, False, False]
    found = detector(tokens, prompt_length=10, return_dict=True)
    assert isinstance(found, transformers.generation.watermarking.WatermarkDetectorOutput)
    assert found.num_green_tokens is None
    assert found.prediction.tolist() == [True, True, False, False]
    assert found.num_tokens_scored.max() <= 128
    np.testing.assert_allclose(found.confidence, 1.0 - found.p_value)
    assert (found.z_score[:2] > 5).all()
    assert (found.z_score[2:] < 3).all()
    assert [verdict.p_value for verdict in found.verdicts] == found.p_value.tolist()


def test_ids_that_are_no_tokens_say_nothing(secret: Secret) -> None:
    key = words_key(secret)
    config = PatternMarkConfig(key)
    marked = generate(tiny_gpt2(), prompts(1, 10), watermarking_config=config)[0, 10:].tolist()
    strange = [NUM_TOKENS + 3, *SPECIAL, -100]
    found = PatternMarkDetector(key)([marked, marked + strange, strange], return_dict=True)
    assert found.num_tokens_scored[0] == found.num_tokens_scored[1]
    assert found.num_tokens_scored[2] == 0
    assert found.prediction.tolist() == [True, True, False]


def test_z_scores_are_those_of_the_normal_distribution() -> None:
    for z in (-2.0, 0.0, 1.5, 4.0, 8.0, 30.0):
        assert z_of(log(erfc(z / sqrt(2)) / 2)) == pytest.approx(z, abs=1e-9)
    assert z_of(0.0) == -inf
    assert z_of(-700.1) == pytest.approx(z_of(-699.9), rel=1e-3)
    assert z_of(-inf) == inf
