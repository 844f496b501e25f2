from typing import Any

import numpy as np
import pytest

from patternmark import Detector, Marker, ParameterError
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.llada import llada_generate, transfer_counts  # noqa: E402
from tests.adapters.tiny_models import (  # noqa: E402
    EOS,
    MASK,
    NUM_TOKENS,
    PAD,
    SPECIAL,
    prompts,
    tiny_bert,
    words_key,
)


class Watched:
    """A model that remembers what it was shown."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seen: list[Any] = []

    def __call__(self, tokens: Any, **more: Any) -> Any:
        self.seen.append(tokens.clone())
        return self.model(tokens, **more)


@pytest.mark.parametrize("scheme", ["paper", "turns"])
@pytest.mark.parametrize("remasking", ["low_confidence", "random"])
def test_marked_answers_are_detected_and_unmarked_ones_are_not(
    secret: Secret, scheme: str, remasking: str
) -> None:
    key = words_key(secret, scheme=scheme)
    bert, prompt = tiny_bert(), prompts(3, 10)
    log10_p = {}
    for delta in (3.0, 0.0):
        written = llada_generate(
            bert,
            prompt,
            Marker(key, delta=delta),
            mask_id=MASK,
            gen_length=128,
            block_length=32,
            steps=32,
            temperature=1.0,
            remasking=remasking,
            forbidden=SPECIAL,
            generator=torch.Generator().manual_seed(7),
        )
        assert torch.equal(written[:, :10], prompt)
        answer = written[:, 10:].numpy()
        assert not np.isin(answer, SPECIAL).any()
        assert answer.max() < NUM_TOKENS
        log10_p[delta] = [verdict.log10_p for verdict in Detector(key).detect_many(answer)]
    assert max(log10_p[3.0]) < -6
    assert min(log10_p[0.0]) > -2


def test_blocks_are_written_from_left_to_right_in_equal_shares(secret: Secret) -> None:
    bert = Watched(tiny_bert(spread=0.2))
    llada_generate(
        bert,
        prompts(2, 6),
        Marker(words_key(secret)),
        mask_id=MASK,
        gen_length=30,
        block_length=10,
        steps=12,
        temperature=1.0,
    )
    assert len(bert.seen) == 12
    left = torch.stack([(tokens[:, 6:] == MASK).sum(dim=1) for tokens in bert.seen])
    counts = np.cumsum([0, *([3, 3, 2, 2] * 3)])[:-1]
    assert left.tolist() == [[30 - n, 30 - n] for n in counts]
    for step, tokens in enumerate(bert.seen):
        ahead = tokens[:, 6 + 10 * (step // 4 + 1) :]
        assert (ahead == MASK).all()
        assert not (tokens[:, 6 : 6 + 10 * (step // 4)] == MASK).any()


def test_what_is_settled_stays(secret: Secret) -> None:
    bert = Watched(tiny_bert())
    written = llada_generate(
        bert, prompts(1, 6), Marker(words_key(secret)), mask_id=MASK, gen_length=16,
        block_length=16, steps=8,
    )  # fmt: skip
    for before in bert.seen:
        known = before != MASK
        assert torch.equal(before[known], written[known])


def test_guidance_moves_away_from_what_the_model_says_without_the_prompt(secret: Secret) -> None:
    """The first greedy token of one step, against guidance done by hand."""
    key = words_key(secret)
    bert, prompt = tiny_bert(spread=0.2), prompts(1, 6)
    tokens = torch.nn.functional.pad(prompt, (0, 8), value=MASK)
    blind = torch.full_like(tokens, MASK)
    with torch.no_grad():
        guided = 3.0 * bert(tokens).logits - 2.0 * bert(blind).logits  # s = 2: u + 3 (c - u)
    marker = Marker(key)
    keys = marker.key_sequence(8, seed=2)
    scores = guided[0, 6:, :NUM_TOKENS].double().numpy() + marker.bias(keys, temperature=1.0)
    scores[:, MASK] = -np.inf
    written = llada_generate(
        bert, prompt, marker, mask_id=MASK, gen_length=8, block_length=8, steps=1, cfg_scale=2.0,
        seed=2,
    )  # fmt: skip
    np.testing.assert_array_equal(written[0, 6:].numpy(), scores.argmax(axis=-1))
    plain = llada_generate(
        bert, prompt, marker, mask_id=MASK, gen_length=8, block_length=8, steps=1, seed=2
    )
    assert not torch.equal(plain, written)


def test_a_row_has_the_keys_of_its_number_in_any_batch(secret: Secret) -> None:
    marker = Marker(words_key(secret, scheme="turns", starts=512))
    bert, prompt = tiny_bert(spread=0.2), prompts(4, 6)
    common: Any = {"mask_id": MASK, "gen_length": 16, "block_length": 16, "steps": 16, "seed": 5}
    together = llada_generate(bert, prompt, marker, **common)
    alone = llada_generate(bert, prompt[2:3], marker, first_index=2, **common)
    assert torch.equal(alone[0], together[2])
    other = llada_generate(bert, prompt[2:3], marker, **common)
    assert not torch.equal(other, alone)


def test_padded_prompts_stay_as_they_are(secret: Secret) -> None:
    key = words_key(secret)
    prompt = prompts(2, 10)
    prompt[1, :4] = PAD
    written = llada_generate(
        tiny_bert(), prompt, Marker(key), mask_id=MASK, attention_mask=(prompt != PAD).long(),
        gen_length=96, block_length=96, steps=24, temperature=1.0, forbidden=SPECIAL,
        generator=torch.Generator().manual_seed(7),
    )  # fmt: skip
    assert torch.equal(written[:, :10], prompt)
    verdicts = Detector(key).detect_many(written[:, 10:].numpy())
    assert max(verdict.log10_p for verdict in verdicts) < -6


def test_the_end_of_the_text_can_be_held_back(secret: Secret) -> None:
    bert = tiny_bert()
    with torch.no_grad():
        bert.cls.predictions.bias[EOS] = 20.0  # it would end at once
    common: Any = {"mask_id": MASK, "gen_length": 16, "block_length": 16, "steps": 16}
    marker, prompt = Marker(words_key(secret)), prompts(1, 6)
    ended = llada_generate(bert, prompt, marker, **common)
    assert (ended[:, 6:] == EOS).all()
    going_on = llada_generate(bert, prompt, marker, forbidden=[EOS], **common)
    assert EOS not in going_on


def test_steps_that_do_not_fit_are_refused(secret: Secret) -> None:
    marker, bert, prompt = Marker(words_key(secret)), tiny_bert(), prompts(1, 4)
    with pytest.raises(ParameterError, match="12 is not a multiple of block_length 5"):
        llada_generate(bert, prompt, marker, mask_id=MASK, gen_length=12, block_length=5)
    with pytest.raises(ParameterError, match=r"steps 7 must be a multiple of .* blocks, 2"):
        llada_generate(bert, prompt, marker, mask_id=MASK, gen_length=8, block_length=4, steps=7)
    with pytest.raises(ParameterError, match="must be low_confidence or random, not 'none'"):
        llada_generate(bert, prompt, marker, mask_id=MASK, remasking="none")


def test_shares_add_up() -> None:
    for masks in range(1, 40):
        for steps in range(1, 20):
            counts = transfer_counts(masks, steps)
            assert sum(counts) == masks
            assert max(counts) - min(counts) <= 1
            assert counts == sorted(counts, reverse=True)
