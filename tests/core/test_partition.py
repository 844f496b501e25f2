from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import PROTEIN, Alphabet, ParameterError
from patternmark.core.alphabet import NO_KEY, PROTEIN_BACKGROUND
from patternmark.core.partition import adopt_partition, derive_partition
from patternmark.core.secret import Secret

secrets = st.binary(min_size=32, max_size=32).map(Secret)


@st.composite
def alphabets(draw: st.DrawFn) -> Alphabet:
    size = draw(st.integers(2, 200))
    unscored = draw(st.sets(st.integers(0, size - 1), max_size=size - 2))
    return Alphabet.from_symbols("x", [f"t{i}" for i in range(size)], unscored)


@given(secrets, alphabets(), st.data())
def test_parts_are_balanced_and_complete(
    secret: Secret, alphabet: Alphabet, data: st.DataObject
) -> None:
    num_parts = data.draw(st.integers(2, alphabet.num_scored))
    partition = derive_partition(secret, alphabet, num_parts)
    sizes = partition.members.sum(axis=1)
    assert sizes.sum() == alphabet.num_scored
    assert sizes.max() - sizes.min() <= 1
    assert np.all(partition.part_of[list(alphabet.unscored)] == NO_KEY)
    again = derive_partition(secret, alphabet, num_parts)
    assert again.part_of.tolist() == partition.part_of.tolist()


def test_every_pair_of_letters_is_parted_equally_often() -> None:
    """Over 2,000 secrets each of 190 pairs shares a part with probability 9/19."""
    n = 2000
    parts = np.array(
        [derive_partition(Secret(i.to_bytes(32, "big")), PROTEIN, 2).part_of[:20] for i in range(n)]
    )
    shared = np.array([(parts[:, a] == parts[:, b]).mean() for a, b in combinations(range(20), 2)])
    sigma = np.sqrt(9 / 19 * 10 / 19 / n)
    assert np.abs(shared - 9 / 19).max() < 4.5 * sigma
    assert np.abs(parts.mean(axis=0) - 0.5).max() < 4.5 * np.sqrt(0.25 / n)


@given(secrets)
def test_parts_of_equal_mass(secret: Secret) -> None:
    partition = derive_partition(secret, PROTEIN, 2, PROTEIN_BACKGROUND)
    assert np.abs(partition.masses(PROTEIN_BACKGROUND) - 0.5).max() <= 0.005 * 8  # 48 shuffles
    assert partition.members.sum(axis=1).tolist() == [10, 10]


def test_most_parts_of_equal_mass_are_within_one_percent() -> None:
    errors = []
    for i in range(200):
        secret = Secret(i.to_bytes(32, "big"))
        masses = derive_partition(secret, PROTEIN, 2, PROTEIN_BACKGROUND).masses(PROTEIN_BACKGROUND)
        errors.append(np.abs(masses - 0.5).max() * 2)
    by_count = derive_partition(Secret(bytes(32)), PROTEIN, 2).masses(PROTEIN_BACKGROUND)
    assert np.median(errors) <= 0.01
    assert max(errors) <= 0.08
    assert np.abs(by_count - 0.5).max() * 2 > 0.01  # which equal counts do not give


def test_a_mass_that_cannot_be_balanced_still_gives_parts(secret: Secret) -> None:
    heavy = [0] * PROTEIN.size
    heavy[0] = 1000
    heavy[1] = 1
    partition = derive_partition(secret, PROTEIN, 2, heavy)
    assert partition.members.sum(axis=1).tolist() == [10, 10]
    assert partition.masses(heavy).min() == pytest.approx(1 / 1001)


@pytest.mark.parametrize(
    ("background", "message"),
    [([1, 2], "21 whole numbers"), ([0.5] * 21, "21 whole numbers"), ([0] * 21, "all be 0")],
)
def test_backgrounds_are_checked(secret: Secret, background: list, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        derive_partition(secret, PROTEIN, 2, background)


@pytest.mark.parametrize("num_parts", [0, 1, 21])
def test_the_number_of_parts_is_checked(secret: Secret, num_parts: int) -> None:
    with pytest.raises(ParameterError, match="2 to 20 parts"):
        derive_partition(secret, PROTEIN, num_parts)


def test_adopted_parts_are_taken_as_they_are() -> None:
    partition = adopt_partition(["ACDEFGHIKL", "mnpqrstvwy"], PROTEIN)
    assert partition.part_of.tolist() == [0] * 10 + [1] * 10 + [NO_KEY]
    uneven = adopt_partition(["ACDEFGHIKLMNPQRS", "TVW", "Y"], PROTEIN)
    assert uneven.members.sum(axis=1).tolist() == [16, 3, 1]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["ACDEFGHIKLMNPQRSTVWY"], "at least 2 parts"),
        (["ACDEFGHIK", "MNPQRSTVWY"], "no part contains 'L'"),
        (["ACDEFGHIKL", "LMNPQRSTVWY"], "'L' is in two parts"),
        (["ACDEFGHIKL", "MNPQRSTVWYX"], "'X', which is never scored"),
        (["ACDEFGHIKLMNPQRSTVWY", ""], "part 2 is empty"),
        (["AC", "DE"], "no part contains 'F', 'G', 'H', 'I', 'K' and 11 more"),
    ],
)
def test_parts_that_are_no_partition_are_refused(parts: list[str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        adopt_partition(parts, PROTEIN)


def test_membership_does_not_show() -> None:
    text = repr(adopt_partition(["ACDEFGHIKL", "MNPQRSTVWY"], PROTEIN))
    assert text == "Partition(2 parts of [10, 10] symbols, hidden)"
