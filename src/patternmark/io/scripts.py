"""Find the script and language of a text, as folding needs them, and replace look-alike letters.

The tables are derived from Unicode's (see scripts/folding_data.py). According to UTS 39, a word
that mixes scripts is suspicious. Such a word is rewritten in the script of those letters that have
no look-alike in the other script. If all letters have one, the rest of the text decides.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files

Letters = Mapping[str, str]

_LATIN = "LATIN"
_SIGN = "SIGN"  # a digit or sign that looks like a Latin letter; part of a word beside letters
# First words of Unicode names that are not scripts.
_OF_NO_SCRIPT = frozenset(("MODIFIER", "COMBINING", "FEMININE", "MASCULINE", "MICRO", "?"))
# Scripts whose letters are joined, or have vowels as marks.
_JOINED = """
ARABIC SYRIAC MONGOLIAN NKO MANDAIC HEBREW THAANA DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL
TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR KHMER TAI BALINESE JAVANESE SUNDANESE
BATAK LEPCHA LIMBU MEETEI CHAM KAITHI CHAKMA SHARADA TIRHUTA SAMARITAN
"""
_JOINED_SCRIPTS = frozenset(_JOINED.split())
# Letters of European languages that are written with Latin letters; dotless i is for Turkish.
_EUROPEAN = frozenset(set(map(chr, range(0xC0, 0x180))) - set("×÷ıĸ") | set("ȘșȚțẞ"))
# Common words, without accents, that few other languages have. They show that a text is in a
# language that has no rare accents. The English ones never have any accent.
_ENGLISH = """
the of and to is that it with be by this are from not have which their there would they been
"""
_OTHERS = """
der die und den das ist nicht mit von dem des ein eine auf sich zu im les est une dans pour que qui
pas sur los las por para del una como che per della non sono uma nao dos het een voor met niet zijn
och att som det inte til ikke
"""
_COMMON_ENGLISH = frozenset(_ENGLISH.split())
_COMMON_EUROPEAN = _COMMON_ENGLISH | frozenset(_OTHERS.split())
_LEAST_COMMON = 0.12  # share of common words from which a text is in that language
_LEAST_STRANGE = 2  # common English words with an accent; a normal English text has fewer
_DOMINANT = 4  # Latin letters for each letter of another script that has no look-alike
_VOWELS = frozenset("aeiouy")
_NEAR_WORDS = 2  # words on each side that tell whether a word is quoted


@dataclass(frozen=True)
class Tables:
    """The tables of characters that folding removes or replaces."""

    ignorable: tuple[tuple[int, int], ...]
    alike: Letters  # letters of other scripts -> Latin
    similar: Letters  # letters and signs that are less alike -> Latin
    latin: Letters  # rare Latin letters -> common ones
    signs: Letters
    back: Mapping[str, Letters]  # by script: Latin letters -> letters of that script


@cache
def tables() -> Tables:
    """Read the tables of the package."""
    place = files("patternmark").joinpath("data", "folding.json")
    content = json.loads(place.read_text(encoding="utf-8"))
    kinds = {
        kind: {source: meant for meant, sources in content[kind].items() for source in sources}
        for kind in ("alike", "similar", "latin", "signs")
    }
    ranges = tuple((first, last) for first, last in content["ignorable"])
    return Tables(ranges, **kinds, back=content["back"])


@lru_cache(maxsize=4096)
def script_of(character: str) -> str:
    """Return the script of a letter, or "" for a character without a script.

    >>> script_of("a"), script_of("а"), script_of("7")
    ('LATIN', 'CYRILLIC', '')
    """
    if character.isascii():
        return _LATIN if character.isalpha() else ""
    if not character.isalpha():
        return _SIGN if character in tables().similar else ""
    script = unicodedata.name(character, "?").split()[0]
    return "" if script in _OF_NO_SCRIPT else script


def is_joined_script(character: str) -> bool:
    """Tell whether the letters of a letter's script are joined or have vowels as marks."""
    return unicodedata.name(character, "?").split()[0] in _JOINED_SCRIPTS


@lru_cache(maxsize=4096)
def latin_of(piece: str) -> str:
    """Return the Latin letter, with accents, that a letter of another script looks like, or ""."""
    parts = unicodedata.normalize("NFD", piece)
    found = tables().alike.get(parts[0]) or tables().similar.get(parts[0]) or ""
    return common_of(unicodedata.normalize("NFC", found + parts[1:])) if found else ""


@lru_cache(maxsize=4096)
def common_of(piece: str) -> str:
    """Return a Latin letter as in European languages: without rare marks and forms.

    >>> [common_of(letter) for letter in ("ẹ", "ế", "é", "ɡ")]
    ['e', 'ê', 'é', 'g']
    """
    if len(piece) == 1 and (piece.isascii() or piece in _EUROPEAN):
        return piece
    parts = unicodedata.normalize("NFD", piece)
    found = parts[0] if parts[0] in _EUROPEAN else tables().latin.get(parts[0], parts[0])
    for mark in parts[1:]:
        with_mark = unicodedata.normalize("NFC", found + mark)
        if with_mark in _EUROPEAN:
            found = with_mark
    return found


@lru_cache(maxsize=4096)
def bare_of(piece: str) -> str:
    """Return a Latin letter without any accent."""
    return "".join(c for c in unicodedata.normalize("NFD", piece) if not unicodedata.combining(c))


class Text:
    """The characters of a text with their marks, and properties of the whole text."""

    def __init__(self, pieces: list[str], altered: set[int]) -> None:
        self.pieces, self.altered = pieces, altered  # the places of replaced characters
        scripts = [script_of(piece[0]) for piece in pieces]
        self.words = list(_runs(scripts))
        self.latin = sum(script == _LATIN for script in scripts)
        self.own: Counter[str] = Counter(  # letters without a Latin look-alike, by script
            script
            for script, piece in zip(scripts, pieces, strict=True)
            if script not in ("", _LATIN) and not latin_of(piece)
        )

    def word(self, number: int) -> list[str]:
        """Return the letters of a word."""
        return self.pieces[slice(*self.words[number])]

    @property
    def is_latin(self) -> bool:
        """Whether the text is mostly in Latin letters."""
        return self.outweighs(self.own.total())

    def outweighs(self, others: int) -> bool:
        """Tell whether there are far more Latin letters than `others`."""
        return self.latin > 0 and self.latin >= _DOMINANT * others

    @cached_property
    def _bare_words(self) -> list[str]:
        """The words without accents, look-alikes and capitals."""
        return [
            "".join(bare_of(common_of(latin_of(c) or c)) for c in self.word(number)).lower()
            for number in range(len(self.words))
        ]

    def _has_common(self, common: frozenset[str]) -> bool:
        hits = sum(word in common for word in self._bare_words)
        return hits > 0 and hits >= _LEAST_COMMON * len(self.words)

    @cached_property
    def is_european(self) -> bool:
        """Whether the text is in a European language."""
        return self._has_common(_COMMON_EUROPEAN)

    @cached_property
    def has_greek_inside(self) -> bool:
        """Whether Latin words contain Greek letters: then single Greek letters are not symbols."""
        words = (self.word(number) for number in range(len(self.words)))
        scripts = ([script_of(letter[0]) for letter in word] for word in words)
        return any(own.count(_LATIN) > 1 and "GREEK" in own for own in scripts)

    @cached_property
    def has_strange_accents(self) -> bool:
        """Whether the text is English with accents on words that never have any."""
        strange = sum(
            bare in _COMMON_ENGLISH and any(bare_of(c) != c for c in self.word(number))
            for number, bare in enumerate(self._bare_words)
        )
        return strange >= _LEAST_STRANGE and self._has_common(_COMMON_ENGLISH)


def _runs(scripts: list[str]) -> Iterator[tuple[int, int]]:
    """Yield where each word begins and ends; a word is a run of letters."""
    begin = None
    for at, script in enumerate([*scripts, ""]):
        if script and begin is None:
            begin = at
        elif not script and begin is not None:
            yield begin, at
            begin = None


def without_rare_accents(read: Text, counts: Counter[str]) -> None:
    """Remove accents that the language of a text does not have; in unknown languages keep all."""
    if all(len(piece) == 1 and piece.isascii() for piece in read.pieces) or not read.is_european:
        return
    bare = bare_of if read.has_strange_accents else str
    for at, piece in enumerate(read.pieces):
        if script_of(piece[0]) == _LATIN and not piece.isascii():
            found = bare(common_of(piece))
            if found != piece:
                is_other_letter = bare_of(found)[0] != bare_of(piece)[0]
                counts["look_alikes" if is_other_letter else "marks"] += 1
                read.pieces[at] = found
                read.altered.add(at)


def in_one_script(read: Text, counts: Counter[str]) -> None:
    """Rewrite each word that mixes scripts in one script, and look-alike words in Latin."""
    spans = [
        number for number in range(len(read.words)) if not "".join(read.word(number)).isascii()
    ]
    for number in spans:
        script = _other_script(read.word(number))
        if script:
            table = _direction(read, number, script)
            begin, end = read.words[number]
            for at in range(begin, end):
                found = table(read.pieces[at])
                if found and found != read.pieces[at]:
                    counts["look_alikes"] += 1
                    read.pieces[at] = found
                    read.altered.add(at)


def tell_l_from_i(read: Text) -> None:
    """Choose between letters of the same shape (l, I and 1, or o and 0) by the letters around.

    Only replaced characters are changed. In a word, l follows a small letter or precedes a vowel;
    I precedes a consonant or is a word by itself.
    """
    ends = ["", *read.pieces, ""]
    for at in read.altered:
        before, letter, after = ends[at : at + 3]
        is_inside = before[-1:].islower() or (letter.isdigit() and after[:1].islower())
        if letter in "I1" and (is_inside or (not before.isalpha() and after in _VOWELS)):
            read.pieces[at] = "l"
        elif letter == "0" and is_inside:
            read.pieces[at] = "o"


def _other_script(word: list[str]) -> str:
    """Return the most frequent script of a word besides Latin, or ""."""
    others = Counter(script_of(letter[0]) for letter in word)
    del others[_LATIN]
    return others.most_common(1)[0][0] if others else ""


def _direction(read: Text, number: int, script: str) -> Callable[[str], str]:
    """Return a function that replaces the letters of a word by those of its intended script."""
    word = read.word(number)
    latin = [letter for letter in word if script_of(letter[0]) == _LATIN]
    own = [letter for letter in word if script_of(letter[0]) != _LATIN and not latin_of(letter)]
    back = tables().back.get(script, {})
    is_latin_text = read.outweighs(read.own[script])
    if _is_symbol(word, len(latin)) and not read.has_greek_inside:
        return _unchanged
    if not latin:
        looks_latin = not own and (_is_exact(word) or not read.own[script]) and _reads_on(word)
        is_trick = is_latin_text and looks_latin and not _is_quoted(read, number)
        return latin_of if is_trick else _unchanged
    if is_latin_text:
        return latin_of if len(latin) > len(own) else _unchanged
    if all(letter in back for letter in latin):
        return lambda letter: back.get(letter, "")
    return latin_of if not own and _is_exact(word) else _unchanged


def _unchanged(letter: str) -> str:
    return letter


def _is_exact(word: list[str]) -> bool:
    """Tell whether all letters of other scripts look exactly like Latin ones."""
    return all(
        script_of(letter[0]) == _LATIN or unicodedata.normalize("NFD", letter)[0] in tables().alike
        for letter in word
    )


def _reads_on(word: list[str]) -> bool:
    """Tell whether a word consists of letters that are written from left to right."""
    firsts = [letter[0] for letter in word]
    return all(c.isalpha() and unicodedata.bidirectional(c) == "L" for c in firsts)


def _is_symbol(word: list[str], num_latin: int) -> bool:
    """Tell whether a word is a small Greek letter, alone or beside one Latin letter."""
    greek = [letter for letter in word if script_of(letter[0]) == "GREEK"]
    others = len(word) - num_latin - len(greek)
    is_small = len(greek) == 1 and greek[0].islower() and greek[0] != "ο"
    return is_small and num_latin <= 1 and not others


def _is_quoted(read: Text, number: int) -> bool:
    """Tell whether a word near it is entirely in the same script and could not be Latin."""
    script = _other_script(read.word(number))
    near = range(max(0, number - _NEAR_WORDS), min(len(read.words), number + _NEAR_WORDS + 1))
    words = (read.word(other) for other in near if other != number)
    return any(
        all(script_of(letter[0]) == script for letter in word)
        and not all(latin_of(letter) for letter in word)
        for word in words
    )
