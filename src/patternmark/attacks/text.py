"""Attacks on the words of a text. Words are separated by white space.

White space becomes single spaces. At least one word of a text remains.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from patternmark.attacks.wordnet import open_wordnet

_WORD = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)  # punctuation, word, punctuation


def drop_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Leave out each word with probability `share`."""
    words = text.split()
    draws = rng.random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw >= share]
    return " ".join(kept or words[int(draws.argmax()) :][:1]) if words else ""


def insert_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Insert random words of the text at random places: `share` times as many as it has."""
    words = text.split()
    count = round(share * len(words))
    new = rng.integers(0, max(len(words), 1), count)
    places = rng.integers(0, len(words) + 1, count)
    longer = np.insert(np.array(words, dtype=object), places, [words[i] for i in new])
    return " ".join(longer)


def swap_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Exchange random pairs of words so that a `share` of all words moves, each at most once."""
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

    Of n words, int(share n) are chosen among those that have a synset of several lemmas. Each is
    replaced by a random lemma, except the first, of a random synset among these. It may be the word
    itself. Punctuation around a word, which MarkLLM treats as part of it, and an initial capital
    are kept.
    """
    wordnet = open_wordnet(folder)
    words = text.split()
    parts = [_split_punctuation(word) for word in words]
    choices = [wordnet.synonyms(word) for _, word, _ in parts]
    replaceable = np.array([i for i, found in enumerate(choices) if found], dtype=np.int64)
    # Drawn for all words, so that a larger share replaces the same words as a smaller one and more.
    order, picks = rng.permutation(replaceable), rng.random((len(words), 2))
    for i in order[: int(share * len(words))].tolist():
        lemmas = choices[i][int(picks[i, 0] * len(choices[i]))]
        lemma = lemmas[int(picks[i, 1] * len(lemmas))]
        before, word, after = parts[i]
        capital = word[:1].isupper()
        words[i] = before + (lemma[:1].upper() + lemma[1:] if capital else lemma) + after
    return " ".join(words)


def _split_punctuation(word: str) -> tuple[str, str, str]:
    """Return the punctuation before a word, the word, and the punctuation after it."""
    found = _WORD.fullmatch(word)
    assert found is not None  # noqa: S101  # the pattern matches anything
    return found[1], found[2], found[3]
