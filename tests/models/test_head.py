"""Logits with and without the mark, and the tokens chosen from them."""

import numpy as np
import pytest
import torch

from patternmark import Alphabet, Key, Marker, Profile
from patternmark.models.head import Head, choose

V, D, NEVER = 700, 24, (0, 1, 2, 55)
WORDS = Alphabet.from_symbols("words", [f"w{i}" for i in range(V)], range(3))


def states_and_table(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    table = torch.randn(V, D, generator=generator)
    return torch.randn(50, D, generator=generator).to(dtype), table.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("inside", [False, True])
def test_the_mark_is_added_inside_the_product_as_behind_it(
    dtype: torch.dtype, inside: bool
) -> None:
    states, table = states_and_table(dtype)
    marker = Marker(Key.generate(Profile(WORDS)), delta=2.5)
    keys = marker.key_sequences([12, 9], seed=3)  # the second has no key at its end
    rng = np.random.default_rng(0)
    at = torch.from_numpy(rng.integers(2, size=50)), torch.from_numpy(rng.integers(12, size=50))
    head = Head(table, NEVER, marker.prepare(keys, 1.0, like=table), inside=inside)
    found = head.logits(states, at)
    promoted = torch.from_numpy(marker.bias(keys, temperature=1.0))[at]
    wanted = states.double() @ table.double().T + promoted
    wanted[:, list(NEVER)] = -torch.inf
    assert found.dtype == dtype
    allowed = {torch.float32: 1e-5, torch.float16: 0.02, torch.bfloat16: 0.15}[dtype]
    torch.testing.assert_close(found.double(), wanted, atol=allowed, rtol=0.0)


def test_without_a_mark_what_is_never_chosen_is_out() -> None:
    states, table = states_and_table(torch.float32)
    found = Head(table, NEVER).logits(states)
    wanted = states @ table.T
    assert torch.isneginf(found[:, list(NEVER)]).all()
    kept = [i for i in range(V) if i not in NEVER]
    torch.testing.assert_close(found[:, kept], wanted[:, kept])


def test_the_likeliest_token_and_its_probability() -> None:
    logits = torch.randn(40, 90, generator=torch.Generator().manual_seed(1)) * 4
    logits[:, 7] = -torch.inf
    chosen, log_p = choose(logits, 0.0, None)
    assert torch.equal(chosen, logits.argmax(dim=1))
    wanted = logits.double().log_softmax(1).gather(1, chosen[:, None])[:, 0]
    torch.testing.assert_close(log_p.double(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_tempered_distribution(temperature: float) -> None:
    logits = torch.tensor([1.0, 0.0, -torch.inf, 2.0, -1.0]).repeat(40_000, 1)
    chosen, log_p = choose(logits, temperature, torch.Generator().manual_seed(2))
    wanted = (logits[0] / temperature).softmax(0)
    counts = torch.bincount(chosen, minlength=5) / len(chosen)
    assert counts[2] == 0.0
    assert (counts - wanted).abs().max() < 4 * (0.25 / 40_000) ** 0.5
    torch.testing.assert_close(log_p, wanted.log()[chosen])


@pytest.mark.parametrize("temperature", [1e-40, 1e-3])
def test_a_very_low_temperature_takes_the_likeliest(temperature: float) -> None:
    logits = torch.randn(40, 90, generator=torch.Generator().manual_seed(1)) * 4
    chosen, log_p = choose(logits, temperature, torch.Generator().manual_seed(2))
    assert torch.equal(chosen, logits.argmax(dim=1))
    assert torch.isfinite(log_p).all()
