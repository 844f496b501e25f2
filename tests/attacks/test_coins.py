import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile
from patternmark.attacks.block_coins import PAIRS, CoinKnowledge, learn_coins
from patternmark.attacks.forge import forge
from patternmark.attacks.seen import Seen, by_letters
from patternmark.core.alphabet import UNREAD
from patternmark.core.blocks import pair_of_letter, side_of_letter
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.plan.simulate import natural_frequencies, rates_at
from patternmark_lab.bench.secrecy_judge import judge_fast
from patternmark_lab.bench.secrecy_trials import block_marked


def block_key(number: int, **sizes: int) -> Key:
    return Key.of(Secret(number.to_bytes(32, "big")), Profile(scheme=Blocks(**sizes)))


def learned(key: Key, delta: float, nonces: np.ndarray, rng: np.random.Generator) -> CoinKnowledge:
    rates = rates_at(delta, PROTEIN, Blocks.name)
    seen = by_letters(block_marked(key, nonces, rates, rng), rates)
    return learn_coins(seen, key.schedule.block, key.schedule.nonces, rng)


def taken_for_genuine(
    key: Key, knowledge: CoinKnowledge, delta: float, nonce: int, rng: np.random.Generator
) -> float:
    rates = rates_at(delta, PROTEIN, Blocks.name)
    forged = forge(knowledge, [400] * 20, rates, natural_frequencies(), rng)
    return float(np.mean(judge_fast(key, forged, [nonce])))


@pytest.mark.parametrize("block", [1, 3, 4])
def test_votes_of_agreeing_letters_have_the_signs_of_the_coins(block: int) -> None:
    schedule = block_key(1, block=block, nonces=2).schedule
    promoted = schedule.promoted_rows(schedule.keys(0, 1, 60))
    sequence = np.array([np.flatnonzero(row)[at % 10] for at, row in enumerate(promoted)])
    knowledge = learn_coins([Seen(sequence, np.ones(60))], block, 2, np.random.default_rng(0))
    signs = knowledge.best_signs(60)
    assert knowledge.num_coins == -(-60 // block) * PAIRS
    assert np.all(signs[np.arange(60), sequence] > 0.4)
    known = signs != 0
    assert np.array_equal(signs[known] > 0, promoted[known])
    # Beyond what was seen nothing is known.
    longer = knowledge.best_signs(90)
    assert np.array_equal(longer[:60], signs)
    assert not longer[60:].any()


def test_votes_on_one_coin_add_up() -> None:
    # A A E of one block: two votes for the first letter of the pair, one for the second.
    sequence = PROTEIN.encode("AAE")
    knowledge = learn_coins(
        [Seen(sequence, np.array([0.5, 0.7, 0.4]))], 3, 1, np.random.default_rng(0)
    )
    pair = pair_of_letter()[sequence[0]]
    assert np.count_nonzero(knowledge.odds) == 1
    np.testing.assert_allclose(knowledge.odds[0, pair], side_of_letter()[sequence[0]] * 0.8)


def test_what_is_not_read_does_not_vote(rng: np.random.Generator) -> None:
    symbols = np.array([UNREAD, 20, 3, UNREAD])
    knowledge = learn_coins([Seen(symbols, np.ones(4))], 2, 1, rng)
    assert np.count_nonzero(knowledge.odds) == 1
    silent = learn_coins([Seen(np.full(4, UNREAD), np.zeros(4))], 2, 1, rng)
    assert silent.bits_learned == 0.0


def test_one_sequence_teaches_little(rng: np.random.Generator) -> None:
    rates, bits = [], []
    for number in range(10):
        key = block_key(number)
        knowledge = learned(key, 1.0, np.array([7]), rng)
        bits.append(knowledge.bits_learned)
        rates.append(taken_for_genuine(key, knowledge, 1.0, 7, rng))
    assert np.mean(rates) <= 4 / 200
    assert 40 < np.mean(bits) < 90  # of 1,340


def test_sequences_of_one_nonce_are_pooled_and_forged(rng: np.random.Generator) -> None:
    key = block_key(5, nonces=1)
    knowledge = learned(key, 1.0, np.zeros(24, dtype=np.int64), rng)
    assert knowledge.num_nonces == 1
    assert knowledge.largest == 24
    assert 700 < knowledge.bits_learned < knowledge.num_coins == 1340
    assert taken_for_genuine(key, knowledge, 1.0, 0, rng) > 0.9


def test_sequences_of_several_nonces_are_told_apart(rng: np.random.Generator) -> None:
    nonces = rng.integers(4, size=48)
    knowledge = learned(block_key(6, nonces=4), 1.0, nonces, rng)
    of_best = nonces[knowledge.nonce_of == knowledge.best]
    assert len(of_best) == knowledge.largest >= 8
    assert len(set(of_best.tolist())) == 1


def test_who_knows_that_nonces_differ_pools_nothing(rng: np.random.Generator) -> None:
    key = block_key(7, nonces=16)
    rates = rates_at(1.0, PROTEIN, Blocks.name)
    seen = by_letters(block_marked(key, np.arange(16), rates, rng), rates)
    knowledge = learn_coins(seen, 3, 16, rng, most_of_one=1)
    assert knowledge.num_nonces == 16
    assert sorted(knowledge.nonce_of.tolist()) == list(range(16))
    pairs = learn_coins([*seen, *seen], 3, 16, rng, most_of_one=2)
    assert np.bincount(pairs.nonce_of).max() <= 2


@pytest.mark.slow
def test_the_likelihood_of_sharing_a_nonce_is_exact(rng: np.random.Generator) -> None:
    """Two sequences share one of two nonces as often as enumeration of all coins says."""
    weights = np.array([0.9, 0.6, 1.2])
    first, second = PROTEIN.encode("AKS"), PROTEIN.encode("ARS")
    log_ratio = 0.0
    for a, b, weight in zip(first, second, weights, strict=True):
        rate = 1 / (1 + np.exp(-weight))
        same = rate * rate + (1 - rate) * (1 - rate)
        log_ratio += np.log(2 * (same if a == b else 1 - same))
    expected = 1 / (1 + np.exp(-log_ratio))
    seen = [Seen(first, weights), Seen(second, weights)]
    shared = [
        learn_coins(seen, 1, 2, np.random.default_rng(i), sweeps=20, settle=0).num_nonces == 1
        for i in range(600)
    ]
    assert abs(np.mean(shared) - expected) < 4 * np.sqrt(expected * (1 - expected) / 600)
