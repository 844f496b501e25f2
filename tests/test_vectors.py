"""The published vectors come out of the package and of the plain port, at every step."""

import hashlib
import json
from fractions import Fraction
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patternmark import PROTEIN, Alphabet, Detector, Key, Marker, Profile
from patternmark.core.secret import Secret
from patternmark.masks.coins import count_occurrences
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.likelihood import TEXT_MIXTURE
from patternmark.statistics.rates import UNMEASURED_RATES
from patternmark.statistics.recover import recover
from vectors import make, port, port_blocks, port_turns

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "v1.json").read_text())

PAPER = [v for v in VECTORS if v["parameters"]["scheme"]["name"] == "paper"]
BLOCKS = [v for v in VECTORS if v["parameters"]["scheme"]["name"] == "blocks"]
TURNS = [v for v in VECTORS if v["parameters"]["scheme"]["name"] == "turns"]

every_vector = pytest.mark.parametrize("vector", PAPER, ids=[v["name"] for v in PAPER])
every_block = pytest.mark.parametrize("vector", BLOCKS, ids=[v["name"] for v in BLOCKS])
every_turn = pytest.mark.parametrize("vector", TURNS, ids=[v["name"] for v in TURNS])


@every_vector
def test_package(vector: dict[str, Any]) -> None:
    key = Key.of(Secret(bytes.fromhex(vector["secret"])), Profile.from_tables(vector["parameters"]))
    assert key.key_id == vector["key_id"]
    assert key.partition.part_of.tolist() == vector["part_of"]
    marker = Marker(key)
    keys = marker.key_sequence(40, vector["seed"], vector["index"])
    assert keys.tolist() == vector["key_sequence"]
    bias = marker.bias(keys[:2], temperature=vector["temperature"])
    assert bias.tolist() == vector["bias_of_first_two_positions"]
    detector = Detector(key, "pattern", mask_repeats=False)
    recovered = recover(detector.read([np.array(vector["sequence"])]), key.partition)
    assert recovered[0].tolist() == vector["recovered_keys"]
    assert list(recovered.segments[0]) == vector["segments"]
    verdict = detector.detect(vector["sequence"])
    assert verdict.statistic == vector["count"]
    assert verdict.p_value == pytest.approx(float(Fraction(vector["p_value"])), rel=1e-12)
    assert verdict.log10_p == pytest.approx(vector["log10_p"], abs=1e-12)


@every_vector
def test_port(vector: dict[str, Any]) -> None:
    parameters, secret = vector["parameters"], bytes.fromhex(vector["secret"])
    scheme, unscored = parameters["scheme"], parameters["alphabet"]["unscored"]
    assert port.alphabet_sha256(vector["symbols"], unscored) == parameters["alphabet"]["sha256"]
    num_keys = scheme["num_keys"]
    part_of = port.parts(secret, vector["symbols"], unscored, num_keys, scheme.get("background"))
    assert part_of == vector["part_of"]
    keys = port.key_sequence(
        secret, scheme["transition"], scheme["initial"], 40, vector["seed"], vector["index"]
    )
    assert keys == vector["key_sequence"]
    strength = parameters["promotion"]["delta"]
    if parameters["promotion"]["delta_at"] == "tempered":
        strength *= vector["temperature"]
    bias = [[strength * (part == key) for part in part_of] for key in keys[:2]]
    assert bias == vector["bias_of_first_two_positions"]
    recovered = [part_of[symbol] for symbol in vector["sequence"]]
    assert recovered == vector["recovered_keys"]
    assert port.count_patterns(recovered, vector["patterns"]) == vector["count"]
    p = port.p_value(vector["segments"], vector["patterns"], num_keys, vector["count"])
    assert p == Fraction(vector["p_value"])
    assert log10(p) == pytest.approx(vector["log10_p"], abs=1e-12)


def test_a_vocabulary_hashes_as_its_symbols_do() -> None:
    tokens = next(v for v in VECTORS if v["name"] == "tokens")
    alphabet = Alphabet.from_symbols("any name", tokens["symbols"], [0, 1, 2])
    assert alphabet.sha256 == tokens["parameters"]["alphabet"]["sha256"]


@every_block
def test_package_with_blocks(vector: dict[str, Any]) -> None:
    key = Key.of(Secret(bytes.fromhex(vector["secret"])), Profile.from_tables(vector["parameters"]))
    assert key.key_id == vector["key_id"]
    shown = vector["words_of_first_blocks"]
    assert key.schedule.words(0, len(shown)).tolist() == shown
    marker = Marker(key, payload=vector["payload"])
    for chain, expected in enumerate(vector["key_sequences"]):
        keys = marker.key_sequence(len(expected), vector["seed"], vector["index"], chain=chain)
        assert keys.tolist() == expected
    first = np.array(vector["key_sequences"][0][:2])
    bias = marker.bias(first, temperature=vector["temperature"])
    assert bias.tolist() == vector["bias_of_first_two_positions"]
    detector = Detector(key, BlockStatistic(key.schedule, screens=False))
    reading = detector.read([PROTEIN.encode(vector["sequence"])])[0]
    assert [part.tolist() for part in reading.parts] == vector["letters"]
    verdict = detector.detect(vector["sequence"])
    assert verdict.statistic == pytest.approx(vector["log_e"], abs=1e-9)
    assert verdict.p_any == pytest.approx(vector["p_any"], rel=1e-9)
    assert verdict.p_value == pytest.approx(vector["p_value"], rel=1e-9)
    assert (verdict.prediction, verdict.payload) == (vector["marked"], vector["payload_found"])
    # The default leaves out nonces and components that add little: E is never larger.
    fast = Detector(key).detect(vector["sequence"])
    assert vector["log_e"] - 0.01 < fast.statistic <= vector["log_e"] + 1e-9
    assert (fast.prediction, fast.payload) == (vector["marked"], vector["payload_found"])


@pytest.mark.slow
@every_block
def test_port_with_blocks(vector: dict[str, Any]) -> None:
    parameters, secret = vector["parameters"], bytes.fromhex(vector["secret"])
    block, nonces = parameters["scheme"]["block"], parameters["scheme"]["nonces"]
    shown = vector["words_of_first_blocks"]
    assert _ten_bits(port_blocks.coin_words(secret, block, nonces, 0, 4)) == _ten_bits(shown)
    nonce = vector["payload"]
    if nonce is None:
        nonce = port_blocks.drawn_nonce(secret, nonces, vector["seed"], vector["index"])
    assert nonce == vector["nonce"]
    for chain, expected in enumerate(vector["key_sequences"]):
        assert port_blocks.keys(nonces, block, chain, nonce, len(expected)) == expected
    strength = parameters["promotion"]["delta"]
    if parameters["promotion"]["delta_at"] == "tempered":
        strength *= vector["temperature"]
    half = port_blocks.promoted(shown[0][nonce])  # positions 0 and 1 lie in block 0
    row = [strength * (letter in half) for letter in port.PROTEIN_LETTERS]
    assert [row, row] == vector["bias_of_first_two_positions"]
    for level, weights in enumerate(port_blocks.letter_weights()):
        letters = [port.PROTEIN_LETTERS[i] for i in vector["letters"][0][:2]]
        expected = vector["weights_of_first_letters"][level]
        assert [weights[letter] for letter in letters] == pytest.approx(expected, rel=1e-14)
    kinds = [port_blocks.Kind(*kind) for kind in vector["mixture"]]
    assert sum(kind.weight for kind in kinds) == pytest.approx(1.0)
    found = port_blocks.verdict(secret, block, nonces, kinds, vector["sequence"])
    for row, expected in zip(found["log_ratios"], vector["log_ratios"], strict=True):
        assert row == pytest.approx(expected, abs=1e-9)
    assert found["log_e"] == pytest.approx(vector["log_e"], abs=1e-9)
    for name in ("p_any", "c", "p_value"):
        assert found[name] == pytest.approx(vector[name], rel=1e-9)
    assert (found["p_value"] <= 1e-3) is vector["marked"]
    if vector["marked"]:
        assert found["likeliest_nonce"] == vector["payload_found"]


def _ten_bits(table: list[list[int]]) -> list[list[int]]:
    """The coins of a word: its upper six bits are not used."""
    return [[word & 1023 for word in row] for row in table]


def test_what_happens_to_block_marks_is_covered() -> None:
    records = [vector["sequence"] for vector in BLOCKS]
    assert any("/" in record for record in records)
    assert any("X" in record for record in records)
    lengths = [(sum(map(len, v["key_sequences"])), len(v["sequence"])) for v in BLOCKS]
    assert any(read < written / 2 for written, read in lengths)  # a piece
    assert {v["marked"] for v in BLOCKS} == {True, False}
    assert {kind[3] for v in BLOCKS for kind in v["mixture"]} == {"start", "anywhere", "inside"}


@every_turn
def test_package_with_turns(vector: dict[str, Any]) -> None:
    key = Key.of(Secret(bytes.fromhex(vector["secret"])), Profile.from_tables(vector["parameters"]))
    assert key.key_id == vector["key_id"]
    marker = Marker(key, payload=vector["payload"])
    keys = marker.key_sequence(len(vector["text"]), vector["seed"], vector["index"])
    assert keys.tolist() == vector["key_sequence"]
    promoted = key.schedule.promoted(vector["nonce"])
    assert np.flatnonzero(promoted[0]).tolist() == vector["promoted_by_first_key"]
    assert hashlib.sha256(np.packbits(promoted).tobytes()).hexdigest() == vector["schedule_sha256"]
    assert marker.strength(vector["temperature"]) == vector["strength"]
    detector, text = Detector(key), np.array(vector["text"])
    reading = detector.read([text])[0]
    assert reading.symbols.tolist() == vector["read"]
    assert reading.times is not None
    assert reading.times.tolist() == vector["times"]
    verdict = detector.detect(text)
    assert verdict.statistic == pytest.approx(vector["log_e"], abs=1e-5)
    assert verdict.p_any == pytest.approx(vector["p_any"], rel=1e-5)
    assert verdict.p_value == pytest.approx(vector["p_value"], rel=1e-5)
    assert verdict.prediction is vector["marked"]


@every_turn
def test_port_with_turns(vector: dict[str, Any]) -> None:
    parameters, secret = vector["parameters"], bytes.fromhex(vector["secret"])
    scheme, symbols = parameters["scheme"], vector["symbols"]
    unscored = parameters["alphabet"]["unscored"]
    assert port.alphabet_sha256(symbols, unscored) == parameters["alphabet"]["sha256"]
    sizes = port_turns.Sizes(**{name: scheme[name] for name in port_turns.Sizes._fields})
    nonce, place = vector["nonce"], (vector["seed"], vector["index"])
    if vector["payload"] is None:
        assert nonce == port_blocks.drawn_nonce(secret, sizes.nonces, *place)
    keys = port_turns.keys(secret, sizes, len(vector["text"]), *place, nonce)
    assert keys == vector["key_sequence"]
    halves = port_turns.schedule(secret, symbols, unscored, sizes, nonce)
    assert sorted(halves[0]) == vector["promoted_by_first_key"]
    assert sha256_of_halves(halves, len(symbols)) == vector["schedule_sha256"]
    found = port_turns.verdict(secret, symbols, unscored, sizes, vector["text"])
    assert [-1 if token is None else token for token in found["read"]] == vector["read"]
    assert found["times"] == vector["times"]
    # The package adds up paths that slip in single precision.
    assert found["log_e"] == pytest.approx(vector["log_e"], abs=1e-4)
    if found["p_value"] is not None:
        assert found["p_value"] == pytest.approx(vector["p_value"], rel=1e-3)
    assert found["p_any"] == pytest.approx(vector["p_any"], rel=1e-4)


def test_the_port_mixes_what_the_package_mixes() -> None:
    for number, (kind, component) in enumerate(
        zip(port_turns.MIXTURE, TEXT_MIXTURE.components, strict=True)
    ):
        assert kind[:5] == (
            UNMEASURED_RATES[component.level],
            component.slip,
            component.edge,
            component.anywhere,
            component.is_shared,
        )
        weights = (TEXT_MIXTURE.weights, TEXT_MIXTURE.short_weights, TEXT_MIXTURE.any_weights)
        assert (kind.natural, kind.natural, kind.any) == tuple(w[number] for w in weights)


@pytest.mark.parametrize("num_words", [1, 5, 20, 60, 200, 500])
def test_the_port_counts_repeats_as_the_package_does(
    num_words: int, rng: np.random.Generator
) -> None:
    for length in (0, 1, 2, 15, 70, 300):
        text = rng.integers(-1, num_words, length)
        tokens = [None if token < 0 else token for token in text.tolist()]
        assert port_turns.times(tokens) == count_occurrences(text).tolist()


def test_what_happens_to_marks_in_text_is_covered() -> None:
    assert {v["parameters"]["scheme"]["nonces"] for v in TURNS} == {1, 2}
    assert all({1, 10} <= set(v["times"]) for v in TURNS)
    is_drawn = {
        v["p_value"] <= port_turns.SMALL_P and v["p_any"] > port_turns.PROVEN_P for v in TURNS
    }
    assert is_drawn == {True, False}


def test_the_vectors_are_those_that_are_made() -> None:
    """Tables and mixtures of the package did not change since the vectors were written."""
    for name, case in make.block_cases().items():
        vector = next(v for v in BLOCKS if v["name"] == name)
        made = make.block_case(name, *case)
        for field in ("mixture", "c", "sequence", "parameters"):
            assert json.loads(json.dumps(made[field])) == vector[field]


def sha256_of_halves(halves: list[set[int]], size: int) -> str:
    """Hash one bit per key and symbol, the most significant of a byte first."""
    bits = "".join(str(int(symbol in half)) for half in halves for symbol in range(size))
    filled = bits + "0" * (-len(bits) % 8)
    return hashlib.sha256(int(filled, 2).to_bytes(len(filled) // 8, "big")).hexdigest()
