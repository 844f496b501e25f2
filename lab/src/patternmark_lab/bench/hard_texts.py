"""Texts that repeat themselves, which are hard for a detector that counts every token.

Words come from natural English; we chose how to arrange them. Code comes from Python's standard
library, other languages from a corpus or from random letters. `hard_records` makes texts whose
lines are alike, from JSON to contracts.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np

from patternmark_lab.bench.hard_records import Make, of_lines

_CODE = ("argparse", "json.decoder", "csv", "textwrap", "heapq", "configparser", "calendar")
_LINES = 60  # in a text, before it is cut to its length
_SCRIPTS = {"Cyrillic letters": (0x430, 0x450), "Chinese characters": (0x4E00, 0x5000)}
_SYLLABLES = [consonant + vowel for consonant in "kstnm" for vowel in "aiueo"]
_PARTICLES = ["wa", "no", "ga", "wo", "ni", "to", "de", "mo"]


def makers(sentences: Sequence[str], others: dict[str, Sequence[str]]) -> dict[str, Make]:
    """Return a function for each class that makes one text.

    `sentences` are natural English; `others` are sentences of other languages, by language.
    """
    words = sorted({word.strip(".,;:!?()\"'").lower() for s in sentences for word in s.split()})
    words = [word for word in words if word.isalpha()]

    def some(rng: np.random.Generator, number: int) -> list[str]:
        return [words[i] for i in rng.integers(len(words), size=number)]

    def sentence(rng: np.random.Generator) -> str:
        return sentences[int(rng.integers(len(sentences)))]

    def poem(rng: np.random.Generator) -> str:
        refrain = " ".join(some(rng, int(rng.integers(3, 8))))
        return "\n".join(
            refrain if i % 3 == 2 else " ".join(some(rng, 6)).capitalize() + "," for i in range(30)
        )

    def anaphora(rng: np.random.Generator) -> str:
        opening = " ".join(some(rng, int(rng.integers(1, 4)))).capitalize()
        return " ".join(
            f"{opening} {' '.join(some(rng, int(rng.integers(2, 6))))}." for _ in range(_LINES)
        )

    def table(rng: np.random.Generator) -> str:
        return "\n".join(
            " | ".join(str(n) for n in rng.integers(1000, size=5)) + " |" for _ in range(_LINES)
        )

    def form(rng: np.random.Generator) -> str:
        """Repeat one sentence, each time with a fifth of its words replaced."""
        wording = sentence(rng).split()
        return " ".join(
            word if rng.random() > 0.2 else some(rng, 1)[0] for _ in range(40) for word in wording
        )

    def song(rng: np.random.Generator) -> str:
        chorus = [" ".join(some(rng, 5)) for _ in range(3)]
        return "\n".join(
            line for _ in range(12) for line in [*(" ".join(some(rng, 5)) for _ in "1234"), *chorus]
        )

    def in_turn(rng: np.random.Generator, number: int) -> str:
        return " ".join(some(rng, number) * 300)

    made: dict[str, Make] = {
        "a list with commas": lambda rng: ", ".join(some(rng, 300)),
        "a list with bullets": lambda rng: "\n".join(
            f"- {' '.join(some(rng, 2))}" for _ in range(90)
        ),
        "a numbered list": lambda rng: "\n".join(
            f"{i + 1}. {' '.join(some(rng, 3))}" for i in range(_LINES)
        ),
        "a table of numbers": table,
        "a table of words": lambda rng: "\n".join(",".join(some(rng, 4)) for _ in range(_LINES)),
        "a poem with a refrain": poem,
        "sentences that begin alike": anaphora,
        "one sentence repeated": lambda rng: " ".join([sentence(rng)] * 40),
        "two sentences in turn": lambda rng: " ".join([sentence(rng), sentence(rng)] * 20),
        "one word": lambda rng: in_turn(rng, 1),
        "two words in turn": lambda rng: in_turn(rng, 2),
        "three words in turn": lambda rng: in_turn(rng, 3),
        "a dozen words, shuffled": lambda rng: " ".join(rng.choice(some(rng, 12), 400)),
        "code": _code,
        "a letter from a form": form,
        "a song": song,
        "all in capitals": lambda rng: " ".join(sentence(rng) for _ in range(30)).upper(),
        "digits": lambda rng: "".join(str(n) for n in rng.integers(10, size=1500)),
        "syllables with particles": _syllables,
        **{name: _letters(low, high) for name, (low, high) in _SCRIPTS.items()},
        **of_lines(words),
    }
    for language, lines in others.items():
        made[language] = lambda rng, lines=lines: " ".join(  # type: ignore[misc]
            lines[i] for i in rng.integers(len(lines), size=12)
        )
    return made


def _code(rng: np.random.Generator) -> str:
    module = __import__(_CODE[int(rng.integers(len(_CODE)))], fromlist=["x"])
    lines = inspect.getsource(module).splitlines()
    first = int(rng.integers(max(len(lines) - 120, 1)))
    return "\n".join(lines[first : first + 120])


def _syllables(rng: np.random.Generator) -> str:
    """Write words of a few syllables, each followed by a particle, as in romanised Japanese."""
    return " ".join(
        f"{''.join(rng.choice(_SYLLABLES, rng.integers(2, 4)))} {rng.choice(_PARTICLES)}"
        for _ in range(200)
    )


def _letters(low: int, high: int) -> Make:
    """Return a maker of texts in a script that the tokenizer was not trained on.

    Each text draws from 80 random words.
    """

    def make(rng: np.random.Generator) -> str:
        words = [
            "".join(chr(code) for code in rng.integers(low, high, size=rng.integers(2, 8)))
            for _ in range(80)
        ]
        return " ".join(rng.choice(words, 300))

    return make
