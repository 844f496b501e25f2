import numpy as np
import pytest

from patternmark import PROTEIN, Key, Profile
from patternmark.attacks.seen import by_letters
from patternmark.attacks.split import balanced_splits, learn_split
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.plan.simulate import marked_sequences, rates_at


def sequences(key: Key, delta: float, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    rates = rates_at(delta, PROTEIN, "paper")
    return list(marked_sequences(key, rates, rng.random((count, 400))))


def fresh_key(number: int) -> Key:
    return Key.of(Secret(number.to_bytes(32, "big")), Profile(scheme=Paper()))


def rank(key: Key, delta: float, count: int, rng: np.random.Generator) -> int:
    learned = learn_split(
        by_letters(sequences(key, delta, count, rng), rates_at(delta, PROTEIN, "paper"))
    )
    found = learned.rank(key.partition)
    assert found is not None
    return found


def test_every_balanced_split_is_tried_once() -> None:
    splits = balanced_splits()
    assert splits.shape == (92_378, 20)
    assert not splits.sum(axis=1).any()
    assert len({row.tobytes() for row in splits}) == len(splits)


def test_the_split_is_found_from_16_sequences(rng: np.random.Generator) -> None:
    assert [rank(fresh_key(n), 1.0, 16, rng) for n in range(5)] == [1] * 5


def test_one_sequence_is_often_not_enough(rng: np.random.Generator) -> None:
    ranks = [rank(fresh_key(n), 0.5, 1, rng) for n in range(8)]
    assert sum(r == 1 for r in ranks) <= 4
    assert np.median(ranks) < 20_000  # yet far from nothing


def test_the_order_of_the_parts_does_not_matter(secret: Secret, rng: np.random.Generator) -> None:
    parts = ["ACDEFGHIKL", "MNPQRSTVWY"]
    key, swapped = (Key.of(secret, Profile(scheme=Paper()), p) for p in (parts, parts[::-1]))
    learned = learn_split(by_letters(sequences(key, 0.5, 2, rng), rates_at(0.5, PROTEIN, "paper")))
    assert learned.rank(key.partition) == learned.rank(swapped.partition)


def test_an_unbalanced_split_has_no_rank(secret: Secret, rng: np.random.Generator) -> None:
    key = Key.of(secret, Profile(scheme=Paper()), ["ACDEFGHIKLM", "NPQRSTVWY"])
    learned = learn_split(by_letters(sequences(key, 1.0, 2, rng), rates_at(1.0, PROTEIN, "paper")))
    assert learned.rank(key.partition) is None


def test_scores_are_likelihoods_of_the_two_phases() -> None:
    rates = rates_at(1.0, PROTEIN, "paper")
    sequence = PROTEIN.encode("MKTAYIAKQRWW")
    learned = learn_split(by_letters([sequence], rates))
    for at in (0, 4711, 92_377):
        promoted = balanced_splits()[at] > 0  # at even places, in the first phase
        likelihood = []
        for phase in (0, 1):
            agrees = promoted[sequence] ^ ((np.arange(12) + phase) % 2 == 1)
            likelihood.append(np.prod(np.where(agrees, rates[sequence], 1 - rates[sequence])))
        constant = 0.5 * np.log(rates[sequence] * (1 - rates[sequence])).sum()
        expected = np.log(np.mean(likelihood)) - constant
        assert learned.log_likelihood[at] == pytest.approx(expected, rel=1e-4)


def test_what_is_believed_sums_up(rng: np.random.Generator) -> None:
    key = fresh_key(3)
    learned = learn_split(by_letters(sequences(key, 1.0, 16, rng), rates_at(1.0, PROTEIN, "paper")))
    assert learned.posterior > 0.9
    assert learned.gap > 2
    signs = learned.best_signs(3)
    assert signs.shape == (3, 21)
    np.testing.assert_allclose(signs[0], signs[2])
    np.testing.assert_allclose(signs[0], -signs[1])
    true = np.where(key.partition.members[0], 1, -1)[:20]
    assert abs(np.sign(signs[0, :20]) @ true) == 20
