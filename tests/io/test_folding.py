"""Folding: which tricks it undoes, and what it leaves to languages that need it."""

import unicodedata
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patternmark.attacks import ATTACKS
from patternmark.attacks.unicode_tricks import HOMOGLYPHS
from patternmark.io.folding import describe, fold
from patternmark.io.scripts import tables
from patternmark.io.tokenizer import load_tokenizer, shipped_tokenizer

TEXT = (
    'The committee could not agree - "we shall see," she said; it\'s a pity... Is it so? I, a '
    "Pope, say as is. Ice is cosy, and the Jury of Mexico knew that this was not the first time."
)


def swapped(old: str, new: str) -> Callable[[str, np.random.Generator], str]:
    return lambda text, rng: text.translate(str.maketrans(old, new))


def shifted(first: int) -> Callable[[str, np.random.Generator], str]:
    """Replace small letters by those of another block, which begins at a code point."""
    return lambda text, rng: "".join(
        chr(first + ord(c) - ord("a")) if "a" <= c <= "z" else c for c in text
    )


def followed(marks: str, number: int = 1) -> Callable[[str, np.random.Generator], str]:
    """Add marks to half of the letters."""

    def add(text: str, rng: np.random.Generator) -> str:
        drawn = ("".join(rng.choice(list(marks), number)) for _ in text)
        return "".join(
            c + own if c.isalpha() and rng.random() < 0.5 else c
            for c, own in zip(text, drawn, strict=True)
        )

    return add


def spaced(text: str, rng: np.random.Generator) -> str:
    others = list("\u00a0\u2003\u2009\u202f\u3000\u2800\u3164\u200a\u2028")
    return "".join(str(rng.choice(others)) if c == " " else c for c in text)


TRICKS: dict[str, tuple[str, Callable[[str, np.random.Generator], str]]] = {
    "mathematical": ("forms", shifted(0x1D41A)),
    "circled": ("forms", shifted(0x24D0)),
    "superscripts": ("forms", swapped("abcdehijklmnoprstuw", "ᵃᵇᶜᵈᵉʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘʷ")),
    "small capitals": ("look_alikes", swapped("abcdeghijkmnoprtuwz", "ᴀʙᴄᴅᴇɢʜɪᴊᴋᴍɴᴏᴘʀᴛᴜᴡᴢ")),
    "Greek": ("look_alikes", swapped("aoipuvnktATIMPEO", "αοιρυνηκτΑΤΙΜΡΕΟ")),
    "Cyrillic": ("look_alikes", swapped("oecktmbhyxATIMPEO", "оесктмвһухАТІМРЕО")),
    "Armenian": ("look_alikes", swapped("ohnu", "օհոս")),
    "Lisu": ("look_alikes", swapped("TIPM", "ꓔꓲꓑꓟ")),
    "phonetic": ("look_alikes", swapped("agi", "ɑɡı")),
    "spaces": ("spaces", spaced),
    "dots below": ("marks", followed("\u0323")),
    "acutes": ("marks", followed("\u0301")),
    "heaps of marks": ("marks", followed("".join(map(chr, range(0x300, 0x340))), 6)),
    "enclosing marks": ("marks", followed("\u20dd\u0489")),
    "tags": ("invisible", followed("".join(map(chr, range(0xE0020, 0xE0080))))),
    "selectors": ("invisible", followed("\ufe00\ufe0f\U000e0100")),
    "directions": ("invisible", followed("\u202a\u202c\u202e\u2066\u2069\u200e\u061c")),
    "grapheme joiners": ("invisible", followed("\u034f")),
    "controls": ("invisible", followed("\x00\x01\x7f\x80")),
    "fillers": ("invisible", followed("\u1160\u17b4\u180e")),
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_tricks_are_undone(trick: str, form: str, rng: np.random.Generator) -> None:
    kind, change = TRICKS[trick]
    changed = unicodedata.normalize(form, change(TEXT, rng))
    assert changed != TEXT
    folded = fold(changed)
    assert folded.text == TEXT
    assert max(folded.counts, key=lambda name: folded.counts[name]) == kind


@pytest.mark.parametrize("name", ["homoglyph", "zero-width", "full-width"])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_attacks_are_undone(name: str, epsilon: float, rng: np.random.Generator) -> None:
    for _ in range(10):
        assert fold(ATTACKS[name].apply(TEXT, epsilon, rng)).text == TEXT


def test_all_tricks_at_once(rng: np.random.Generator) -> None:
    text = TEXT
    for name in ("homoglyph", "full-width", "zero-width"):
        text = ATTACKS[name].apply(text, 0.3, rng)
    folded = fold(spaced(text, rng))
    assert folded.text == TEXT
    assert set(folded.counts) == {"look_alikes", "forms", "invisible", "spaces"}


@pytest.mark.parametrize(
    "text",
    [
        "Это не текст; naïve café",
        "Он сказал: мама, он сор и хор у нас.",
        "Ще не вмерла Україна, її воля, за́мок",
        "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας",
        "Ein Übermaß an Größe, das ist nicht ça va, Łódź, øre, Ærø, Țară, der Müller von Ș.",
        "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
        "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.",
        "İstanbul'da yaşıyorum, ağaçlar çok güzel ve ılık",
        "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
        "Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.",
        "Pinyin: nǐ hǎo ma",
        "می‌خواهم کتاب‌ها را بخوانم",
        "क्षत्रिय र्‍य",
        "שָׁלוֹם עולם, the house of David",
        "東京は日本の首都です。",
        "안녕하세요 세계",
        "👩‍👩‍👧 ❤️ ok 1️⃣ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "α = 0.05 and ΔE of 3 µV and μV; β-carotene; the sum ∑x² ≤ ½ … “quoted” – it’s ‘so’ №5 ™",
        "The mayor, Mr Pérez García, is to meet the people of São Tomé and of Malmö.",
        "The word мама means mother, as he said: он сор и хор любит.",
        "indented:\n    code  with\ttabs\r\n",
    ],
)
def test_what_languages_need_stays(text: str) -> None:
    folded = fold(text)
    assert (folded.text, folded.counts, folded.origin) == (text, {}, None)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Мaма мылa рaму и пошлa дoмой", "Мама мыла раму и пошла домой"),  # Latin a and o
        ("ΝΑΤΟ and the ΕU", "NATO and the EU"),
        ("東京 is а сity", "東京 is a city"),
        ("10\u00a0000\u202fEUR  \u2003x", "10 000 EUR  x"),
        ("\u2800The end\u3164", "The end"),
        ("e\u200b\u0301tude", "étude"),
        ("ﬁve ﬂats", "five flats"),
        ("the cat։ the end․", "the cat: the end."),
    ],
)
def test_what_becomes_of(text: str, read: str) -> None:
    assert fold(text).text == read


def test_what_is_not_folded() -> None:
    """What a reader sees as another text, or no rule can tell: docs/attacks.md names them."""
    for text in ("rnodern", "w0rd", "heIIo", "🇦gree", "THE Cat", "it’s"):
        assert fold(text).text == text


def test_every_double_of_the_attack_is_in_the_table() -> None:
    both = {**tables().similar, **tables().alike}
    assert {letter: both[double] for letter, double in HOMOGLYPHS.items()} == {
        letter: letter for letter in HOMOGLYPHS
    }


@pytest.mark.parametrize("kind", ["alike", "similar", "latin"])
def test_every_look_alike_is_read_inside_a_word(kind: str) -> None:
    european = set(map(chr, range(0xC0, 0x180))) - {"ı"}  # they stay, as does the Ø of Ǿ
    bases = {c: unicodedata.normalize("NFD", c)[0] for c in getattr(tables(), kind)}
    found = {c: m for c, m in getattr(tables(), kind).items() if not {c, bases[c]} & european}
    assert len(found) > 100
    for character, meant in found.items():
        letter = "l" if meant == "I" else meant  # after a small letter
        text = fold(f"this is the sto{character}ne of the house").text
        assert text == f"this is the sto{letter}ne of the house", (character, meant)


@pytest.mark.parametrize(
    "text", ["It is Iike", "In Iaw and in Ietters, I aIso say", "the 1ast of the o1d and 0f it"]
)
def test_l_is_told_from_i(text: str) -> None:
    """Of full-width forms; plain characters stay as they are."""
    wide = text.translate({ord(c): chr(ord(c) - 0x21 + 0xFF01) for c in "I10"})
    meant = {"Iike": "like", "Iaw": "law", "Ietters": "letters", "aIso": "also", "1ast": "last"}
    meant |= {"o1d": "old", "0f": "of"}
    words = [meant.get(word.strip(","), word.strip(",")) for word in text.split()]
    assert [word.strip(",") for word in fold(wide).text.split()] == words
    assert fold(text).text == text


def test_places_are_those_of_the_given_text() -> None:
    given = "\u200bＴhe\u00a0ﬁrst cа\u200bt"
    folded = fold(given)
    assert folded.text == "The first cat"
    cuts = np.array([0, 3, 4, 9, 10, 13])
    places = folded.places(cuts).tolist()
    pieces = [given[a:b] for a, b in pairwise(places)]
    assert pieces == ["\u200bＴhe", "\u00a0", "ﬁrst", " ", "cа\u200bt"]
    assert fold("plain").places(cuts) is cuts


def test_tokens_that_are_read_have_places(rng: np.random.Generator) -> None:
    pytest.importorskip("tokenizers", reason="pip install 'patternmark[text]'")
    tokenizer = load_tokenizer(shipped_tokenizer())
    changed = ATTACKS["zero-width"].apply(ATTACKS["homoglyph"].apply(TEXT, 0.5, rng), 0.5, rng)
    ids, folded = tokenizer.read(changed)
    assert ids.tolist() == tokenizer.encode(TEXT).tolist() != tokenizer.encode(changed).tolist()
    cuts = tokenizer.cuts_read(changed)
    assert cuts is not None
    assert (len(cuts), cuts[0], cuts[-1]) == (len(ids) + 1, 0, len(changed))
    pieces = [changed[a:b] for a, b in pairwise(cuts)]
    assert "".join(pieces) == changed
    assert folded.counts["look_alikes"] > 10


def test_words_say_what_was_folded() -> None:
    assert describe({}) == ""
    assert describe({"spaces": 1, "forms": 2, "marks": 3}) == (
        "3 accents, 2 other forms of characters, 1 other space"
    )


@given(st.text(max_size=60))
def test_any_text_folds_and_keeps_its_places(text: str) -> None:
    folded = fold(text)
    if folded.origin is None:
        assert folded.text == text
    else:
        assert len(folded.origin) == len(folded.text) + 1
        assert np.all(np.diff(folded.origin) >= 0)
        assert folded.origin[-1] == len(text)


@given(st.text(st.sampled_from("aIl1O0 ,.-" + "‘’‚‛“”„‟′″‹›–—―…´¨¯¸²³¹¼½¾™№−"), max_size=40))
def test_what_keyboards_and_typographers_write_stays_beside_a_letter_that_is_looked_at(
    text: str,
) -> None:
    assert fold(text).text == text
    assert fold(f"a{text} café").text == f"a{text} café"  # é: every character is looked at


def test_a_long_heap_of_marks_ends() -> None:
    assert len(fold("a" + "\u0301" * 100_000).text) <= 3
