"""Identify the key of a text among many, and time it (a part of `bench text-message`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.detector import Detector
from patternmark.intervals import rate_interval
from patternmark.search.candidates import Candidate
from patternmark.search.identify import Identification, Identifier
from patternmark.translation.translator import Translator
from patternmark_lab.bench.text_edits import NONE, edit_texts

LENGTHS = (75, None)  # tokens from the start of a text; None: the whole text
CASES = ((NONE, 0.0), ("word-drop", 0.1))
_REPEATS = 3  # of a detection, because one takes only milliseconds


def rate_of(hits: int, trials: int) -> dict[str, Any]:
    """Return a rate with its interval."""
    low, high = rate_interval(hits, trials)
    return {"hits": hits, "n": trials, "rate": hits / trials, "low": low, "high": high}


@dataclass(eq=False)
class _Count:
    """Counts and times of the texts of one case."""

    first: int = 0  # the right key comes first
    named: int = 0  # the right key comes first and is named, at the corrected p-value
    wrong: int = 0  # another key is named
    strangers: int = 0  # a key is named, although the right key is not among them
    ratios: list[float] = field(default_factory=list)  # times, relative to one detection

    def add(self, found: Identification, owner: str, without: Identification) -> None:
        is_right = found.best.candidate.name == owner
        self.first += is_right
        self.named += found.prediction and is_right
        self.wrong += found.prediction and not is_right
        self.strangers += without.prediction

    def to_table(self) -> dict[str, Any]:
        n = len(self.ratios)
        counts = {
            "first": self.first,
            "named": self.named,
            "wrong": self.wrong,
            "strangers": self.strangers,
        }
        rates = {name: rate_of(hits, n) for name, hits in counts.items()}
        middle, worst = np.median(self.ratios), np.max(self.ratios)
        return {**rates, "detections": float(middle), "detections_most": float(worst)}


@dataclass(eq=False)
class Owners:
    """Looks for texts' keys among fresh keys with the right ones, and among as many without."""

    key: Callable[[int, int], Key]
    keys: int
    translator: Translator
    seed: int
    step: Callable[[str], None]

    @cached_property
    def _searches(self) -> tuple[Identifier, Identifier]:
        """Searches with the keys of the texts among others, and with only other keys."""
        own, other = (
            Identifier([Candidate(self.key(1, n), str(n)) for n in range(at, at + self.keys)])
            for at in (0, self.keys)
        )
        return own, other

    def rows(self, texts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Look for the key of every text, one text at a time, intact and after words were lost."""
        rows = []
        for case in CASES:
            ids = edit_texts(self.translator, [text["text"] for text in texts], case, self.seed)
            for length in LENGTHS:
                count = _Count()
                for text, row in zip(texts, ids, strict=True):
                    self._look(text["key"], row[:length], count)
                rows.append({"case": list(case), "length": length, **count.to_table()})
                self.step(f"{self.keys} keys: {case[0]}")
        return rows

    def _look(self, owner: int, ids: NDArray[np.int64], count: _Count) -> None:
        own, other = self._searches
        detector = Detector(self.key(1, owner))
        detector.detect(ids)  # work that is done only once does not count
        if not count.ratios:
            own.identify([ids], ["text"])
        began = perf_counter()
        for _ in range(_REPEATS):
            detector.detect(ids)
        middle = perf_counter()
        found = own.identify([ids], ["text"])[0]
        count.ratios.append(_REPEATS * (perf_counter() - middle) / (middle - began))
        count.add(found, str(owner), other.identify([ids], ["text"])[0])
