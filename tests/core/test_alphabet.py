import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark import PROTEIN, Alphabet, ParameterError, SequenceError
from patternmark.core.alphabet import PROTEIN_BACKGROUND, SEPARATOR


def test_the_twenty_amino_acids_are_scored_and_nothing_else() -> None:
    letters = "".join(PROTEIN.letters[i] for i in PROTEIN.scored)
    assert letters == "ACDEFGHIKLMNPQRSTVWY"
    assert PROTEIN.encode("XBZJUO*-.~?").tolist() == [20] * 11


def test_the_hash_of_the_protein_alphabet_never_changes() -> None:
    assert PROTEIN.sha256 == "e00b8fa25a9556a7f846b1efe532c7e9a530680abaa58225568c4515acad0a88"


def test_natural_frequencies_cover_the_letters() -> None:
    assert len(PROTEIN_BACKGROUND) == PROTEIN.size
    assert PROTEIN_BACKGROUND[20] == 0
    assert sum(PROTEIN_BACKGROUND) == pytest.approx(10_000, abs=20)


@given(st.text(alphabet="ACDEFGHIKLMNPQRSTVWYX"))
def test_letters_round_trip_in_either_case(text: str) -> None:
    ids = PROTEIN.encode(text)
    assert "".join(PROTEIN.letters[i] for i in ids) == text
    assert PROTEIN.encode(text.lower()).tolist() == ids.tolist()


@pytest.mark.parametrize("character", ["1", " ", "\0", "@", "é", "ſ", "𝔸", "\x80"])
def test_what_is_no_letter_is_named_with_its_place(character: str) -> None:
    with pytest.raises(SequenceError, match="at position 4 is not a letter"):
        PROTEIN.encode("MKV" + character + "A")


@pytest.mark.parametrize("ids", [[0, 21], [-2], [[1, 2]], [0.5], [2**70]])
def test_ids_outside_are_refused(ids: list[object]) -> None:
    with pytest.raises(SequenceError):
        PROTEIN.encode(ids)  # type: ignore[arg-type]


def test_chains_are_kept_apart() -> None:
    assert PROTEIN.encode("MK/V:").tolist() == [10, 8, SEPARATOR, 17, SEPARATOR]


def test_empty_input_is_an_empty_sequence() -> None:
    assert PROTEIN.encode("").shape == PROTEIN.encode([]).shape == (0,)
    assert PROTEIN.encode(np.array([3, 4], dtype=np.uint8)).dtype == np.int64


def test_token_alphabets_take_ids_alone() -> None:
    tokens = Alphabet.from_symbols("tokenizer:x", ["<s>", "the", "cat"], [0])
    assert tokens.num_scored == 2
    with pytest.raises(SequenceError, match="turn text into ids with its tokenizer"):
        tokens.encode("the cat")
    with pytest.raises(SequenceError, match="token id -1 at position 1"):
        tokens.encode([-1])


def test_hash_depends_on_order_and_on_what_is_scored() -> None:
    make = Alphabet.from_symbols
    variants = [
        make("x", ["a", "b"], []),
        make("x", ["b", "a"], []),
        make("x", ["a", "b"], [0]),
        make("x", ["ab"], []),
    ]
    assert len({a.sha256 for a in variants}) == 4
    with pytest.raises(ParameterError, match="'a' is listed twice"):
        make("x", ["a", "b", "a"], [])
    with pytest.raises(ParameterError, match=r"unscored ids must lie in 0\.\.1"):
        make("x", ["a", "b"], [2])


def test_ids_that_carry_the_mark() -> None:
    ids = np.append(PROTEIN.encode("MXW"), SEPARATOR)
    assert PROTEIN.is_scored(ids).tolist() == [True, False, True, False]
