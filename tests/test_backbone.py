"""The weighted agreement: its sums, its coins, and p-values over random keys."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from patternmark import PROTEIN, Detector, Key, KeyChain, Marker, ParameterError, Profile
from patternmark.core.alphabet import UNREAD
from patternmark.core.profile import HARDENED
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper
from patternmark.core.secret import Secret
from patternmark.statistics.backbone import BackboneStatistic, _coins
from tests.conftest import SECRET_HEX

SIZES = {"period": 32, "block": 4, "starts": 4, "nonces": 3}
PROFILES = {"paper": Profile(scheme=Paper()), "hardened": Profile(scheme=HARDENED, **SIZES)}
both = pytest.mark.parametrize("scheme", PROFILES)


@cache
def key_of(scheme: str, number: int = 0) -> Key:
    secret = bytes.fromhex(SECRET_HEX)[4:] + number.to_bytes(4, "big")
    return Key.of(Secret(secret), PROFILES[scheme])


def rates_of(length: int, rng: np.random.Generator) -> np.ndarray:
    """Most positions carry little, some much."""
    rate = 0.5 + 0.48 * rng.beta(0.3, 1.0, length)
    return np.stack([0.5 + (rate - 0.5) * share for share in (0.5, 1.0)])


def marked(key: Key, rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Letters that agree with their keys as often as the rates say."""
    marker = Marker(key)
    keys = marker.key_sequence(rates.shape[1], seed=int(rng.integers(1000)))
    agrees = rng.random(rates.shape[1]) < rates[-1]
    members = marker.members[keys]
    return np.array(
        [
            rng.choice(np.intersect1d(np.flatnonzero(row == wanted), PROTEIN.scored))
            for row, wanted in zip(members, agrees, strict=True)
        ]
    )


def judge(key: Key, symbols: np.ndarray, rates: np.ndarray, **options: bool) -> float:
    detector = Detector(key, BackboneStatistic(key), **options)
    return detector.detect_many([symbols], rates=[rates])[0].log10_p


@both
def test_sums_are_those_of_the_definition(scheme: str, rng: np.random.Generator) -> None:
    key = key_of(scheme)
    symbols = rng.choice(PROTEIN.scored, 75)
    symbols[[3, 40]] = UNREAD
    weights = rng.integers(0, 90, (2, 75))
    sums = BackboneStatistic(key)._sums(symbols, weights)
    period = key.schedule.period
    for level, nonce, phase in product(range(2), range(key.schedule.nonces), range(period)):
        promoted = key.schedule.promoted(nonce)
        expected = sum(
            int(weights[level, i]) * (1 if promoted[(phase + i) % period, symbol] else -1)
            for i, symbol in enumerate(symbols)
            if symbol != UNREAD
        )
        assert sums[level, nonce, phase] == expected


def test_hardened_signs_rest_on_independent_bits(rng: np.random.Generator) -> None:
    """A sum is one of the outcomes of its coins: bits of the schedule give their signs."""
    key = key_of("hardened")
    schedule, symbols = key.schedule, rng.choice(PROTEIN.encode("AEKRL"), 60)
    weights = rng.integers(1, 50, (1, 60))
    sums = BackboneStatistic(key)._sums(symbols, weights)[0]
    first = PROTEIN.encode("ACDFGHIKLS")  # of each pair, in the order of PROTEIN_PAIRS
    for nonce, phase in ((0, 0), (1, 13), (2, 30)):
        alignment, shift = phase % 4, phase // 4
        coins = _coins(schedule, symbols, weights[0], alignment)
        bits = schedule.promoted(nonce)[::4][:, first]  # [blocks, pairs]
        signs = np.where(np.roll(bits, -shift, axis=0), 1, -1).ravel()
        assert int(signs @ coins) == sums[nonce, phase]


@both
def test_a_mark_is_found_by_its_key_alone(scheme: str, rng: np.random.Generator) -> None:
    rates = rates_of(300, rng)
    design = marked(key_of(scheme), rates, rng)
    assert judge(key_of(scheme), design, rates) < -3
    assert judge(key_of("hardened", 1), design, rates) > -3


@both
def test_weights_find_more_than_counting(scheme: str, rng: np.random.Generator) -> None:
    key, found = key_of(scheme), []
    for _ in range(12):
        rates = rates_of(150, rng)
        design = marked(key, rates, rng)
        found.append((judge(key, design, rates), Detector(key, "phase").detect(design).log10_p))
    weighted, counted = np.array(found).T
    assert np.mean(weighted) < 1.5 * np.mean(counted)


def excess(p_values: np.ndarray) -> float:
    """How many standard errors the worst level has more p-values than it may."""
    levels = np.array([0.2, 0.05, 0.01])
    found = np.array([np.mean(p_values <= level) for level in levels])
    return float(np.max((found - levels) / np.sqrt(levels * (1 - levels) / len(p_values))))


@pytest.mark.slow
def test_hardened_p_values_hold_for_any_sequence_over_random_keys(rng: np.random.Generator) -> None:
    """Even for one that repeats itself, with all repeats counted."""
    stretch = rng.choice(PROTEIN.scored, 16)
    symbols = np.concatenate([np.tile(stretch, 8), PROTEIN.encode("A" * 40 + "EK" * 20)])
    rates = rates_of(len(symbols), rng)
    reading = Reading(symbols, (slice(0, len(symbols)),), rates)
    found = [BackboneStatistic(key_of("hardened", n)).measure([reading])[0] for n in range(1000)]
    assert excess(np.exp([one.log_p for one in found])) <= 4
    least = min(one.log_p for one in found)
    assert least > np.log(1e-6)


@pytest.mark.slow
def test_paper_p_values_hold_over_sequences_and_keys(rng: np.random.Generator) -> None:
    found = []
    for number in range(1000):
        symbols, rates = rng.choice(PROTEIN.scored, 120), rates_of(120, rng)
        reading = Reading(symbols, (slice(0, 120),), rates)
        found.append(BackboneStatistic(key_of("paper", number)).measure([reading])[0].log_p)
    assert excess(np.exp(found)) <= 4


@both
def test_what_is_not_scored_says_nothing(scheme: str, rng: np.random.Generator) -> None:
    rates, key = rates_of(200, rng), key_of(scheme)
    design = marked(key, rates, rng)
    scored = np.arange(200) < 120
    detector = Detector(key, BackboneStatistic(key))
    masked = detector.detect_many([design], scored=[scored], rates=[rates])[0]
    hidden = np.where(scored, design, PROTEIN.letters.index("X"))
    assert masked.num_tokens_scored <= 120
    assert masked.log10_p == judge(key, hidden, rates)


@both
def test_chains_are_combined_and_nothing_has_one(scheme: str, rng: np.random.Generator) -> None:
    key, rates = key_of(scheme), rates_of(160, rng)
    parts = [marked(key, rates, rng) for _ in range(2)]
    joined = np.concatenate([parts[0], [PROTEIN.encode("/")[0]], parts[1]])
    both_rates = np.concatenate([rates, rates[:, :1], rates], axis=1)
    found = judge(key, joined, both_rates)
    assert found < min(judge(key, part, rates) for part in parts)
    detector = Detector(key, BackboneStatistic(key))
    empty = detector.detect_many(["", "XX"], rates=[np.ones((2, 0)) / 2, np.ones((2, 2)) / 2])
    assert [verdict.p_value for verdict in empty] == [1.0, 1.0]


def test_the_payload_is_the_nonce(rng: np.random.Generator) -> None:
    key, rates = key_of("hardened"), rates_of(300, rng)
    marker = Marker(key, payload=2)
    keys = marker.key_sequence(300, seed=3)
    agrees = rng.random(300) < rates[-1]
    members = marker.members[keys] == agrees[:, None]
    members[:, list(PROTEIN.unscored)] = False
    design = np.array([rng.choice(np.flatnonzero(row)) for row in members])
    found = Detector(key, BackboneStatistic(key)).detect_many([design], rates=[rates])[0]
    assert found.payload == 2
    assert found.payload_error is not None
    assert found.payload_error < 0.01


def test_very_long_sequences_have_very_small_p_values(rng: np.random.Generator) -> None:
    rates = np.full((2, 3000), 0.9)
    found = judge(key_of("paper"), marked(key_of("paper"), rates, rng), rates, mask_repeats=False)
    assert -900 < found < -300


def test_what_it_cannot_judge_is_refused() -> None:
    three = Key.generate(Profile(scheme=Paper(chain=KeyChain.cycle(3))))
    with pytest.raises(ParameterError, match="two keys that take turns"):
        BackboneStatistic(three)
    key = key_of("paper")
    with pytest.raises(ParameterError, match="--backbone"):
        Detector(key, BackboneStatistic(key)).detect("MKLV")
    with pytest.raises(ParameterError, match="not known"):
        Detector(key, "backbone")


@both
def test_the_curve_passes_through_the_verdict(scheme: str, rng: np.random.Generator) -> None:
    key, rates = key_of(scheme), rates_of(200, rng)
    detector = Detector(key, BackboneStatistic(key))
    design = marked(key, rates, rng)
    verdict = detector.detect_many([design], rates=[rates])[0]
    curve = detector.statistic.null_curve(detector.read([design], rates=[rates])[0], 0.0)
    at = np.interp(curve.observed, curve.values, curve.heights) / np.log(10)
    assert at == pytest.approx(verdict.log10_p, rel=0.05)
