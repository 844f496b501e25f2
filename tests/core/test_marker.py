import numpy as np
import pytest

from patternmark import Key, KeyFileError, Marker, ParameterError, Profile
from patternmark.core.alphabet import NO_KEY
from patternmark.core.blocks import MAX_BLOCKS
from patternmark.core.chain import KeyChain
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret


def test_key_sequences_depend_on_secret_seed_and_index_alone(secret: Secret) -> None:
    chain = KeyChain.of([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5])
    profile = Profile(scheme=Paper(chain=chain, pattern_length=2, patterns=((0, 1),)))
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


def test_without_a_seed_keys_are_drawn_afresh(secret: Secret) -> None:
    marker = Marker(Key.of(secret, Profile(scheme=Blocks())))
    drawn = {tuple(marker.key_sequence(3)) for _ in range(30)}
    assert len(drawn) > 10  # of 32 nonces: fewer than 11 once in 10^9 times


def test_the_nonce_is_that_of_the_record_and_not_of_the_chain(secret: Secret) -> None:
    key = Key.of(secret, Profile(scheme=Blocks()))

    def nonces(marker: Marker, chain: int, **options: list[int]) -> list[int]:
        keys = marker.key_sequences([4] * 20, 7, chain=chain, **options)
        return (keys[:, 0] // MAX_BLOCKS - chain * 32).tolist()

    marker = Marker(key)
    assert nonces(marker, 0) == nonces(marker, 1) == marker.nonces(7, range(20)).tolist()
    assert len(set(nonces(marker, 0))) > 10
    first, second = (marker.key_sequences([4] * 20, 7, chain=chain) for chain in (0, 1))
    assert (first != second).all()  # but chains have coins of their own
    assert nonces(marker, 1, nonces=list(range(20))) == list(range(20))
    assert nonces(Marker(key, payload=9), 3) == [9] * 20
    for wrong in (-1, 32):
        with pytest.raises(ParameterError, match="nonces from 0 to 31"):
            marker.key_sequences([4], 7, nonces=[wrong])
