"""BLOSUM62 against what was published of it."""

import numpy as np

from patternmark import PROTEIN
from patternmark.attacks.blosum import blosum62, replacement_law
from patternmark.attacks.edits import substitute_alike


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
    joint = frequencies[:, None] * frequencies * 2.0 ** (scores / 2.0)
    np.testing.assert_allclose(joint.sum(), 1.0, atol=0.02)  # scores are rounded
    # The published matrix says of itself: expected score -0.5209 and 0.6979 bits of information.
    expected = (frequencies[:, None] * frequencies * scores).sum()
    np.testing.assert_allclose(expected, -0.5209, atol=0.02)
    np.testing.assert_allclose((joint * scores / 2.0).sum() / joint.sum(), 0.6979, atol=0.02)


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
