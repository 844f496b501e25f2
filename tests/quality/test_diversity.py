import numpy as np
import pytest

from patternmark.errors import InputError, ParameterError
from patternmark.intervals import student_quantile
from patternmark.quality.diversity import entropies, ngram_entropy
from patternmark.quality.measured import difference_of, mean_of


def test_entropies_by_hand() -> None:
    assert ngram_entropy(["AAAA"], 1) == 0.0
    assert ngram_entropy(["ACDEACDE"], 1) == pytest.approx(2.0)
    # A A A C: shares 3/4 and 1/4.
    assert ngram_entropy(["AAAC"], 1) == pytest.approx(0.75 * np.log2(4 / 3) + 0.25 * 2.0)
    # AC, CA, AC, CD: shares 1/2, 1/4, 1/4.
    assert ngram_entropy(["ACACD"], 2) == pytest.approx(1.5)
    assert ngram_entropy(["ACD", "CDE", "ACD", "CDE"], 3) == pytest.approx(1.0)
    assert ngram_entropy(["ACDEFGHIKLMNPQRSTVWY"], 1) == pytest.approx(np.log2(20))


def test_nothing_crosses_the_end_of_a_chain_or_an_unknown_residue() -> None:
    for text in ("AC/AC", "ACXAC", "AC-AC"):
        assert ngram_entropy([text], 2) == 0.0  # AC alone; CA would make it more
    assert ngram_entropy(["AC", "AC"], 2) == 0.0


def test_random_proteins_have_all_the_entropy_there_is() -> None:
    ids = np.random.default_rng(1).integers(0, 20, size=(50, 2000))
    one, two = entropies(list(ids), (1, 2))
    assert one.value == pytest.approx(np.log2(20), abs=0.002)
    assert two.value == pytest.approx(2 * np.log2(20), abs=0.01)
    assert (one.n, one.unit) == (50, "proteins")


@pytest.mark.slow
def test_interval_covers_what_repeated_samples_show() -> None:
    """The jackknife's error is the spread of the entropy over fresh sets."""
    rng = np.random.default_rng(2)

    common = 60.0 * np.arange(1, 21) / 210.0  # letters are not equally frequent

    def fresh() -> list[np.ndarray]:
        # Proteins differ in composition: the spread is between them, not within.
        return [rng.choice(20, size=200, p=rng.dirichlet(common)) for _ in range(40)]

    sets = [entropies(fresh(), (1,))[0] for _ in range(200)]
    spread = np.std([found.value for found in sets])
    claimed = np.mean([(found.high - found.low) / (2 * 1.96) for found in sets])
    assert claimed == pytest.approx(spread, rel=0.25)


def test_what_has_no_ngram_is_refused() -> None:
    with pytest.raises(InputError, match="3 known residues"):
        ngram_entropy(["AC", "XXX"], 3)
    with pytest.raises(InputError, match="at least one protein"):
        ngram_entropy([], 1)
    with pytest.raises(ParameterError, match="1 to 4"):
        ngram_entropy(["ACD"], 5)


def test_one_value_has_no_interval() -> None:
    assert np.isnan(mean_of("x", [1.0]).low)
    assert str(mean_of("x", [1.0])) == "1.0000"
    assert np.isnan(entropies(["ACDEF"], (1,))[0].low)


def test_means_and_differences() -> None:
    values, others = [1.0, 2.0, 4.0], [0.0, 1.0]
    assert mean_of("x", values).value == pytest.approx(7 / 3)
    apart = difference_of("x", values, others)
    squares = np.var(values, ddof=1) / 3, np.var(others, ddof=1) / 2
    error = np.sqrt(sum(squares))
    degrees = sum(squares) ** 2 / (squares[0] ** 2 / 2 + squares[1] ** 2 / 1)  # Welch's: 2.9
    assert apart.value == pytest.approx(7 / 3 - 0.5)
    assert apart.high - apart.value == pytest.approx(student_quantile(degrees) * error)
    assert apart.value - apart.low == pytest.approx(student_quantile(degrees) * error)
