"""BLOSUM62 against what was published of it."""

import numpy as np

from patternmark import PROTEIN
from patternmark.attacks.edits import substitute_alike
from patternmark.attacks.substitutions import aligned_frequencies, replacement_law
from patternmark.masks.blosum import blosum62


def test_the_table_is_the_published_one() -> None:
    scores, frequencies = blosum62()
    assert scores.shape == (20, 20)
    assert np.array_equal(scores, scores.T)
    assert scores.trace() == 116
    assert scores.sum() == -426
    letter = PROTEIN.letters.index
    some = [("W", "W", 11), ("I", "V", 3), ("F", "Y", 3), ("D", "E", 2), ("C", "E", -4)]
    for a, b, score in some:
        assert scores[letter(a), letter(b)] == score
    np.testing.assert_allclose(frequencies.sum(), 1.0)
    # The published matrix says of itself that the expected score is -0.5209 bits; ours is rounded.
    expected = (frequencies[:, None] * frequencies * scores / 2.0).sum()
    np.testing.assert_allclose(expected, -0.5209, atol=0.03)


def test_implied_frequencies_are_near_the_published_ones() -> None:
    joint, (_, frequencies) = aligned_frequencies(), blosum62()
    np.testing.assert_allclose(joint.sum(), 1.0)
    assert np.abs(joint.sum(axis=1) - frequencies).sum() / 2.0 < 0.02
    # Of valine with each other letter, in 1e-5, as the blocks have them.
    published = {
        "A": 507, "R": 158, "N": 120, "D": 132, "C": 136, "Q": 117, "E": 170, "G": 182, "H": 65,
        "I": 1197, "L": 948, "K": 194, "M": 231, "F": 258, "P": 125, "S": 236, "T": 364, "W": 36,
        "Y": 155,
    }  # fmt: skip
    wanted = np.array([published.get(letter, 0) for letter in PROTEIN.letters[:20]]) / 5331
    law = replacement_law()[PROTEIN.letters.index("V")]
    assert np.abs(law - wanted).sum() / 2.0 < 0.03


def test_replacements_follow_the_law(rng: np.random.Generator) -> None:
    law = replacement_law()
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    assert not law.diagonal().any()
    isoleucine, valine = PROTEIN.letters.index("I"), PROTEIN.letters.index("V")
    assert law[isoleucine].argmax() == valine
    n = 40_000
    counts = np.bincount(substitute_alike(np.full(n, isoleucine), 1.0, rng), minlength=20)
    wanted = n * law[isoleucine]
    seen = wanted > 0
    chi_squared = ((counts - wanted)[seen] ** 2 / wanted[seen]).sum()
    assert chi_squared < 45.3  # exceeded with probability 0.0004 at 18 degrees of freedom
