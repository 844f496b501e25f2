"""Eq. 1, for numpy and torch alike."""

import subprocess
import sys

import numpy as np
import pytest

from patternmark import Key, Marker, ParameterError, Profile
from patternmark.core.alphabet import NO_KEY
from patternmark.core.promote import strength_of
from patternmark.core.schemes import Blocks, Paper, Scheme, Turns
from patternmark.core.secret import Secret
from tests.synthetic import vocabulary


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def equation_1(P: np.ndarray, part: np.ndarray, delta: float) -> np.ndarray:
    """The paper's formula, symbol by symbol."""
    total = sum(np.exp(delta) * p if inside else p for p, inside in zip(P, part, strict=True))
    return np.array(
        [(np.exp(delta) * p if inside else p) / total for p, inside in zip(P, part, strict=True)]
    )


def marker_with(secret: Secret, **changes: object) -> Marker:
    return Marker(Key.of(secret, Profile(scheme=Paper(), **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.1, 1.0, 2.5])
def test_tempered_is_equation_1_on_the_sampled_distribution(
    secret: Secret, rng: np.random.Generator, temperature: float
) -> None:
    marker = marker_with(secret, delta=1.3, delta_at="tempered")
    keys = marker.key_sequence(9, seed=4)
    logits = rng.normal(size=(9, 21))
    marked = softmax(marker.promote(logits, keys, temperature=temperature) / temperature)
    plain = softmax(logits / temperature)
    for i, k in enumerate(keys):
        expected = equation_1(plain[i], marker.key.partition.members[k], 1.3)
        np.testing.assert_allclose(marked[i], expected, rtol=1e-12)


def test_logits_means_before_the_division(secret: Secret, rng: np.random.Generator) -> None:
    marker = marker_with(secret, delta=0.5)
    keys = marker.key_sequence(4)
    logits = rng.normal(size=(4, 21))
    marked = softmax(marker.promote(logits, keys, temperature=0.1) / 0.1)
    plain = softmax(logits / 0.1)
    expected = equation_1(plain[0], marker.key.partition.members[keys[0]], 5.0)
    np.testing.assert_allclose(marked[0], expected, rtol=1e-12)


def test_batches_and_any_order(secret: Secret, rng: np.random.Generator) -> None:
    marker = marker_with(secret)
    keys = marker.key_sequences([12, 7, 12], seed=2)
    logits = rng.normal(size=(3, 12, 21)).astype(np.float32)
    whole = marker.promote(logits, keys, temperature=0.1)
    assert whole.dtype == np.float32
    order = rng.permutation(12)
    for step in order:
        one = marker.promote(logits[:, step], keys[:, step], temperature=0.1)
        np.testing.assert_array_equal(one, whole[:, step])
    np.testing.assert_array_equal(whole[1, 7:], logits[1, 7:])  # beyond its length: no key


def test_positions_without_a_key_and_symbols_without_a_part_are_left_alone(secret: Secret) -> None:
    marker = marker_with(secret)
    keys = np.array([NO_KEY, 0, 1])
    bias = marker.bias(keys, temperature=1.0)
    assert not bias[0].any()
    assert not bias[:, 20].any()
    assert bias[1:].sum(axis=1).tolist() == [10.0, 10.0]
    assert (bias[1] + bias[2])[:20].tolist() == [1.0] * 20


def test_a_delta_of_its_own_overrides_the_keys(key: Key) -> None:
    assert Marker(key, delta=0.25).bias([0], temperature=1.0).max() == 0.25


def test_shapes_that_do_not_fit_are_refused(key: Key) -> None:
    with pytest.raises(ParameterError, match=r"shape \(2, 20\) do not fit keys of shape \(2,\)"):
        Marker(key).promote(np.zeros((2, 20)), [0, 1], temperature=1.0)
    with pytest.raises(ParameterError, match="must be positive, not 0"):
        strength_of(1.0, "logits", 0.0)


def test_torch_gives_what_numpy_gives(secret: Secret, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    marker = marker_with(secret, delta=0.75)
    keys = marker.key_sequences([10, 6])
    logits = rng.normal(size=(2, 10, 21))
    expected = marker.promote(logits, keys, temperature=0.1)
    for kind in (torch.float64, torch.float32, torch.bfloat16):
        tensor = torch.tensor(logits, dtype=kind)
        for given in (keys, torch.tensor(keys)):
            marked = marker.promote(tensor, given, temperature=0.1)
            assert isinstance(marked, torch.Tensor)
            assert marked.dtype == kind
            precise = 1e-12 if kind == torch.float64 else 0.05
            np.testing.assert_allclose(marked.double().numpy(), expected, atol=precise)
    with pytest.raises(ParameterError, match="do not fit"):
        marker.promote(torch.zeros(3, 21), torch.zeros(2, dtype=torch.long), temperature=1.0)


def test_torch_gradients_pass_through(key: Key) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    logits = torch.zeros(3, 21, requires_grad=True)
    Marker(key).promote(logits, [0, 1, NO_KEY], temperature=1.0).sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == torch.ones(3, 21).tolist()


def test_numpy_users_never_import_torch() -> None:
    code = (
        "import sys, numpy as np, patternmark as pm\n"
        "marker = pm.Marker(pm.Key.generate(pm.Profile(scheme=pm.Paper())))\n"
        "marker.promote(np.zeros((3, 21)), [0, 1, 0], temperature=1.0)\n"
        "print('torch' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


TOKENS = vocabulary(300)
SHAPES = {
    "paper": Profile(alphabet=TOKENS, scheme=Paper(), delta=0.8),
    "turns": Profile(alphabet=TOKENS, scheme=Turns(nonces=5), delta=0.8),
    "tempered": Profile(alphabet=TOKENS, scheme=Turns(nonces=1), delta_at="tempered"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_prepared_once_adds_the_bias_of_every_key(
    name: str, secret: Secret, rng: np.random.Generator
) -> None:
    marker = Marker(Key.of(secret, SHAPES[name]))
    keys = marker.key_sequences([9, 4, 7], seed=3)
    logits = rng.normal(size=(3, 9, 300))
    rows = marker.key.schedule.promoted_rows(keys.ravel()).reshape(3, 9, 300)
    added = marker.strength(0.5) * (rows & (keys != NO_KEY)[..., None])
    expected = logits + added
    bias = marker.prepare(keys, temperature=0.5)
    np.testing.assert_array_equal(bias.add_to(logits), expected)
    np.testing.assert_array_equal(marker.promote(logits, keys, temperature=0.5), expected)
    np.testing.assert_array_equal(marker.bias(keys, temperature=0.5), added)
    mask = rng.random((3, 9)) < 0.4
    np.testing.assert_array_equal(bias.add_to(logits[mask], mask), expected[mask])
    np.testing.assert_array_equal(bias.add_to(logits[1], 1), expected[1])
    half = bias.add_to(logits.astype(np.float16))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, atol=0.02)
    assert len(bias.promoted) == len(np.unique(keys[keys != NO_KEY])) + 1  # none that is not used


def test_nothing_is_prepared_for_no_keys(key: Key) -> None:
    bias = Marker(key).prepare(np.full((2, 3), NO_KEY), 1.0)
    np.testing.assert_array_equal(bias.add_to(np.ones((2, 3, 21))), np.ones((2, 3, 21)))
    assert Marker(key).prepare([], 1.0).add_to(np.zeros((0, 21))).shape == (0, 21)


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_prepared_stays_beside_tensors(
    name: str, secret: Secret, rng: np.random.Generator
) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    marker = Marker(Key.of(secret, SHAPES[name]))
    keys = marker.key_sequences([9, 4], seed=3)
    plain = rng.normal(size=(2, 9, 300))
    expected = marker.promote(plain, keys, temperature=0.7)
    mask = torch.tensor(rng.random((2, 9)) < 0.4)
    for kind in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        logits = torch.tensor(plain, dtype=kind)
        bias = marker.prepare(torch.tensor(keys), 0.7, like=logits)
        assert bias.promoted.dtype == torch.bool
        assert bias.to_device_of(logits).promoted is bias.promoted  # nothing is copied again
        precise = {torch.float64: 1e-12, torch.float32: 1e-6}.get(kind, 0.05)
        for marked, wanted in (
            (bias.add_to(logits), expected),
            (bias.add_to(logits[mask], mask), expected[mask.numpy()]),
            (marker.prepare(keys, 0.7).add_to(logits), expected),  # made without `like`
        ):
            assert marked.dtype == kind
            np.testing.assert_allclose(marked.double().numpy(), wanted, atol=precise)
    elsewhere = marker.prepare(keys, 0.7, like=logits.to("meta"))
    assert elsewhere.promoted.device.type == elsewhere.row_of.device.type == "meta"
    assert elsewhere.add_to(logits.to("meta")).shape == logits.shape
    with pytest.raises(ParameterError, match=r"shape \(9, 300\) do not fit keys of shape \(2, 9\)"):
        bias.add_to(logits[0])


def test_keys_that_are_none_are_refused(key: Key) -> None:
    for bad in ([2], [-2], [0.5]):
        with pytest.raises(ParameterError, match="whole numbers from 0 to 1, or NO_KEY"):
            Marker(key).prepare(bad, 1.0)
    with pytest.raises(ParameterError, match="must be positive, not 0"):
        Marker(key).prepare([0], 0.0)


@pytest.mark.parametrize("scheme", [Paper(), Blocks(nonces=2)])
def test_sequences_of_one_nonce_share_the_rows_of_their_keys(
    secret: Secret, scheme: Scheme
) -> None:
    """What a batch says of a sequence is what it says of itself alone."""
    marker = Marker(Key.of(secret, Profile(scheme=scheme)))
    keys = marker.key_sequences([30] * 9 + [12], seed=3)
    together = marker.prepare(keys, 1.0)
    assert len(together.promoted) - 1 == len(np.unique(keys[keys >= 0]))
    for row, own in enumerate(keys):
        expected = marker.bias(own, temperature=1.0)
        np.testing.assert_array_equal(together.only(row).add_to(np.zeros((30, 21))), expected)
    some = together.only([9, 0]).add_to(np.zeros((2, 30, 21)))
    assert some[0, 12:].max() == 0
    np.testing.assert_array_equal(some[1], marker.bias(keys[0], temperature=1.0))
