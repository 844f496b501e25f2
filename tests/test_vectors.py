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
from patternmark.recover import recover
from tests.test_schedule import FROZEN_DIGEST, FROZEN_LETTERS, FROZEN_TOKENS
from vectors import port

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "v1.json").read_text())

PAPER = [v for v in VECTORS if v["parameters"]["scheme"]["name"] == "paper"]
HARDENED = [v for v in VECTORS if v["parameters"]["scheme"]["name"] == "hardened"]

every_vector = pytest.mark.parametrize("vector", PAPER, ids=[v["name"] for v in PAPER])
every_hardened = pytest.mark.parametrize("vector", HARDENED, ids=[v["name"] for v in HARDENED])


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


@every_hardened
def test_package_with_hardened_keys(vector: dict[str, Any]) -> None:
    key = Key.of(Secret(bytes.fromhex(vector["secret"])), Profile.from_tables(vector["parameters"]))
    assert key.key_id == vector["key_id"]
    marker = Marker(key, payload=vector["payload"])
    keys = marker.key_sequence(40, vector["seed"], vector["index"])
    assert keys.tolist() == vector["key_sequence"]
    promoted = key.schedule.promoted(vector["nonce"])
    shown = vector["promoted_by_first_keys"]
    assert [np.flatnonzero(row).tolist() for row in promoted[: len(shown)]] == shown
    assert hashlib.sha256(np.packbits(promoted).tobytes()).hexdigest() == vector["schedule_sha256"]
    bias = marker.bias(keys[:2], temperature=vector["temperature"])
    assert bias.tolist() == vector["bias_of_first_two_positions"]


@every_hardened
def test_port_with_hardened_keys(vector: dict[str, Any]) -> None:
    parameters, secret = vector["parameters"], bytes.fromhex(vector["secret"])
    scheme, symbols = parameters["scheme"], vector["symbols"]
    unscored = parameters["alphabet"]["unscored"]
    assert port.alphabet_sha256(symbols, unscored) == parameters["alphabet"]["sha256"]
    payload = vector["payload"]
    keys = port.scheduled_keys(secret, scheme, 40, vector["seed"], vector["index"], payload)
    assert keys == vector["key_sequence"]
    period = scheme["period"]
    assert divmod(keys[0], period) == (vector["nonce"], vector["start"])
    halves = port.schedule(secret, symbols, unscored, scheme, vector["nonce"])
    shown = vector["promoted_by_first_keys"]
    assert [sorted(half) for half in halves[: len(shown)]] == shown
    assert sha256_of_halves(halves, len(symbols)) == vector["schedule_sha256"]
    strength = parameters["promotion"]["delta"]
    of_first = [halves[key % period] for key in keys[:2]]
    bias = [[strength * (s in half) for s in range(len(symbols))] for half in of_first]
    assert bias == vector["bias_of_first_two_positions"]


def test_the_port_confirms_the_frozen_schedules(secret: Secret) -> None:
    raw = bytes.fromhex(secret.reveal_hex())
    sizes = {"period": 64, "block": 4}
    halves = port.schedule(raw, list(PROTEIN.letters), [20], sizes, 1)
    letters = ["".join(PROTEIN.letters[i] for i in sorted(half)) for half in halves[:5]]
    assert letters == FROZEN_LETTERS
    assert sha256_of_halves(halves, 21) == FROZEN_DIGEST
    tokens = port.schedule(raw, [f"t{i}" for i in range(8)], [0], sizes, 0)
    assert sha256_of_halves(tokens, 8) == FROZEN_TOKENS


def sha256_of_halves(halves: list[set[int]], size: int) -> str:
    """Hash one bit per key and symbol, the most significant of a byte first."""
    bits = "".join(str(int(symbol in half)) for half in halves for symbol in range(size))
    filled = bits + "0" * (-len(bits) % 8)
    return hashlib.sha256(int(filled, 2).to_bytes(len(filled) // 8, "big")).hexdigest()
