"""Verdicts as they are, kept: `python -m tests.frozen.make` writes them, `--check` compares.

All schemes and detectors judge marked, attacked and unmarked proteins and texts. A change that
moves or rewrites code leaves every verdict as it was, to the last bit; one that means to change
verdicts writes them again, and the difference shows in the history.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from patternmark import PROTEIN, Detector, Key, Marker, Profile
from patternmark.attacks.registry import find_attack
from patternmark.core.profile import TEXT_DELTA
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.core.secret import Secret
from patternmark.fast.compiled import force_loops
from patternmark.statistics import DETECTORS
from tests.synthetic import letters, marked, plain, text, vocabulary

FILE = Path(__file__).parent / "verdicts.json"
TOKENS = vocabulary(2000)
PROFILES = {
    "blocks": Profile(),
    "blocks, one nonce": Profile(scheme=Blocks(nonces=1), delta=0.75),
    "paper": Profile(scheme=Paper()),
    "turns": Profile(TOKENS, Turns(), TEXT_DELTA),
    "turns, many nonces": Profile(TOKENS, Turns(nonces=64), TEXT_DELTA),
    "paper, text": Profile(TOKENS, Paper(pattern_length=4), TEXT_DELTA),
}
FIELDS = ("statistic", "log10_p", "log10_p_any", "status", "payload", "payload_error", "segment")
ATTACKS = (("substitute", 0.2), ("indel", 0.05), ("truncate", 0.4))


def key_of(name: str) -> Key:
    """Return the key of a profile; its secret is published and worth nothing."""
    return Key.of(Secret(name.encode().ljust(32, b".")[:32]), PROFILES[name])


def records(name: str) -> Iterator[tuple[str, Any]]:
    """Yield what is judged, by what it is."""
    rng = np.random.default_rng(sum(name.encode()))
    key = key_of(name)
    if key.profile.alphabet == PROTEIN:
        whole = marked(key, 150, rng)
        yield "marked", whole
        yield "weakly marked", marked(key, 250, rng, 0.5)
        for attack, strength in ATTACKS:
            edited = find_attack(attack).attack_all([PROTEIN.encode(whole)], strength, 1)[0]
            yield attack, letters(edited)
        yield "two chains", f"{whole}/{marked(key, 80, rng)}"
        yield "inside another", plain(60, rng) + whole[:80] + plain(60, rng)
        yield "repeats", whole[:40] * 4
        yield "unmarked", plain(200, rng)
        yield "short", whole[:12]
        return
    whole = text(TOKENS, 90, rng, Marker(key)).tolist()
    yield "marked", whole
    yield "words lost", [token for i, token in enumerate(whole) if i % 7]
    yield (
        "words added",
        [t for i, token in enumerate(whole) for t in [token, 9][: 1 + (i % 5 == 0)]],
    )
    yield "a window", whole[30:60]
    yield "twice", whole[:50] * 2
    yield "inside another", text(TOKENS, 60, rng).tolist() + whole[:40]
    yield "unmarked", text(TOKENS, 120, rng).tolist()
    yield "one word", [7] * 60
    yield "short", whole[:8]


def verdicts() -> dict[str, Any]:
    """Judge everything by every detector, by the compiled loops where numba is installed.

    Their sums for blocks are rounded otherwise than numpy's, in the last bits.
    """
    with force_loops(True):
        return _judged()


def _judged() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, profile in PROFILES.items():
        key = key_of(name)
        named = dict(records(name))
        rows = found[name] = {"records": named, "verdicts": {}}
        for detector in DETECTORS[profile.scheme.name]:
            judged = Detector(key, detector).detect_many(named.values(), list(named))
            rows["verdicts"][detector] = {
                verdict.id: {field: verdict.to_dict()[field] for field in FIELDS}
                for verdict in judged
            }
    return found


def main() -> None:
    """Write the file, or compare with it."""
    made = json.loads(json.dumps(verdicts()))
    if "--check" in sys.argv:
        known = json.loads(FILE.read_text())
        print("all verdicts are the same" if made == known else "verdicts differ")
        sys.exit(made != known)
    FILE.write_text(json.dumps(made, indent=1) + "\n")
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
