"""Tricks with characters: that each is made, and which normalisation undoes which."""

import unicodedata

import numpy as np
import pytest

from patternmark.attacks import ATTACKS
from patternmark.attacks.unicode_tricks import HOMOGLYPHS, INVISIBLE
from patternmark.io.folding import fold
from patternmark.io.tokenizer import load_tokenizer, shipped_tokenizer

TEXT = 'The committee could not agree - "we shall see," she said; it\'s a pity... Is it?'
TRICKS = ("case", "punctuation", "homoglyph", "zero-width", "full-width")


@pytest.mark.parametrize("name", TRICKS)
def test_each_changes_the_tokens_and_nothing_a_reader_sees(
    name: str, rng: np.random.Generator
) -> None:
    pytest.importorskip("tokenizers", reason="pip install 'patternmark[text]'")
    tokenizer = load_tokenizer(shipped_tokenizer())
    changed = ATTACKS[name].apply(TEXT, 1.0, rng)
    assert changed != TEXT
    assert not np.array_equal(tokenizer.encode(changed), tokenizer.encode(TEXT))
    assert len(changed.split()) == len(TEXT.split())


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("case", {"casefold"}),
        ("punctuation", set()),
        ("homoglyph", {"fold"}),
        ("zero-width", {"fold"}),
        ("full-width", {"NFKC", "fold"}),
    ],
)
def test_what_undoes_what(name: str, by: set[str], rng: np.random.Generator) -> None:
    """The table of docs/attacks.md."""
    changed = ATTACKS[name].apply(TEXT, 1.0, rng)
    ways = {
        "NFC": lambda text: unicodedata.normalize("NFC", text),
        "NFKC": lambda text: unicodedata.normalize("NFKC", text),
        "casefold": str.casefold,
        "fold": lambda text: fold(text).text,
    }
    assert {way for way, undo in ways.items() if undo(changed) == undo(TEXT)} == by
    assert fold(TEXT).text == TEXT


def test_strengths_are_shares(rng: np.random.Generator) -> None:
    text = "a" * 10_000
    spread = 4.5 * np.sqrt(10_000 * 0.3 * 0.7)
    homoglyphs = ATTACKS["homoglyph"].apply(text, 0.3, rng)
    assert abs(homoglyphs.count(HOMOGLYPHS["a"]) - 3000) < spread
    invisible = ATTACKS["zero-width"].apply(text, 0.3, rng)
    assert abs(len(invisible) - 13_000) < spread
    assert set(invisible) == set("a" + INVISIBLE)
    wide = ATTACKS["full-width"].apply(text, 0.3, rng)
    assert abs(wide.count("ａ") - 3000) < spread
    cased = ATTACKS["case"].apply("word " * 10_000, 0.3, rng).split()
    assert abs(sum(word != "word" for word in cased) - 3000) < spread
    assert set(cased) == {"word", "Word", "WORD"}
