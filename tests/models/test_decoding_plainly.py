"""Mask-Predict against a decoder that computes every place of one candidate with plain weights."""

import math
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM
from patternmark.models.mask_predict import mask_predict
from patternmark.translation.decode import for_use
from tests.translation.small import config

torch.set_num_threads(1)

VARIANTS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ends predicted": {"ends": "predicted", "norm_first": False, "activation": "relu"},
    "ends given": {"ends": "given", "learned_positions": 40, "norm_first": False},
    "mean tells the length": {"length_from": "mean", "scaled_embedding": False},
}
LENGTHS = [[7, 9], [5, 6], [14, 3]]


def network(changes: dict[str, Any]) -> CMLM:
    torch.manual_seed(8)
    model = CMLM(replace(config(), **changes)).eval()
    with torch.no_grad():  # as large as trained ones are, so that places and tokens differ
        for block in (*model.encoder, *model.decoder):
            for part in (block.own, block.cross, block):
                for name in ("query", "key", "value", "out", "up", "down"):
                    if hasattr(part, name):
                        layer = getattr(part, name)
                        layer.weight.mul_(1.5)
                        layer.bias.normal_(std=0.1)
    return model


def sources(model: CMLM, lengths: list[int]) -> Tensor:
    ids = torch.randint(5, model.config.vocab, (len(lengths), max(lengths)))
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = model.config.pad
    return ids


def plainly(model: CMLM, source: Tensor, length: int, iterations: int) -> tuple[list[int], float]:
    """Decode one candidate alone: every place in every layer, one iteration after the other."""
    config = model.config
    memory = model.encode(source[source != config.pad][None])
    attended = model.project(memory.states)
    tokens, confidence = [config.mask] * length, [0.0] * length
    open_places = list(range(length))
    if config.ends == "given":
        tokens[0], tokens[-1] = config.begin, config.end
        open_places = open_places[1:-1]
    least = 0 if config.ends == "given" else 1
    for iteration in range(iterations):
        masked = open_places
        if iteration:
            number = int(torch.tensor(len(open_places)) * (1.0 - iteration / iterations))
            worst = sorted(open_places, key=lambda i: (confidence[i], i))
            masked = sorted(worst[: max(least, number)])
        for place in masked:
            tokens[place] = config.mask
        states = model.states(torch.tensor([tokens]), attended, memory.visible, None)[0]
        logits = model.logits(states)
        logits[:, list(config.never)] = -math.inf
        log_p = logits.log_softmax(dim=1)
        for place in masked:
            tokens[place] = int(log_p[place].argmax())
            confidence[place] = float(log_p[place].max())
    found = [t for t in tokens if t not in (config.begin, config.end)]
    return found, sum(confidence[i] for i in open_places) / length


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("iterations", [1, 4, 10])
@torch.inference_mode()
def test_tokens_are_those_of_a_plain_decoder(changes: dict[str, Any], iterations: int) -> None:
    model = network(changes)
    if model.config.ends == "predicted":
        never = tuple(i for i in model.config.never if i != model.config.end)
        model.config = replace(model.config, never=never)
    plain = deepcopy(model)
    for_use(model)
    assert model.table is not None
    assert plain.table is None
    # A batch that is padded, and a sentence alone with one length: nothing of it is.
    ids = sources(model, [8, 4, 11])
    for lengths, rows in ((LENGTHS, ids), ([[6]], ids[2:])):
        found = mask_predict(
            model, model.encode(rows), torch.tensor(lengths), iterations=iterations
        )
        for row, tried in enumerate(lengths):
            for beam, length in enumerate(tried):
                tokens, mean = plainly(plain, rows[row], length, iterations)
                number = int(found.lengths[row, beam])
                assert found.tokens[row, beam, :number].tolist() == tokens
                assert float(found.log_p[row, beam]) == pytest.approx(mean, abs=1e-4)
