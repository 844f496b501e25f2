"""Detectors with rates of positions: the sums of paper keys, and p-values over random keys."""

from functools import cache

import numpy as np
import pytest

from patternmark import (
    PROTEIN,
    Alphabet,
    Detector,
    Key,
    Marker,
    ParameterError,
    Profile,
)
from patternmark.core.alphabet import SEPARATOR, UNREAD
from patternmark.core.chain import KeyChain
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.null.signs import SignedSum
from patternmark.statistics import make_backbone
from tests.conftest import SECRET_HEX

PROFILES = {"paper": Profile(scheme=Paper()), "blocks": Profile(scheme=Blocks(nonces=3))}
both = pytest.mark.parametrize("scheme", PROFILES)


@cache
def key_of(scheme: str, number: int = 0) -> Key:
    secret = bytes.fromhex(SECRET_HEX)[4:] + number.to_bytes(4, "big")
    return Key.of(Secret(secret), PROFILES[scheme])


def rates_of(length: int, rng: np.random.Generator) -> np.ndarray:
    """Most positions carry little, some much."""
    rate = 0.5 + 0.48 * rng.beta(0.3, 1.0, length)
    return np.stack([0.5 + (rate - 0.5) * share for share in (0.25, 0.5, 1.0)])


def marked(
    key: Key,
    rates: np.ndarray,
    rng: np.random.Generator,
    payload: int | None = None,
    chain: int = 0,
    seed: int = 5,
) -> np.ndarray:
    """Letters that agree with their keys as often as the rates say."""
    marker = Marker(key, payload=payload)
    keys = marker.key_sequence(rates.shape[1], seed=seed, chain=chain)
    agrees = rng.random(rates.shape[1]) < rates[-1]
    promoted = key.schedule.promoted_rows(keys)
    return np.array(
        [
            rng.choice(np.intersect1d(np.flatnonzero(row == wanted), PROTEIN.scored))
            for row, wanted in zip(promoted, agrees, strict=True)
        ]
    )


def judge(key: Key, symbols: np.ndarray, rates: np.ndarray, **options: bool) -> float:
    detector = Detector(key, make_backbone(key), **options)
    return detector.detect_many([symbols], rates=[rates])[0].log10_p


def test_paper_p_values_are_those_of_the_definition(rng: np.random.Generator) -> None:
    """The best of two phases and three strengths, each an exact tail of its weights."""
    key = key_of("paper")
    symbols, rates = rng.choice(PROTEIN.scored, 75), rates_of(75, rng)
    symbols[[3, 40]] = UNREAD
    found = make_backbone(key).measure([Reading(symbols, (slice(0, 75),), rates)])[0]
    tails = []
    for row in rates:
        weights = np.rint(0.5 * np.log(row / (1 - row)) / 0.02).astype(int)
        weights[symbols == UNREAD] = 0
        for phase in (0, 1):
            promoted = key.partition.members[(phase + np.arange(75)) % 2, symbols]
            total = int(weights @ np.where(promoted, 1, -1))
            tails.append(SignedSum(weights).log_tail(total))
    assert found.log_p == pytest.approx(min(min(tails) + np.log(6), 0.0), rel=1e-12)


@both
def test_a_mark_is_found_by_its_key_alone(scheme: str, rng: np.random.Generator) -> None:
    rates = rates_of(300, rng)
    design = marked(key_of(scheme), rates, rng)
    assert judge(key_of(scheme), design, rates) < -3
    assert judge(key_of("blocks", 1), design, rates) > -3


@both
def test_rates_find_more_than_the_sequence_alone(scheme: str, rng: np.random.Generator) -> None:
    key, found = key_of(scheme), []
    for seed in range(12):
        rates = rates_of(150, rng)
        design = marked(key, rates, rng, seed=seed)
        found.append((judge(key, design, rates), Detector(key).detect(design).log10_p))
    weighted, alone = np.array(found).T
    assert np.mean(weighted) < 1.5 * np.mean(alone)


def excess(p_values: np.ndarray) -> float:
    """How many standard errors the worst level has more p-values than it may."""
    levels = np.array([0.2, 0.05, 0.01])
    found = np.array([np.mean(p_values <= level) for level in levels])
    return float(np.max((found - levels) / np.sqrt(levels * (1 - levels) / len(p_values))))


@pytest.mark.slow
def test_p_values_of_blocks_hold_for_any_sequence_over_random_keys(
    rng: np.random.Generator,
) -> None:
    """Even for one that repeats itself, with all repeats counted."""
    stretch = rng.choice(PROTEIN.scored, 16)
    symbols = np.concatenate([np.tile(stretch, 8), PROTEIN.encode("A" * 40 + "EK" * 20)])
    rates = rates_of(len(symbols), rng)
    reading = Reading(symbols, (slice(0, len(symbols)),), rates)
    found = [make_backbone(key_of("blocks", n)).measure([reading])[0] for n in range(1000)]
    assert excess(np.exp([one.log_p for one in found])) <= 4
    assert excess(np.exp([one.log_p_any for one in found])) <= 4
    assert min(one.log_p for one in found) > np.log(1e-6)


@pytest.mark.slow
def test_paper_p_values_hold_over_sequences_and_keys(rng: np.random.Generator) -> None:
    found = []
    for number in range(1000):
        symbols, rates = rng.choice(PROTEIN.scored, 120), rates_of(120, rng)
        reading = Reading(symbols, (slice(0, 120),), rates)
        found.append(make_backbone(key_of("paper", number)).measure([reading])[0].log_p)
    assert excess(np.exp(found)) <= 4


@both
def test_what_is_not_scored_says_nothing(scheme: str, rng: np.random.Generator) -> None:
    rates, key = rates_of(200, rng), key_of(scheme)
    design = marked(key, rates, rng)
    scored = np.arange(200) < 120
    detector = Detector(key, make_backbone(key))
    masked = detector.detect_many([design], scored=[scored], rates=[rates])[0]
    hidden = np.where(scored, design, PROTEIN.letters.index("X"))
    assert masked.num_tokens_scored <= 120
    assert masked.log10_p == judge(key, hidden, rates)


@both
def test_chains_are_combined_and_nothing_has_one(scheme: str, rng: np.random.Generator) -> None:
    key, rates = key_of(scheme), rates_of(160, rng)
    parts = [marked(key, rates, rng, chain=chain) for chain in range(2)]
    joined = np.concatenate([parts[0], [SEPARATOR], parts[1]])
    both_rates = np.concatenate([rates, rates[:, :1], rates], axis=1)
    found = judge(key, joined, both_rates)
    assert found < min(judge(key, part, rates) for part in parts)
    detector = Detector(key, make_backbone(key))
    empty = detector.detect_many(["", "XX"], rates=[np.ones((3, 0)) / 2, np.ones((3, 2)) / 2])
    assert [verdict.p_value for verdict in empty] == [1.0, 1.0]


def test_the_payload_is_the_nonce(rng: np.random.Generator) -> None:
    key, rates = key_of("blocks"), rates_of(300, rng)
    design = marked(key, rates, rng, payload=2)
    found = Detector(key, make_backbone(key)).detect_many([design], rates=[rates])[0]
    assert found.payload == 2
    assert found.payload_error is not None
    assert found.payload_error < 0.01


def test_very_long_sequences_have_very_small_p_values(rng: np.random.Generator) -> None:
    rates = np.full((3, 3000), 0.9)
    found = judge(key_of("paper"), marked(key_of("paper"), rates, rng), rates, mask_repeats=False)
    assert -900 < found < -300


def test_what_it_cannot_judge_is_refused() -> None:
    three = Key.generate(Profile(scheme=Paper(chain=KeyChain.cycle(3))))
    with pytest.raises(ParameterError, match="two keys that alternate"):
        make_backbone(three)
    words = Alphabet.from_symbols("words", [f"w{i}" for i in range(100)], unscored=[])
    with pytest.raises(ParameterError, match=r"but key .* marks the alphabet 'words'"):
        make_backbone(Key.generate(Profile(words)))
    key = key_of("paper")
    with pytest.raises(ParameterError, match="needs the rates of positions"):
        Detector(key, make_backbone(key)).detect("MKLV")
    with pytest.raises(ParameterError, match="is unknown"):
        Detector(key, "backbone")


@both
def test_signatures_name_the_source_of_the_rates(scheme: str) -> None:
    key = key_of(scheme)
    signatures = {Detector(key, make_backbone(key, f"model:{x}")).signature for x in "ab"}
    assert len(signatures) == 2
    assert all("detector:backbone" in signature for signature in signatures)


@both
def test_the_curve_passes_through_the_verdict(scheme: str, rng: np.random.Generator) -> None:
    key, rates = key_of(scheme), rates_of(200, rng)
    detector = Detector(key, make_backbone(key))
    design = marked(key, rates, rng)
    verdict = detector.detect_many([design], rates=[rates])[0]
    reading = detector.read([design], rates=[rates])[0]
    curve = detector.statistic.null_curve(reading, verdict.statistic)
    at = np.interp(curve.observed, curve.values, curve.heights) / np.log(10)
    assert at == pytest.approx(verdict.log10_p, rel=0.05)
