"""Which of many keys marked a sequence.

A quick screen over all keys picks a few (see `screen`); the detector `auto` tests these in full.
The p-value of the best is multiplied by the number of *all* keys (Bonferroni): without a mark, the
chance that any of K keys shows a corrected p <= x is at most x, however the keys depend on each
other, and leaving keys out only makes it less.

A sequence that another key marked, one that is not among them, is no chance sequence to keys of the
paper's scheme: splits of the alphabet overlap, and one that resembles the true split fits too. Keys
of the hardened scheme have next to nothing in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.cyclic import CyclicRatio
from patternmark.detect import DEFAULT_FPR, Detector
from patternmark.errors import ParameterError
from patternmark.key import Key
from patternmark.reading import Reading
from patternmark.screen import Screen
from patternmark.statistics import Measurement
from patternmark.statistics.ratio import mixture_of, ratio_of
from patternmark.verdict import LN10, p_value_of

SHORTLIST = 24
_BATCH = 32
_KEPT_DETECTORS = 64


@dataclass(frozen=True)
class Candidate:
    """A key that may have marked the sequence, and where it comes from."""

    key: Key
    name: str
    file: str | None = None


@dataclass(frozen=True)
class Suspect:
    """A candidate with the p-value of its own test, and corrected for the number of keys."""

    candidate: Candidate
    log_p_of_key: float
    log_p: float

    def to_table(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "key_id": self.candidate.key.key_id,
            "key_name": self.candidate.name,
            "key_file": self.candidate.file,
            "p_value": p_value_of(self.log_p),
            "log10_p": self.log_p / LN10,
            "p_value_of_key": p_value_of(self.log_p_of_key),
        }


@dataclass(frozen=True)
class Identification:
    """The best key for one sequence and the next best."""

    id: str
    length: int
    num_tokens_scored: int
    num_keys: int
    fpr: float
    best: Suspect
    runner_up: Suspect | None

    @property
    def prediction(self) -> bool:
        """Whether the best key marked it, at the false positive rate for all keys together."""
        return self.best.log_p <= log(self.fpr)

    @property
    def note(self) -> str:
        if self.prediction and self.runner_up and self.runner_up.log_p <= log(self.fpr):
            return "the runner-up is below the FPR as well: compare the two"
        return "" if self.num_tokens_scored else "nothing to score"

    def to_table(self, **more: str) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "id": self.id,
            "length": self.length,
            "num_tokens_scored": self.num_tokens_scored,
            "prediction": self.prediction,
            **self.best.to_table(),
            "runner_up": self.runner_up and self.runner_up.to_table(),
            "num_keys": self.num_keys,
            "correction": "bonferroni",
            "fpr": self.fpr,
            "note": self.note,
            **more,
        }


class Identifier:
    """Tests sequences against many keys of one alphabet."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        fpr: float = DEFAULT_FPR,
        shortlist: int = SHORTLIST,
    ) -> None:
        if not candidates:
            raise ParameterError("there are no keys to choose from")
        if not 0.0 < fpr < 1.0:
            raise ParameterError(f"a false positive rate lies between 0 and 1, not {fpr}")
        self.candidates = list(candidates)
        self.fpr, self._shortlist = fpr, shortlist
        self.alphabet = self.candidates[0].key.profile.alphabet
        for other in self.candidates:
            if other.key.profile.alphabet != self.alphabet:
                raise ParameterError(
                    f"{other.file or other.name}: its alphabet is "
                    f"{other.key.profile.alphabet.name!r}, that of "
                    f"{self.candidates[0].file or self.candidates[0].name} is "
                    f"{self.alphabet.name!r}: identify with keys of one alphabet at a time"
                )
        self._screens = self._make_screens()
        self._detectors: dict[int, Detector] = {}

    def prepare(self) -> None:
        """Derive what can be kept for all sequences."""
        for screen, _ in self._screens:
            if screen is not None:
                screen.prepare()

    def identify(
        self,
        sequences: Sequence[NDArray[np.int64]],
        ids: Sequence[str],
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> list[Identification]:
        """Name the best keys of each encoded sequence."""
        readings = self._detector(0).read(list(sequences), scored)
        result = []
        for at in range(0, len(readings), _BATCH):
            some = readings[at : at + _BATCH]
            for row, suspects in enumerate(self._suspects(some), start=at):
                result.append(
                    Identification(
                        id=ids[row],
                        length=int(np.count_nonzero(sequences[row] >= 0)),
                        num_tokens_scored=readings[row].num_scored,
                        num_keys=len(self.candidates),
                        fpr=self.fpr,
                        best=suspects[0],
                        runner_up=suspects[1] if len(suspects) > 1 else None,
                    )
                )
        return result

    def _make_screens(self) -> list[tuple[Screen | None, list[int]]]:
        """Group keys by the shape of their schedules; chains that are no cycle have no screen."""
        groups: dict[Any, list[int]] = {}
        for number, candidate in enumerate(self.candidates):
            p = candidate.key.profile
            shape = (p.scheme, p.chain, p.period, p.starts, p.nonces)
            groups.setdefault(shape, []).append(number)
        screens: list[tuple[Screen | None, list[int]]] = []
        for numbers in groups.values():
            keys = [self.candidates[number].key for number in numbers]
            few = len(keys) <= self._shortlist
            ratio = None if few else ratio_of(keys[0], mixture_of(keys[0].profile))
            screens.append((Screen(keys) if isinstance(ratio, CyclicRatio) else None, numbers))
        return screens

    def _suspects(self, readings: Sequence[Reading]) -> list[list[Suspect]]:
        """Return each record's tested keys, best first."""
        records_of: dict[int, list[int]] = {}  # of each key that is tested in full
        for screen, numbers in self._screens:
            if screen is None:
                records_of |= {number: list(range(len(readings))) for number in numbers}
                continue
            for record, scores in enumerate(screen.scores(readings)):
                for place in self._best_places(scores):
                    records_of.setdefault(numbers[place], []).append(record)
        found: list[list[tuple[float, float, int]]] = [[] for _ in readings]
        for number, records in records_of.items():
            statistic = self._detector(number).statistic
            measured = statistic.measure([readings[record] for record in records])
            for record, measurement in zip(records, measured, strict=True):
                found[record].append((*_order(measurement), number))
        return [[self._suspect(log_p, n) for log_p, _, n in sorted(row)] for row in found]

    def _best_places(self, scores: NDArray[np.float32]) -> list[int]:
        """Return the places of the highest scores of either kind: [K, 2] -> some."""
        each = max(1, self._shortlist // 2)
        best = np.argpartition(-scores, each - 1, axis=0)[:each]
        return [int(place) for place in np.unique(best)]

    def _suspect(self, log_p: float, number: int) -> Suspect:
        corrected = min(0.0, log_p + log(len(self.candidates)))
        return Suspect(self.candidates[number], log_p, corrected)

    def _detector(self, number: int) -> Detector:
        if number not in self._detectors:
            if len(self._detectors) >= _KEPT_DETECTORS:
                self._detectors.pop(next(iter(self._detectors)))
            self._detectors[number] = Detector(self.candidates[number].key, fpr=self.fpr)
        return self._detectors[number]


def _order(found: Measurement) -> tuple[float, float]:
    """Best first; where p-values are 1 alike, by the statistic."""
    return found.log_p, -found.statistic
