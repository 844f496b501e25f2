"""Whether what a toy sampler writes through the adapter `example` carries the mark."""

import pytest

from patternmark import Detector, Key, Marker, Profile
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.example import ExampleMark  # noqa: E402

BATCH, LENGTH, X = 3, 150, 20
KEY = Key.of(Secret(bytes(32)), Profile())


def sampled(delta: float, temperature: float = 1.0) -> torch.Tensor:
    """Write one position of each sequence a step, in a random order: put your program here."""
    generator = torch.Generator().manual_seed(1)
    mark = ExampleMark(Marker(KEY, delta=delta), BATCH, LENGTH, temperature=temperature, seed=1)
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    rows = torch.arange(BATCH)
    for place in torch.randperm(LENGTH, generator=generator).tolist():
        logits = torch.zeros(BATCH, KEY.profile.alphabet.size)
        logits[:, X] = -torch.inf
        logits = mark(logits, (rows, torch.full_like(rows, place))) / temperature
        drawn = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)
        tokens[:, place] = drawn[:, 0]
    return tokens


def test_marked_sequences_are_found_and_unmarked_ones_are_not() -> None:
    detector = Detector(KEY)
    assert max(v.log10_p for v in detector.detect_many(sampled(2.0).numpy())) < -6
    assert min(v.log10_p for v in detector.detect_many(sampled(0.0).numpy())) > -3


def test_the_bias_is_that_of_the_marker() -> None:
    marker = Marker(KEY, delta=2.0)
    keys = marker.key_sequences([LENGTH] * BATCH, 1, range(BATCH))
    logits = torch.zeros(BATCH, LENGTH, KEY.profile.alphabet.size)
    expected = marker.promote(logits, keys, temperature=0.5)
    assert torch.equal(
        ExampleMark(marker, BATCH, LENGTH, temperature=0.5, seed=1)(logits), expected
    )
