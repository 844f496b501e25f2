from typing import Any

import numpy as np
import pytest

from patternmark import Marker
from patternmark.core.secret import Secret

torch = pytest.importorskip("torch")

from patternmark.adapters.logit_bias import LogitBias  # noqa: E402
from patternmark.adapters.masked import (  # noqa: E402
    MaskedSampler,
    answer_keys,
    at_random,
    each_with_probability,
    most_confident,
)
from tests.adapters.tiny_models import (  # noqa: E402
    EOS,
    MASK,
    NUM_COLUMNS,
    SPECIAL,
    prompts,
    tiny_bert,
    words_key,
)


def canvas(marker: Marker, batch: int = 2, prompt: int = 4, length: int = 24) -> tuple[Any, Any]:
    tokens = torch.nn.functional.pad(prompts(batch, prompt), (0, length), value=MASK)
    return tokens, answer_keys(marker, tokens, prompt, 0, 0)


@pytest.mark.parametrize("by_entropy", [False, True])
def test_a_greedy_step_settles_what_the_biased_logits_are_surest_of(
    secret: Secret, by_entropy: bool
) -> None:
    """Against the same step in numpy; the order differs from that of the unbiased logits."""
    marker = Marker(words_key(secret))
    bert = tiny_bert(spread=0.2)
    tokens, keys = canvas(marker)
    with torch.no_grad():
        logits = bert(tokens).logits.double().numpy()
        sampler = MaskedSampler(
            lambda x: bert(x).logits,
            MASK,
            LogitBias(marker, keys),
            temperature=0.0,
            by_entropy=by_entropy,
        )
        filled = sampler.fill(tokens, [most_confident(5)]).numpy()
    bias = np.pad(marker.bias(keys.numpy(), temperature=1.0), ((0, 0), (0, 0), (0, 24)))
    best, chosen = {}, {}
    for name, added in (("biased", bias), ("plain", 0.0)):
        scores = logits + added
        scores[..., [MASK, *range(1000, NUM_COLUMNS)]] = -np.inf
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        surest = (shares * logs).sum(axis=-1) if by_entropy else shares.max(axis=-1)
        surest[tokens.numpy() != MASK] = -np.inf
        best[name] = scores.argmax(axis=-1)
        chosen[name] = np.sort(np.argsort(surest, axis=1)[:, -5:], axis=1)
    assert not np.array_equal(chosen["biased"], chosen["plain"])
    for row in range(2):
        expected = tokens[row].numpy().copy()
        places = chosen["biased"][row]
        expected[places] = best["biased"][row, places]
        np.testing.assert_array_equal(filled[row], expected)


@pytest.mark.slow
@pytest.mark.parametrize("delta_at", ["logits", "tempered"])
def test_tokens_are_drawn_from_the_tilted_distribution(secret: Secret, delta_at: str) -> None:
    """20,000 draws of one position: every share within four standard deviations."""
    marker = Marker(words_key(secret, delta=1.5, delta_at=delta_at))
    logits = torch.full((NUM_COLUMNS,), -30.0)
    some = torch.arange(10, 18)
    logits[some] = torch.linspace(0.0, 1.0, 8)
    n, temperature = 20_000, 0.5
    sampler = MaskedSampler(
        lambda x: logits.expand(*x.shape, -1),
        MASK,
        LogitBias(marker, torch.zeros(1, n, dtype=torch.long), temperature=temperature),
        temperature=temperature,
        generator=torch.Generator().manual_seed(0),
    )
    tokens = torch.full((1, n), MASK)
    drawn = sampler.fill(tokens, [most_confident(n)])
    counts = torch.bincount(drawn[0], minlength=NUM_COLUMNS)[some].numpy()
    promoted = marker.key.partition.members[0][some.numpy()]
    assert 0 < promoted.sum() < 8
    tilt = 1.5 / temperature if delta_at == "logits" else 1.5
    weights = np.exp(logits[some].numpy() / temperature + tilt * promoted)
    expected = weights / weights.sum()
    assert counts.sum() == n
    assert np.all(np.abs(counts - n * expected) < 4 * np.sqrt(n * expected * (1 - expected)))


def test_random_order_settles_so_many_and_open_ones_alone() -> None:
    confidence = torch.tensor([[-torch.inf, 0.9, 0.1, 0.5, -torch.inf]]).repeat(3000, 1)
    settled = at_random(1, torch.Generator().manual_seed(0))(confidence)
    assert settled.sum(dim=1).tolist() == [1] * 3000
    shares = settled.double().mean(dim=0)
    assert shares[[0, 4]].tolist() == [0.0, 0.0]
    assert ((shares[1:4] - 1 / 3).abs() < 0.04).all()


def test_each_position_settles_with_its_probability() -> None:
    settled = each_with_probability(0.2, torch.Generator().manual_seed(0))(torch.zeros(100, 100))
    assert abs(float(settled.double().mean()) - 0.2) < 0.02


def test_forbidden_tokens_never_appear_and_late_ones_settle_last(secret: Secret) -> None:
    marker = Marker(words_key(secret, delta=0.0))
    logits = torch.zeros(NUM_COLUMNS)
    logits[EOS] = 5.0  # the surest of all
    tokens = torch.full((1, 60), MASK)
    keys = answer_keys(marker, tokens, 0, 0, 0)
    common: Any = {"bias": LogitBias(marker, keys), "mask_id": MASK}
    generator = torch.Generator().manual_seed(0)

    def model(x: Any) -> Any:
        return logits.expand(*x.shape, -1)

    late = MaskedSampler(model, late=[EOS], generator=generator, **common)
    first = late.fill(tokens, [most_confident(20)])
    assert (first != MASK).sum() == 20
    assert EOS not in first
    never = MaskedSampler(model, forbidden=list(SPECIAL), generator=generator, **common)
    written = never.fill(tokens, [most_confident(60)])
    assert not np.isin(written.numpy(), list(SPECIAL)).any()
    assert written.max() < 1000
