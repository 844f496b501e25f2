import numpy as np

from patternmark.core.alphabet import PROTEIN, PROTEIN_BACKGROUND
from patternmark_lab.structure.similar import duplicates, families, have_relatives

SHARES = np.array(PROTEIN_BACKGROUND[:20]) / sum(PROTEIN_BACKGROUND)
TAG = "MGSSHHHHHHSSGLVPRGSHM"


def _fresh(rng: np.random.Generator, length: int) -> str:
    return "".join(PROTEIN.letters[i] for i in rng.choice(20, size=length, p=SHARES))


def _changed(text: str, identity: float, rng: np.random.Generator) -> str:
    """Replace letters so that such a share stays."""
    letters = list(text)
    for i in rng.permutation(len(text))[: round((1.0 - identity) * len(text))]:
        letters[i] = rng.choice([x for x in PROTEIN.letters[:20] if x != text[i]])
    return "".join(letters)


def test_near_identical_chains_are_never_parted() -> None:
    rng = np.random.default_rng(0)
    originals = [_fresh(rng, int(rng.integers(80, 300))) for _ in range(40)]
    copies = [_changed(text, 0.97, rng) for text in originals]
    cut = [text[5:-7] for text in originals]
    everything = [*originals, *copies, *cut]
    same = duplicates(everything)
    family = families(everything)
    for i in range(40):
        members = [i, 40 + i, 80 + i]
        assert len({int(same[m]) for m in members}) == 1
        assert len({int(family[m]) for m in members}) == 1
    assert len(set(family.tolist())) == 40
    assert same[same].tolist() == same.tolist()  # what stands for another stands for itself


def test_distant_relatives_with_gaps_are_one_family() -> None:
    rng = np.random.default_rng(1)
    first = [_fresh(rng, 220) for _ in range(30)]
    second = []
    for text in first:
        changed = _changed(text, 0.45, rng)
        second.append(changed[:70] + _fresh(rng, 4) + changed[70:150] + changed[155:])
    family = families([*first, *second])
    together = sum(family[i] == family[30 + i] for i in range(30))
    assert together >= 28
    assert sum(have_relatives(second, first)) >= together


def test_strangers_are_not_related() -> None:
    rng = np.random.default_rng(2)
    chains = [_fresh(rng, 250) for _ in range(400)]
    assert len(set(families(chains).tolist())) == 400
    assert not have_relatives(chains[:200], chains[200:]).any()
    assert (duplicates(chains) == np.arange(400)).all()


def test_tags_relate_nothing() -> None:
    rng = np.random.default_rng(3)
    tagged = [TAG + _fresh(rng, 200) for _ in range(100)]
    assert len(set(families(tagged).tolist())) == 100


def test_families_are_numbered_by_size_and_link_over_others() -> None:
    rng = np.random.default_rng(4)
    a, b = _fresh(rng, 120), _fresh(rng, 120)
    chains = [_fresh(rng, 200), a, b, a + b]  # a and b have nothing in common but the third
    assert families(chains).tolist() == [1, 0, 0, 0]


def test_unknown_letters_and_short_chains_are_harmless() -> None:
    assert families(["X" * 60, "ACD", "", "X" * 60]).tolist() == [0, 1, 2, 3]
    assert duplicates(["ACD", "", "XXXXXXXX"]).tolist() == [0, 1, 2]
