from dataclasses import dataclass

import numpy as np

from patternmark import PROTEIN, Detector, Key
from patternmark.attacks import forge, random_edits, strip
from patternmark.attacks.forge import composition, draw_unmarked, tilt
from patternmark.core.alphabet import UNREAD
from patternmark.plan.simulate import marked_sequences, natural_frequencies, rates_at


@dataclass
class TrueSplit:
    """An attacker who knows all there is to know."""

    key: Key
    phase: int = 0

    def best_signs(self, length: int) -> np.ndarray:
        return self.signs_of(0, length)

    def signs_of(self, number: int, length: int) -> np.ndarray:
        del number  # all have one phase
        promoted = self.key.partition.members  # [2, V]
        return np.where(promoted[(self.phase + np.arange(length)) % 2], 1.0, -1.0)


def test_the_tilt_gives_the_measured_rates() -> None:
    rates, letters = rates_at(1.0, PROTEIN, "paper"), natural_frequencies()
    signs = np.where(np.arange(21) % 2, 1.0, -1.0)
    law = tilt(np.stack([signs, -signs]), rates, letters)
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    share = law[0, :20] / law[:, :20].sum(axis=0)  # of a letter, in the key that promotes it or not
    promoted = np.where(signs[:20] > 0, share, 1 - share)
    np.testing.assert_allclose(promoted, rates[:20], atol=0.02)  # parts differ a little in mass


def test_who_knows_the_split_forges_and_strips(key: Key, rng: np.random.Generator) -> None:
    rates, letters = rates_at(1.0, PROTEIN, "paper"), natural_frequencies()
    detector = Detector(key)
    knows = TrueSplit(key)

    def marked(batch: list[np.ndarray]) -> int:
        return sum(verdict.prediction for verdict in detector.detect_many(batch))

    assert marked(forge(knows, [400] * 20, rates, letters, rng)) >= 18
    assert marked(draw_unmarked([400] * 20, letters, rng)) <= 1
    seen = forge(knows, [400] * 20, rates, letters, rng)
    stripped = [strip(s, knows, i, rates, 60) for i, s in enumerate(seen)]
    edited = [random_edits(s, 60, letters, rng) for s in seen]
    assert marked(stripped) <= 4
    assert marked(edited) >= 16


def test_edits_keep_to_their_number(key: Key, rng: np.random.Generator) -> None:
    rates = rates_at(1.0, PROTEIN, "paper")
    sequence = marked_sequences(key, rates, rng.random((1, 100)))[0]
    sequence[40:60] = UNREAD
    knows = TrueSplit(key)
    stripped = strip(sequence, knows, 0, rates, 10)
    edited = random_edits(sequence, 10, natural_frequencies(), rng)
    assert np.count_nonzero(edited != sequence) == 10
    assert np.count_nonzero(stripped != sequence) == 10
    for result in (stripped, edited):
        assert np.array_equal(result == UNREAD, sequence == UNREAD)
        assert 20 not in result
    everything = strip(sequence, knows, 0, rates, 1000)
    assert np.array_equal(everything == UNREAD, sequence == UNREAD)


def test_composition_counts_letters_and_never_x() -> None:
    found = composition([PROTEIN.encode("KKKKKKKKKX"), np.array([UNREAD, 8])])
    assert found[20] == 0
    assert int(found.argmax()) == PROTEIN.letters.index("K")
    np.testing.assert_allclose(found.sum(), 1.0)
