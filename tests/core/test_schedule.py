import hashlib
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import Alphabet, Key, ParameterError, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.partition import derive_partition
from patternmark.core.secret import Secret
from patternmark.core.turns import TurnSchedule
from patternmark.statistics.excerpts import Excerpt
from vectors import port_turns

TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(21)], unscored=[20])
FROZEN_DIGEST = "fe04dd0f1a260906ed727a4a18486828dee515f5d52ba0344c9dfce3f4679acd"
FROZEN_ODD = "6664f2abb5a62e546a69f352df60d274f150eb9302b8922c71108075e61601ba"


def schedule(secret: Secret, alphabet: Alphabet = TOKENS, **sizes: int) -> TurnSchedule:
    usual = {"period": 64, "block": 4, "nonces": 3, "starts": 4}
    return TurnSchedule(secret, alphabet, **(usual | sizes))


def test_every_coin_is_fair(secret: Secret) -> None:
    made = schedule(secret, TOKENS, block=2)
    for nonce in range(made.nonces):
        halves = made.promoted(nonce)
        assert halves.shape == (64, TOKENS.size)
        assert not halves[:, list(TOKENS.unscored)].any()
        coins = halves[::2, TOKENS.scored]  # 32 blocks of 20 tokens
        assert abs(coins.mean() - 0.5) < 4 * 0.5 / np.sqrt(coins.size)
        assert len(set(coins.sum(axis=1))) > 3  # not halves of equal size


def test_keys_of_a_block_take_turns_with_the_complement(secret: Secret) -> None:
    halves = schedule(secret, block=4).promoted(0)[:, TOKENS.scored].reshape(16, 4, 20)
    for block in halves:
        for here, following in pairwise(block):
            assert (here != following).all()
    firsts = {block[0].tobytes() for block in halves}
    assert len(firsts) >= 14  # each block has a half of its own, but for coincidence


def test_every_symbol_is_promoted_half_of_the_time(secret: Secret) -> None:
    for nonce in range(3):
        counts = schedule(secret).promoted(nonce)[:, TOKENS.scored].sum(axis=0)
        assert (counts == 32).all()


def test_nonces_secrets_and_sizes_share_nothing(secret: Secret) -> None:
    base = schedule(secret).promoted(0)
    others = [
        schedule(secret).promoted(1),
        schedule(Secret(bytes(32))).promoted(0),
        schedule(secret, period=128).promoted(0)[:64],
        schedule(secret, block=8).promoted(0),
    ]
    first_of_block, scored = slice(0, 64, 8), TOKENS.scored  # where no complement decides
    for other in others:
        same = np.mean(other[first_of_block][:, scored] == base[first_of_block][:, scored])
        assert 0.2 < same < 0.8


def test_the_number_of_nonces_and_starts_does_not_change_a_schedule(secret: Secret) -> None:
    few, many = schedule(secret), schedule(secret, nonces=9, starts=8)
    np.testing.assert_array_equal(few.promoted(2), many.promoted(2))
    assert few.starts.tolist() == [0, 16, 32, 48]


def test_any_two_nonces_share_half_of_their_coins(secret: Secret) -> None:
    """Also the sum of two with a third, which a linear code ties together."""
    tokens = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(400)], [])
    made = schedule(secret, tokens, block=8, nonces=8)  # 8 blocks of 400 coins
    coins = [made.promoted(nonce)[::8] for nonce in range(8)]
    for one, other in combinations(range(8), 2):
        share = np.mean(coins[one] == coins[other])
        assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(3200), (one, other)
    odd = coins[1] ^ coins[2] ^ coins[4]
    assert abs(np.mean(odd) - 0.5) < 4 * 0.5 / np.sqrt(3200)


@pytest.mark.parametrize("nonces", [1, 3, 8])
def test_base_coins_and_what_turns_them_make_every_nonce(secret: Secret, nonces: int) -> None:
    made = schedule(secret, nonces=nonces)
    some = np.array([3, 0, 17, 17])
    base, turning = made.base_coins(some), made.turning_coins(some)
    assert turning.shape == base.shape == (16, 4)
    for nonce in range(nonces):
        flips = np.array([[bin(t & nonce).count("1") % 2 for t in row] for row in turning])
        firsts = made.promoted_to(nonce, some)[::4]  # of every block
        np.testing.assert_array_equal(base ^ flips.astype(bool), firsts)


def test_the_bits_of_the_default(secret: Secret) -> None:
    made = Key.of(secret, Profile(TOKENS)).schedule
    assert made.bits == 4 * 20
    assert (made.period, made.nonces, len(made.starts)) == (512, 1, 1)


def test_the_derivation_is_frozen(secret: Secret) -> None:
    halves = schedule(secret).promoted(1)
    assert hashlib.sha256(np.packbits(halves).tobytes()).hexdigest() == FROZEN_DIGEST
    tokens = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(8)], unscored=[0])
    odd = schedule(secret, tokens).promoted(0)
    assert hashlib.sha256(np.packbits(odd).tobytes()).hexdigest() == FROZEN_ODD


def test_nothing_secret_is_printed(secret: Secret) -> None:
    turns, blocks = Key.of(secret, Profile(TOKENS)), Key.of(secret, Profile())
    assert repr(turns.schedule) == "TurnSchedule(1 nonces of 512 keys, hidden)"
    assert repr(blocks.schedule) == "BlockSchedule(blocks of 3, 32 nonces, hidden)"
    for key in (turns, blocks):
        with pytest.raises(ParameterError, match="has no parts"):
            _ = key.partition


def test_the_papers_scheme_in_the_same_terms(key: Key) -> None:
    made = key.schedule
    assert (made.period, made.nonces, made.starts.tolist()) == (2, 1, [0, 1])
    np.testing.assert_array_equal(made.promoted(0), key.partition.members)


def test_only_neighbours_and_whole_rounds_meet_a_half_again(secret: Secret, key: Key) -> None:
    """Where halves of two keys so far apart are ever alike, `reuses` must say so."""
    made = schedule(secret, period=512, block=8, nonces=1, starts=1)
    lags = np.arange(1, 1100)
    claimed = made.reuses(lags)
    halves = made.promoted(0)[:, TOKENS.scored]
    for lag in lags[lags < 512].tolist():
        alike = (halves == np.roll(halves, -lag, axis=0)).all(axis=1)
        opposite = (halves != np.roll(halves, -lag, axis=0)).all(axis=1)
        assert claimed[lag - 1] or not (alike | opposite).any()
    assert claimed[[0, 1, 2, 511, 1023]].all()  # lags 1, 2, 3, 512 and 1,024
    assert claimed.mean() < 0.1
    assert key.schedule.reuses(lags).all()


@given(st.data())
def test_rows_and_columns_are_those_of_the_whole(data: st.DataObject) -> None:
    """Against the pure Python port, for alphabets of any size and any shape of schedule."""
    size = data.draw(st.integers(2, 40))
    unscored = data.draw(st.sets(st.integers(0, size - 1), max_size=size - 2))
    block = data.draw(st.sampled_from([2, 4, 6]))
    period = block * data.draw(st.integers(1, 5))
    nonces = data.draw(st.integers(1, 3))
    names = [f"t{i}" for i in range(size)]
    tokens = Alphabet.from_symbols("tokens", names, unscored)
    raw = data.draw(st.binary(min_size=32, max_size=32))
    made = TurnSchedule(Secret(raw), tokens, period, block=block, nonces=nonces, starts=1)
    shape = port_turns.Sizes(period, block, 1, nonces)
    whole = np.zeros((nonces * period, size), dtype=bool)
    for nonce in range(nonces):
        halves = port_turns.schedule(raw, names, sorted(unscored), shape, nonce)
        for phase, half in enumerate(halves):
            whole[nonce * period + phase, sorted(half)] = True
    key_numbers = st.integers(0, nonces * period - 1)
    keys = np.array(data.draw(st.lists(key_numbers, max_size=12)), dtype=np.int64)
    np.testing.assert_array_equal(made.promoted_rows(keys), whole[keys])
    some = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=9)), dtype=np.int64)
    for nonce in range(nonces):
        own = whole[nonce * period : (nonce + 1) * period]
        np.testing.assert_array_equal(made.promoted_to(nonce, some), own[:, some])
        np.testing.assert_array_equal(made.promoted(nonce), own)
        excerpt = Excerpt.of(made, some)
        np.testing.assert_array_equal(
            excerpt.promoted(nonce)[:, excerpt.numbered(some)], own[:, some]
        )


@given(st.data())
def test_a_partition_gives_rows_and_columns_too(data: st.DataObject) -> None:
    tokens = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(23)], [0, 22])
    parts = data.draw(st.integers(2, 5))
    raw = data.draw(st.binary(min_size=32, max_size=32))
    made = derive_partition(Secret(raw), tokens, parts)
    whole = made.promoted(0)
    some = np.array(data.draw(st.lists(st.integers(0, 22), max_size=9)), dtype=np.int64)
    np.testing.assert_array_equal(made.promoted_to(0, some), whole[:, some])
    keys = np.array(data.draw(st.lists(st.integers(0, parts - 1), max_size=9)), dtype=np.int64)
    np.testing.assert_array_equal(made.promoted_rows(keys), whole[keys])
    np.testing.assert_allclose(made.shares, whole.sum(axis=1) / 21)


def test_an_excerpt_numbers_what_occurs(secret: Secret) -> None:
    made = schedule(secret)
    symbols = np.array([17, UNREAD, 3, 17, 9])
    excerpt = Excerpt.of(made, symbols)
    assert excerpt.symbols.tolist() == [3, 9, 17]
    assert excerpt.numbered(symbols).tolist() == [2, UNREAD, 0, 2, 1]
    assert (excerpt.period, excerpt.nonces) == (made.period, made.nonces)
    assert Excerpt.of(made, np.array([UNREAD])).promoted(0).shape == (made.period, 0)
