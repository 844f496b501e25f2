"""Attacks on the words of a text. Words are what stands between blanks.

Blanks become single spaces. A text never loses its last word.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from patternmark.attacks.wordnet import open_wordnet

_WORD = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)  # with the punctuation around it


def drop_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Leave out each word with some probability."""
    words = text.split()
    draws = rng.random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw >= share]
    return " ".join(kept or words[int(draws.argmax()) :][:1]) if words else ""


def insert_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Insert words of the text at random places: so many for each word it has."""
    words = text.split()
    count = round(share * len(words))
    new = rng.integers(0, max(len(words), 1), count)
    places = rng.integers(0, len(words) + 1, count)
    longer = np.insert(np.array(words, dtype=object), places, [words[i] for i in new])
    return " ".join(longer)


def swap_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Exchange pairs of words, each word at most once: so large a share of them moves."""
    words = text.split()
    order = rng.permutation(len(words))
    pairs = order[: 2 * int(share * len(words) / 2)].reshape(-1, 2)
    moved = np.array(words, dtype=object)
    moved[pairs[:, 0]], moved[pairs[:, 1]] = moved[pairs[:, 1]], moved[pairs[:, 0]]
    return " ".join(moved)


def replace_by_synonyms(
    text: str, share: float, rng: np.random.Generator, folder: Path | None = None
) -> str:
    """Replace words by synonyms of WordNet, by the rule of MarkLLM.

    Of n words int(share n) are chosen among those that have a synset of several lemmas; each
    becomes a random lemma, not the first, of a random one of these synsets. It may be the word
    itself. Punctuation around a word, which MarkLLM takes for a part of it, and a capital at its
    beginning are kept.
    """
    wordnet = open_wordnet(folder)
    words = text.split()
    parts = [_parted(word) for word in words]
    choices = [wordnet.synonyms(word) for _, word, _ in parts]
    replaceable = np.array([i for i, found in enumerate(choices) if found], dtype=np.int64)
    # Drawn for all words: a larger share replaces what a smaller one does, and more.
    order, picks = rng.permutation(replaceable), rng.random((len(words), 2))
    for i in order[: int(share * len(words))].tolist():
        lemmas = choices[i][int(picks[i, 0] * len(choices[i]))]
        lemma = lemmas[int(picks[i, 1] * len(lemmas))]
        before, word, after = parts[i]
        capital = word[:1].isupper()
        words[i] = before + (lemma[:1].upper() + lemma[1:] if capital else lemma) + after
    return " ".join(words)


def _parted(word: str) -> tuple[str, str, str]:
    """Return a word and the punctuation before and behind it."""
    found = _WORD.fullmatch(word)
    assert found is not None  # noqa: S101  # it matches anything
    return found[1], found[2], found[3]
