import numpy as np
import pytest

from patternmark import NO_KEY, Key, KeyChain, KeyFileError, Marker, Profile
from patternmark.derive import Secret


def test_key_sequences_depend_on_secret_seed_and_index_alone(secret: Secret) -> None:
    chain = KeyChain.of([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5])
    profile = Profile(chain=chain, pattern_length=2, patterns=((0, 1),))
    marker = Marker(Key.of(secret, profile))
    base = marker.key_sequence(200, seed=1, index=2)
    assert marker.key_sequence(200, seed=1, index=2).tolist() == base.tolist()
    assert marker.key_sequence(90, seed=1, index=2).tolist() == base[:90].tolist()
    batch = marker.key_sequences([50, 60, 200], seed=1)
    assert batch[2].tolist() == base.tolist()
    assert batch[0, 50:].tolist() == [NO_KEY] * 150
    others = [
        marker.key_sequence(200, seed=2, index=2),
        marker.key_sequence(200, seed=1, index=3),
        marker.key_sequence(200, seed="1/2", index=2),
        Marker(Key.of(Secret(bytes(32)), profile)).key_sequence(200, seed=1, index=2),
    ]
    for other in others:
        assert 0.3 < np.mean(other == base) < 0.7


def test_the_default_alternates_and_starts_with_either_key(key: Key) -> None:
    marker = Marker(key)
    starts = set()
    for index in range(20):
        keys = marker.key_sequence(30, seed=0, index=index)
        assert np.all(keys[1:] != keys[:-1])
        starts.add(int(keys[0]))
    assert starts == {0, 1}


def test_an_empty_batch_is_empty(key: Key) -> None:
    assert Marker(key).key_sequences([]).shape == (0, 0)
    assert Marker(key).key_sequence(0).shape == (0,)


def test_a_public_half_cannot_mark(key: Key) -> None:
    with pytest.raises(KeyFileError, match="public half"):
        Marker(key.public())
