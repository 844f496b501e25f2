"""Decoding token by token, with the past kept, gives what whole forward passes give."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM, Config
from patternmark.translation.decode import for_use
from patternmark_lab.training.autoregressive import banned_ids, greedy
from patternmark_lab.training.translating import most_tokens, translate_with
from tests.translation.small import PAIRS, codec, config

MOST = 32
CONFIG = Config(
    60, width=32, hidden=64, heads=4, encoder_layers=2, decoder_layers=2, causal=True, dropout=0.3
)


def network(config: Config, seed: int) -> CMLM:
    torch.manual_seed(seed)
    made = CMLM(config).eval()
    with torch.no_grad():  # some sentences are to end, at different steps
        made.embedding.weight[config.end] *= 4.2
    return made


def sources(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 60, (24, 9), generator=generator)
    for row, length in enumerate(torch.randint(1, 10, (24,), generator=generator).tolist()):
        ids[row, length:] = 0
    return ids


@torch.inference_mode()
def by_forward_passes(model: CMLM, source: Tensor) -> list[list[int]]:
    """One sentence at a time, the whole of it at each step."""
    config = model.config
    rows = []
    for ids in source:
        alone = ids[ids != config.pad][None]
        tokens: list[int] = []
        while len(tokens) < MOST:
            states, _ = model(alone, torch.tensor([[config.begin, *tokens]]))
            logits = model.logits(states[0, -1])
            logits[banned_ids(config)] = -torch.inf
            token = int(logits.argmax())
            if token == config.end:
                break
            tokens.append(token)
        rows.append(tokens)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"learned_positions": 64, "scaled_embedding": False, "norm_first": False},
        {"length_from": "mean", "activation": "relu"},
    ],
    ids=["ours", "learned positions", "lengths from the mean"],
)
def test_greedy_is_the_argmax_of_whole_forward_passes(changes: dict[str, object]) -> None:
    early = []
    for seed in (1, 2):
        model = network(replace(CONFIG, **changes), seed)  # type: ignore[arg-type]
        found = greedy(model, sources(seed), MOST)
        for row, expected in zip(found, by_forward_passes(model, sources(seed)), strict=True):
            assert row == expected
        lengths = [len(row) for row in found]
        assert max(lengths) == MOST  # some never end
        early.append(sum(length < MOST // 2 for length in lengths) / len(lengths))
    assert max(early) > 0.4  # so many end early that they are let go on the way


def test_an_id_that_no_translation_has_is_never_chosen() -> None:
    model = network(CONFIG, 4)
    with torch.no_grad():
        model.embedding.weight[list(CONFIG.never)] *= 20.0
    found = greedy(model, sources(4), MOST)
    assert not {token for row in found for token in row} & set(CONFIG.never)


def test_translations_of_a_teacher_do_not_depend_on_the_batch() -> None:
    torch.manual_seed(6)
    model = for_use(CMLM(config(causal=True)))
    ids = [*codec().encode_batch([source for source, _ in PAIRS]), []]
    large, small = (translate_with(model, ids, tokens) for tokens in (10_000, 1))
    assert large[-1] == []
    cut = [row[: most_tokens(len(source))] for row, source in zip(large, ids, strict=True)]
    assert cut == small
