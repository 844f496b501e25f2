"""Positions that are kept toss different coins: agreements are fair whatever the text is."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import Alphabet, Detector, Key, Profile
from patternmark.core.alphabet import NO_COIN, SEPARATOR, UNREAD
from patternmark.core.reading import read_many
from patternmark.core.schemes import Paper, Scheme, Turns
from patternmark.core.secret import Secret
from patternmark.core.turns import TurnSchedule
from patternmark.masks import read
from patternmark.masks.coins import count_occurrences, find_reused_coins
from patternmark.masks.repeats import Lags

TOKENS = Alphabet.from_symbols("tokens", [f"t{i}" for i in range(600)], unscored=[0, 1])
FEW = Alphabet.from_symbols("few", list("abcdef"), unscored=[])
PERIOD, BLOCK = 24, 2
texts = st.lists(st.sampled_from([NO_COIN, SEPARATOR, 2, 3, 4, 5, 9]), max_size=60)


def reuses(lags: np.ndarray) -> np.ndarray:
    schedule = TurnSchedule(Secret(bytes(32)), FEW, PERIOD, block=BLOCK, nonces=1, starts=1)
    return schedule.reuses(lags)


def one_by_one(text: list[int], matters: Lags | None) -> list[bool]:
    """Say the rule again, pair by pair."""
    chain = np.cumsum(np.array(text, dtype=int) == SEPARATOR)
    marks = []
    for i, symbol in enumerate(text):
        earlier = [j for j in range(i) if text[j] == symbol and symbol >= 0]
        marks.append(
            any(
                matters is None or chain[i] != chain[j] or bool(matters(np.array([i - j]))[0])
                for j in earlier
            )
        )
    return marks


@given(st.lists(texts, max_size=5))
def test_a_coin_counts_where_it_is_tossed_first(batch: list[list[int]]) -> None:
    records = [np.array(text, dtype=np.int64) for text in batch]
    for matters in (None, reuses, lambda lags: lags < 0):
        found = find_reused_coins(records, matters)
        assert [mark.tolist() for mark in found] == [one_by_one(text, matters) for text in batch]


@given(st.lists(st.integers(0, 4), max_size=80))
def test_no_coin_is_met_twice_along_a_steady_path(text: list[int]) -> None:
    symbols = np.array(text, dtype=np.int64)
    kept = np.flatnonzero(~find_reused_coins([symbols], reuses)[0])
    for phase in range(PERIOD):
        blocks = (kept + phase) % PERIOD // BLOCK
        coins = list(zip(blocks.tolist(), symbols[kept].tolist(), strict=True))
        assert len(set(coins)) == len(coins)
    once = symbols[~find_reused_coins([symbols])[0]].tolist()
    assert sorted(once) == sorted(set(text))


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=14),
    st.lists(st.booleans(), min_size=14, max_size=14),
)
def test_over_all_splits_agreements_are_fair_along_any_path(
    text: list[int], path: list[bool]
) -> None:
    """The paper's scheme: every outcome of the kept positions is equally likely."""
    symbols = np.array(text, dtype=np.int64)
    kept = np.flatnonzero(~find_reused_coins([symbols])[0])
    keys = np.array(path)[: len(text)]  # slips and all
    outcomes = Counter(
        tuple((np.array(split)[symbols] == keys)[kept].tolist())
        for split in product([False, True], repeat=3)
    )
    assert len(outcomes) == 2 ** len(kept)
    assert len(set(outcomes.values())) == 1


@given(st.lists(st.integers(0, 1), min_size=1, max_size=16), st.integers(0, 7))
def test_over_all_schedules_agreements_are_fair_along_a_steady_path(
    text: list[int], phase: int
) -> None:
    """A schedule of four blocks and two pairs: all 256 of them, the first of each pair."""

    def matters(lags: np.ndarray) -> np.ndarray:
        past = lags % 8
        return (past < 2) | (past > 6)  # no slips: neighbours alone

    symbols = np.array(text, dtype=np.int64)
    kept = np.flatnonzero(~find_reused_coins([symbols], matters)[0])
    keys = (phase + np.arange(len(symbols))) % 8
    outcomes: Counter[tuple[bool, ...]] = Counter()
    for bits in product([False, True], repeat=8):
        promoted = np.repeat(np.array(bits).reshape(4, 2), 2, axis=0)
        promoted[1::2] ^= True
        outcomes[tuple(promoted[keys, symbols][kept].tolist())] += 1
    assert len(outcomes) == 2 ** len(kept)
    assert len(set(outcomes.values())) == 1


def test_tokens_are_read_by_their_coins_and_letters_by_stretches() -> None:
    ids = np.array([5, 6, 5, 0, 7, 6, 5, 8, 5, 6, 5, 6])
    few = Alphabet.from_symbols("few", [f"t{i}" for i in range(20)], unscored=[0])
    assert read(ids, few).num_scored == 11  # no stretch of it repeats
    once = read(ids, TOKENS)
    assert once.symbols.tolist() == [5, 6, -1, -1, 7, -1, -1, 8, -1, -1, -1, -1]
    everything = read_many([ids], TOKENS, [None])[0]
    assert everything.num_scored == 11


def test_what_is_not_scored_tosses_no_coin() -> None:
    """A prompt that holds the word takes nothing from the answer."""
    ids = np.array([5, 6, 5, 6])
    reading = read(ids, TOKENS, np.array([False, False, True, True]))
    assert reading.symbols.tolist() == [UNREAD, UNREAD, 5, 6]


def test_turns_have_fresh_coins_further_on() -> None:
    profile = Profile(alphabet=TOKENS, scheme=Turns(block=4, starts=4))
    detector = Detector(Key.of(Secret(bytes(32)), profile), "phase")
    word, other = np.full(1, 7), np.arange(20, 40)
    near = detector.read([np.concatenate([word, other[:5], word])])[0]
    far = detector.read([np.concatenate([word, other, word])])[0]
    rounds = detector.read([np.concatenate([word, np.arange(10, 521), word])])[0]
    over = detector.read([np.full(1000, 7)])[0]
    assert [r.num_scored for r in (near, far, rounds, over)] == [6, 22, 512, 1]
    assert all(r.times is None for r in (near, far, rounds, over))


@pytest.mark.parametrize("scheme", [Paper(), Turns()])
@pytest.mark.parametrize("name", ["auto", "lr"])
def test_ratios_of_texts_read_every_token_and_how_often_it_stands(
    scheme: Scheme, name: str
) -> None:
    key = Key.of(Secret(bytes(32)), Profile(alphabet=TOKENS, scheme=scheme))
    ids = np.array([7, 8, 7, 0, SEPARATOR, 7, 9, 9])
    reading = Detector(key, name).read([ids])[0]
    assert reading.symbols.tolist() == [7, 8, 7, UNREAD, UNREAD, 7, 9, 9]
    assert reading.times is not None
    assert reading.times.tolist() == [3, 1, 3, 1, 1, 3, 2, 2]  # in all chains of a record
    scored = np.arange(len(ids)) > 1
    some = Detector(key, name).read([ids], [scored])[0]
    assert some.times is not None
    assert some.times.tolist() == [1, 1, 2, 1, 1, 2, 2, 2]  # a prompt takes nothing
    assert Detector(key, name, mask_repeats=False).read([ids])[0].times is None


def test_how_often_a_token_stands_is_rounded_up_to_three_leading_bits() -> None:
    few = {n: int(count_occurrences(np.full(n, 4))[0]) for n in range(1, 70)}
    assert all(few[n] == n for n in range(1, 9))
    rounded = {
        9: 10,
        11: 12,
        13: 14,
        15: 16,
        16: 16,
        17: 20,
        21: 24,
        25: 28,
        29: 32,
        33: 40,
        65: 80,
    }
    assert {n: few[n] for n in rounded} == rounded
    assert all(n <= times <= 1.25 * n for n, times in few.items())  # never less: the bound holds


@given(texts)
def test_times_are_counted_token_by_token(text: list[int]) -> None:
    symbols = np.where(np.array(text, dtype=np.int64) < 0, UNREAD, np.array(text, dtype=np.int64))
    found = count_occurrences(symbols).tolist()
    for symbol, times in zip(symbols.tolist(), found, strict=True):
        count = symbols.tolist().count(symbol)
        step = 2 ** max(count.bit_length() - 3, 0)
        assert times == (1 if symbol == UNREAD else -(-count // step) * step)


@pytest.mark.parametrize("scheme", [Paper(), Turns()])
def test_nothing_and_empty_records_are_read(scheme: Scheme) -> None:
    key = Key.of(Secret(bytes(32)), Profile(alphabet=TOKENS, scheme=scheme))
    detector = Detector(key, "lr")
    assert detector.read([]) == []
    found = detector.read([np.zeros(0, dtype=np.int64), np.array([0, 1]), np.array([3])])
    assert [reading.num_scored for reading in found] == [0, 0, 1]
