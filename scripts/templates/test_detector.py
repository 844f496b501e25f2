"""Whether the p-values of `example` hold, exactly on a tiny case, and marks are found."""

from itertools import product

import numpy as np
import pytest

from patternmark import Blocks, Detector, Key, Profile
from patternmark.core.blocks import BlockSchedule, halves_of, pair_of_letter
from patternmark.core.reading import read_many
from patternmark.core.secret import Secret
from patternmark.statistics.example import Example
from tests.synthetic import marked

KEY = Key.of(Secret(bytes(32)), Profile(scheme=Blocks(nonces=2)))
TINY = "AACKLMWWW"  # three blocks


def test_p_values_hold_over_all_coins_of_a_tiny_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """P(p <= a) <= a for every a, over each coin that the letters may ask."""
    symbols = KEY.profile.alphabet.encode(TINY)
    reading = read_many([symbols], KEY.profile.alphabet, [None])[0]
    asked = 1 << pair_of_letter()[symbols[::3]]  # the bit of each block's first letter
    found = []
    for coins in product((0, 1), repeat=6):
        words = (np.reshape(coins, (2, 3)) * asked).astype(np.uint16)  # [nonces, blocks]
        monkeypatch.setattr(BlockSchedule, "halves", lambda *_, w=words: halves_of(w))
        found.append(np.exp(Example(KEY).measure([reading])[0].log_p))
    p = np.array(found)
    assert min(p) < 0.5  # or nothing would be tested
    for level in p:
        assert np.mean(p <= level) <= level + 1e-12


def test_a_mark_is_found_and_the_record_alone_is_not(rng: np.random.Generator) -> None:
    text = marked(KEY, 600, rng)
    other = Key.of(Secret(b"x" * 32), KEY.profile)
    assert Detector(KEY, Example(KEY)).detect(text).log10_p < -6
    assert Detector(other, Example(other)).detect(text).log10_p > -3


def test_what_holds_no_letter_says_nothing() -> None:
    verdict = Detector(KEY, Example(KEY)).detect("XXX")
    assert (verdict.p_value, verdict.prediction) == (1.0, False)
