"""The schedule of block marks: which secret bit stands for which block and pair."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import PROTEIN, Key, Marker, ParameterError, Profile
from patternmark.core.blocks import MAX_CHAINS, PROTEIN_PAIRS, BlockSchedule, halves_of
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from vectors import port_blocks

FROZEN_LETTERS = ["AKLNPQTVWY", "CEFIMNPRTW", "ACFGKMNTVW", "CDEGHKMSVY"]
FROZEN_DIGEST = "4827bb3ffaa1b3da4e000db42f4ac3f2d66ab17e03d08c5449c2217b61915a9f"


def schedule(secret: Secret, **sizes: int) -> BlockSchedule:
    return BlockSchedule(secret, **({"block": 3, "nonces": 4} | sizes))


def test_a_block_promotes_one_letter_of_every_pair(secret: Secret) -> None:
    halves = schedule(secret).halves(0, 50)
    assert halves.shape == (4, 50, PROTEIN.size)
    assert not halves[..., list(PROTEIN.unscored)].any()
    for pair in PROTEIN_PAIRS:
        assert (halves[..., PROTEIN.encode(pair)].sum(axis=2) == 0).all()
    assert sorted("".join(PROTEIN_PAIRS)) == sorted(PROTEIN.letters[:20])


def test_positions_of_a_block_promote_the_same_half(secret: Secret) -> None:
    made = schedule(secret)
    rows = made.promoted_rows(made.keys(chain=2, nonce=3, length=31))
    halves = made.halves(2, 11)[3] > 0
    np.testing.assert_array_equal(rows, np.repeat(halves, 3, axis=0)[:31])


def test_coins_are_fair_and_independent(secret: Secret) -> None:
    """Of 10 pairs, 4 nonces and 2,000 blocks in two chains: 160,000 coins."""
    made = schedule(secret)
    coins = np.stack([made.words(chain, 2000) for chain in (0, 1)])
    bits = ((coins[..., None] >> np.arange(10)) & 1).astype(float)  # [chains, blocks, R, pairs]
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    signs = 2.0 * bits - 1.0
    neighbours = {
        "block": (signs[:, 1:] * signs[:, :-1]),
        "nonce": (signs[:, :, 1:] * signs[:, :, :-1]),
        "pair": (signs[..., 1:] * signs[..., :-1]),
        "chain": signs[0] * signs[1],
    }
    for name, products in neighbours.items():
        assert abs(products.mean()) < 5 / np.sqrt(products.size), name


def test_a_longer_stream_begins_like_a_shorter_one(secret: Secret) -> None:
    made = schedule(secret)
    np.testing.assert_array_equal(made.words(1, 300)[:7], made.words(1, 7))
    assert made.words(0, 0).shape == (0, 4)


def test_chains_secrets_and_sizes_share_nothing(secret: Secret) -> None:
    base = schedule(secret).words(0, 40) & 1023
    others = [
        schedule(secret).words(1, 40),
        schedule(Secret(bytes(32))).words(0, 40),
        schedule(secret, block=4).words(0, 40),
        schedule(secret, nonces=5).words(0, 40)[:, :4],
    ]
    for other in others:
        assert np.mean(base == (other & 1023)) < 0.05


def test_a_record_has_a_largest_number_of_chains(secret: Secret) -> None:
    for chain in (-1, MAX_CHAINS):
        with pytest.raises(ParameterError, match="up to 65536 chains"):
            schedule(secret).words(chain, 1)


def test_the_derivation_is_frozen(secret: Secret) -> None:
    halves = schedule(secret).halves(1, 64)
    letters = ["".join(PROTEIN.decode(np.flatnonzero(row > 0))) for row in halves[2][:4]]
    assert letters == FROZEN_LETTERS
    assert hashlib.sha256(np.packbits(halves > 0).tobytes()).hexdigest() == FROZEN_DIGEST


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(1, 8),
    st.integers(1, 9),
    st.integers(0, 5),
    st.integers(0, 40),
)
def test_the_port_has_the_same_halves(
    raw: bytes, block: int, nonces: int, chain: int, length: int
) -> None:
    key = Key.of(Secret(raw), Profile(scheme=Blocks(block=block, nonces=nonces)))
    nonce = length % nonces
    keys = Marker(key).key_sequences([length], 0, chain=chain, nonces=[nonce])[0]
    assert keys.tolist() == port_blocks.keys(nonces, block, chain, nonce, length)
    words = port_blocks.coin_words(raw, block, nonces, chain, length // block + 1)
    expected = [port_blocks.promoted(words[i // block][nonce]) for i in range(length)]
    rows = key.schedule.promoted_rows(keys)
    assert [set(PROTEIN.decode(np.flatnonzero(row))) for row in rows] == expected


def test_halves_of_words_of_any_shape() -> None:
    words = np.array([[0, 1023], [1, 2]], dtype=np.uint16)
    halves = halves_of(words)
    assert halves.shape == (2, 2, 21)
    assert PROTEIN.decode(np.flatnonzero(halves[0, 1] > 0)) == "ACDFGHIKLS"
    assert PROTEIN.decode(np.flatnonzero(halves[1, 0] > 0)) == "AMNPQRTVWY"
    np.testing.assert_array_equal(halves[0, 0], -halves[0, 1])
