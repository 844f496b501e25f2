"""Write v1.json, the published test vectors: `python -m vectors.make`.

Each case walks the whole way, secret -> parts -> key sequence -> bias -> sequence -> recovered
keys -> count -> p, so that a port in another language can be checked at every step; those of the
hardened scheme secret -> schedule -> nonce, start and key sequence -> bias. The secrets here are
published: never use them for anything else.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from patternmark import (
    PROTEIN,
    PROTEIN_BACKGROUND,
    Alphabet,
    Detector,
    Key,
    KeyChain,
    Marker,
    Profile,
)
from patternmark.core.schemes import Blocks, Paper
from patternmark.core.secret import Secret
from patternmark.recover import recover
from vectors import port

TOKENS = ["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(61))]
TEMPERATURE = 0.1
SHOWN = 12  # keys whose promoted symbols are written out


def profiles() -> dict[str, Profile]:
    """Return the cases: the paper's defaults, and each parameter away from them."""
    three = KeyChain.of([[0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]], [0.25, 0.25, 0.5])
    tokens = Alphabet.from_symbols("tokenizer:example", TOKENS, [0, 1, 2])
    return {
        "paper": Profile(scheme=Paper()),
        "mass-balanced": Profile(scheme=Paper(background=PROTEIN_BACKGROUND), delta=0.75, delta_at="tempered"),
        "three-keys": Profile(scheme=Paper(chain=three, pattern_length=3)),
        "named-patterns": Profile(scheme=Paper(chain=three, pattern_length=2, patterns=((0, 1), (1, 2), (2, 0))), delta=2.0),
        "tokens": Profile(alphabet=tokens, scheme=Paper(pattern_length=4), delta=3.0),
    }


def hardened_profiles() -> dict[str, tuple[Profile, int | None]]:
    """Return the cases of the hardened scheme, each with its payload."""
    tokens = Alphabet.from_symbols("tokenizer:example", TOKENS, [0, 1, 2])  # 61 are scored: odd
    small = Profile(scheme=Blocks(nonces=5))
    return {
        "hardened": (Profile(scheme=Blocks()), None),
        "hardened-payload": (Profile(scheme=Blocks(), delta=0.75), 37),
        "hardened-small": (small, None),
        "hardened-tokens": (replace(small, alphabet=tokens), 4),
    }


def hardened_case(
    name: str, profile: Profile, payload: int | None, symbols: list[str]
) -> dict[str, Any]:
    """Compute one vector of the hardened scheme with the package."""
    raw = _published_secret(name)
    key = Key.of(Secret(raw), profile)
    marker = Marker(key, payload=payload)
    keys = marker.key_sequence(40, seed=3, index=1)
    nonce = int(keys[0]) // profile.period
    promoted = key.schedule.promoted(nonce)
    return {
        "name": name,
        "secret": raw.hex(),
        "symbols": symbols,
        "parameters": profile.to_tables(),
        "key_id": key.key_id,
        "seed": 3,
        "index": 1,
        "payload": payload,
        "nonce": nonce,
        "start": int(keys[0]) % profile.period,
        "key_sequence": keys.tolist(),
        "promoted_by_first_keys": [np.flatnonzero(row).tolist() for row in promoted[:SHOWN]],
        "schedule_sha256": hashlib.sha256(np.packbits(promoted).tobytes()).hexdigest(),
        "temperature": TEMPERATURE,
        "bias_of_first_two_positions": marker.bias(keys[:2], temperature=TEMPERATURE).tolist(),
    }


def case(name: str, profile: Profile, symbols: list[str]) -> dict[str, Any]:
    """Compute one vector with the package."""
    raw = _published_secret(name)
    key = Key.of(Secret(raw), profile)
    marker = Marker(key)
    keys = marker.key_sequence(40, seed=3, index=1)
    bias = marker.bias(keys[:2], temperature=TEMPERATURE)
    sequence = _follow(keys, key.partition.members, profile.alphabet)
    detector = Detector(key, "pattern", mask_repeats=False)
    recovered = recover(detector.read([sequence]), key.partition)
    verdict = detector.detect(sequence)
    segments, count = list(recovered.segments[0]), int(verdict.statistic)
    patterns = [list(p) for p in profile.target_patterns().patterns]
    return {
        "name": name,
        "secret": raw.hex(),
        "symbols": symbols,
        "parameters": profile.to_tables(),
        "key_id": key.key_id,
        "part_of": key.partition.part_of.tolist(),
        "seed": 3,
        "index": 1,
        "key_sequence": keys.tolist(),
        "temperature": TEMPERATURE,
        "bias_of_first_two_positions": bias.tolist(),
        "sequence": sequence.tolist(),
        "recovered_keys": recovered[0].tolist(),
        "segments": segments,
        "patterns": patterns,
        "count": count,
        "p_value": str(port.p_value(segments, patterns, profile.num_keys, count)),
        "log10_p": verdict.log10_p,
    }


def _published_secret(name: str) -> bytes:
    return hashlib.sha256(f"patternmark test vector {name}".encode()).digest()


def _symbols(profile: Profile) -> list[str]:
    return list(PROTEIN.letters) if profile.alphabet == PROTEIN else TOKENS


def _follow(keys: np.ndarray, members: np.ndarray, alphabet: Alphabet) -> np.ndarray:
    """Make a sequence that mostly follows the keys, with one unscored symbol and some misses."""
    sequence = np.array([np.flatnonzero(members[k])[i % 5] for i, k in enumerate(keys)])
    sequence[17] = alphabet.unscored[0]
    for miss in (5, 11, 30):
        sequence[miss] = alphabet.scored[miss % alphabet.num_scored]
    return sequence


def main() -> None:
    vectors = [case(name, profile, _symbols(profile)) for name, profile in profiles().items()]
    vectors += [
        hardened_case(name, profile, payload, _symbols(profile))
        for name, (profile, payload) in hardened_profiles().items()
    ]
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    Path(__file__).with_name("v1.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
