import copy
import pickle

import numpy as np
import pytest

from patternmark import Detector, Key, ParameterError, Profile
from patternmark.core.secret import Secret
from patternmark.workers import pickle_with_secrets
from tests.conftest import SECRET_HEX
from vectors import port


def test_words_are_those_of_the_port(secret: Secret) -> None:
    raw = bytes.fromhex(SECRET_HEX)
    expected = port.words(raw, "some label", 11)
    assert secret.words("some label", 11).tolist() == expected
    assert secret.words("some label", [10, 2, 2]).tolist() == [expected[i] for i in (10, 2, 2)]
    assert secret.words("some label", 0).shape == secret.words("some label", []).shape == (0,)


def test_a_longer_stream_begins_like_a_shorter_one(secret: Secret) -> None:
    assert secret.words("x", 100)[:7].tolist() == secret.words("x", 7).tolist()


def test_labels_and_secrets_separate(secret: Secret) -> None:
    streams = [
        tuple(secret.words("a", 8)),
        tuple(secret.words("b", 8)),
        tuple(Secret(bytes(32)).words("a", 8)),
    ]
    assert len(set(streams)) == 3


def test_uniforms_fill_the_unit_interval(secret: Secret) -> None:
    u = secret.uniforms("u", 20_000)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi-squared, 19 degrees: p = 1e-4


def test_permutations_are_permutations(secret: Secret) -> None:
    for size in (0, 1, 2, 20, 1000):
        assert sorted(secret.permutation("p", size).tolist()) == list(range(size))


def test_the_secret_does_not_show(secret: Secret) -> None:
    for text in (repr(secret), str(secret), f"{secret}", repr([secret]), repr({"k": secret})):
        assert SECRET_HEX[:8] not in text
    with pytest.raises(TypeError):
        hash(secret)


def test_a_copy_is_the_same_secret(secret: Secret) -> None:
    assert copy.deepcopy({"a": secret})["a"] == copy.copy(secret) == secret
    assert secret != Secret(bytes(32))


def test_a_secret_is_pickled_only_on_request(secret: Secret) -> None:
    key = Key.of(secret, Profile())
    for content in (secret, key, {"deep": [Detector(key)]}):
        with pytest.raises(TypeError, match="a secret is not pickled"):
            pickle.dumps(content)
    assert pickle.loads(pickle_with_secrets([secret, key])) == [secret, key]


def test_a_secret_has_256_bits() -> None:
    with pytest.raises(ParameterError, match="32 bytes, not 16"):
        Secret(bytes(16))
    assert Secret.generate() != Secret.generate()
