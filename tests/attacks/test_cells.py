import numpy as np
import pytest
from patternmark.attacks.cells import CellKnowledge, Cells, learn_cells

from patternmark import PROTEIN, Detector, Key, Marker, Profile
from patternmark.attacks.forge import forge
from patternmark.core.alphabet import UNREAD
from patternmark.core.schemes import Blocks
from patternmark.core.secret import Secret
from patternmark.simulate import marked_sequences, natural_frequencies, rates_at


def hardened(number: int, **sizes: int) -> Key:
    return Key.of(Secret(number.to_bytes(32, "big")), Profile(scheme="hardened", **sizes))


def learned(key: Key, delta: float, count: int, rng: np.random.Generator) -> CellKnowledge:
    rates = rates_at(delta, PROTEIN, "hardened")
    seen = marked_sequences(key, rates, rng.random((count, 400)))
    return learn_cells(list(seen), key.profile, rates, rng)


def taken_for_genuine(
    key: Key, knowledge: CellKnowledge, delta: float, rng: np.random.Generator
) -> float:
    rates = rates_at(delta, PROTEIN, "hardened")
    forged = forge(knowledge, [400] * 30, rates, natural_frequencies(), rng)
    return float(np.mean([v.prediction for v in Detector(key).detect_many(forged)]))


def frames(key: Key, knowledge: CellKnowledge, count: int) -> list[tuple[int, int]]:
    """Where phase 0 of each sequence's believed schedule truly lies: nonce and phase."""
    first = Marker(key).key_sequences([1] * count, seed=0)[:, 0]
    nonce, phase = divmod(first, key.profile.period)
    origin = (phase - knowledge.phase_of) % key.profile.period
    return list(zip(nonce.tolist(), origin.tolist(), strict=True))


@pytest.mark.parametrize(("period", "block", "starts"), [(16, 2, 16), (16, 4, 4), (512, 4, 16)])
def test_votes_fall_on_the_cells_of_the_schedule(period: int, block: int, starts: int) -> None:
    key = hardened(1, period=period, block=block, starts=starts, nonces=1)
    cells = Cells(key.profile)
    promoted = key.schedule.promoted(0)
    # Letters that all agree, from every start: the pooled signs are those of the schedule.
    for number, start in enumerate(cells.starts.tolist()):
        place = (start + np.arange(2 * period)) % period
        sequence = np.array([np.flatnonzero(promoted[p])[i % 10] for i, p in enumerate(place)])
        votes = cells.votes(sequence[None], np.ones(21))[0, number]
        signs = np.sign(cells.of_letters(votes))
        known = signs != 0
        assert known.any()
        assert np.array_equal(signs[known] > 0, promoted[known])


def test_what_is_not_read_does_not_vote() -> None:
    cells = Cells(Profile(scheme=Blocks()))
    assert not cells.votes(np.array([[UNREAD, 20, UNREAD]]), np.ones(21)).any()


def test_one_sequence_at_half_strength_teaches_nothing(rng: np.random.Generator) -> None:
    rates = []
    for number in range(4):
        key = hardened(number, nonces=1)
        rates.append(taken_for_genuine(key, learned(key, 0.5, 1, rng), 0.5, rng))
    assert np.mean(rates) <= 2 / 120


def test_sequences_of_one_schedule_are_aligned_and_forged(rng: np.random.Generator) -> None:
    key = hardened(5, nonces=1)
    knowledge = learned(key, 1.0, 24, rng)
    assert len(set(frames(key, knowledge, 24))) == 1
    assert knowledge.num_schedules == 1
    assert 500 < knowledge.bits_learned < 1280
    assert taken_for_genuine(key, knowledge, 1.0, rng) > 0.8


def test_sequences_of_several_schedules_are_told_apart(rng: np.random.Generator) -> None:
    key = hardened(6, nonces=4)
    knowledge = learned(key, 1.5, 32, rng)
    of_best = np.flatnonzero(knowledge.schedule_of == knowledge.best)
    assert len(of_best) == knowledge.largest >= 6
    found = frames(key, knowledge, 32)
    assert len({found[i] for i in of_best}) == 1


def test_a_short_period_is_broken_by_few_sequences(rng: np.random.Generator) -> None:
    rates = []
    for number in range(3):
        key = hardened(number, period=16, block=2, starts=16, nonces=1)
        rates.append(taken_for_genuine(key, learned(key, 1.0, 4, rng), 1.0, rng))
    assert np.mean(rates) > 0.5
