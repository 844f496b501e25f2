"""Which of many keys marked a sequence.

A quick screen scores all keys and picks a few (see `letter_keys`, `block_keys`, `token_keys`,
`turn_keys`); the detector `auto` tests these in full. If none of them has marked the sequence, a
more thorough screen picks more. The p-value of the best key is multiplied by the number of *all*
keys (Bonferroni). Without a mark, the chance that any of K keys shows a corrected p <= x is at most
x, however the keys depend on each other and however the screen picks them: testing fewer keys only
makes this chance smaller.

For keys of the paper's scheme on proteins the p-value does not hold if the sequence was marked with
a key that is not among the candidates: a split of the 20 letters that resembles the true split fits
too. `Identifier.caution` says so. Keys of other schemes have independent coins, and their p-values
hold for any sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark._version import __version__
from patternmark.caution import caution_of
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR, bonferroni, check_fpr, is_below
from patternmark.fast.compiled import repeated
from patternmark.results import LN10, Result, Status, cells_of, p_value_of
from patternmark.search.block_keys import BlockKeyScreen
from patternmark.search.candidates import Candidate
from patternmark.search.letter_keys import KeyScreen, LetterShortlist, Progress
from patternmark.search.token_keys import TokenScreen
from patternmark.search.turn_keys import TurnKeyScreen
from patternmark.signature import joined, keys_part, scored_part, short_hash
from patternmark.statistics import Measurement
from patternmark.statistics.excerpts import needs_excerpts

SHORTLIST = 24
_MAX_STAGES = 3  # of any screen
_BATCH = 32  # records that are screened together
_MAX_DETECTORS = 64  # detectors that are kept for the next records
_MAX_TOKEN_DETECTORS = 8  # ... of keys whose schedules are large

Readings = Sequence[Sequence[Reading]]  # [groups of keys][records]


@dataclass(frozen=True)
class Suspect:
    """A candidate with its p-value, alone and corrected for the number of keys."""

    candidate: Candidate
    number: int  # index in the list of candidates
    log_p_of_key: float
    log_p: float
    log_p_any: float | None = None  # corrected as well

    def to_dict(self) -> dict[str, Any]:
        """Return its fields for JSON."""
        return {
            "key_id": self.candidate.key.key_id,
            "key_name": self.candidate.name,
            "key_file": self.candidate.file,
            "p_value": p_value_of(self.log_p),
            "log10_p": self.log_p / LN10,
            "p_value_of_key": p_value_of(self.log_p_of_key),
        }


@dataclass(frozen=True, repr=False)
class Identification(Result):
    """The result for one sequence: the best key and the second best."""

    id: str
    length: int
    num_tokens_scored: int
    num_keys: int
    fpr: float
    best: Suspect
    runner_up: Suspect | None
    signature: str

    @property
    def prediction(self) -> bool:
        """Whether the best key marked the sequence, at an FPR for all keys together."""
        return is_below(self.best.log_p, self.fpr)

    @property
    def status(self) -> Status:
        """The result for the sequence in one word."""
        if self.prediction:
            return Status.MARKED
        return Status.NO_MARK if self.num_tokens_scored else Status.NOTHING_TO_SCORE

    @property
    def p_value(self) -> float:
        """The p-value of the best key, corrected for the number of keys."""
        return p_value_of(self.best.log_p)

    @property
    def log10_p(self) -> float:
        return self.best.log_p / LN10 + 0.0  # never minus zero

    @property
    def p_any(self) -> float | None:
        """The corrected bound that is proved for any sequence, or None if the key has none."""
        return None if self.best.log_p_any is None else p_value_of(self.best.log_p_any)

    @property
    def note(self) -> str:
        if not self.num_tokens_scored:
            return "nothing to score"
        if not self.prediction:
            return ""
        notes = []
        if self.runner_up and is_below(self.runner_up.log_p, self.fpr):
            notes.append("the runner-up is below the FPR as well: compare the two")
        caution = caution_of(self.best.candidate.key.profile)
        return "; ".join([*notes, *([caution] if caution else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as plain values for JSON."""
        return {
            "id": self.id,
            "length": self.length,
            "num_tokens_scored": self.num_tokens_scored,
            "prediction": self.prediction,
            "status": self.status,
            **self.best.to_dict(),
            "p_any": self.p_any,
            "runner_up": self.runner_up and self.runner_up.to_dict(),
            "num_keys": self.num_keys,
            "correction": "bonferroni",
            "fpr": self.fpr,
            "note": self.note,
            "signature": self.signature,
        }

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        best = self.best.candidate
        name = best.name if self.prediction else ""
        return cells_of(self, self.id, by=name, key=best.key.key_id, note=self.note)


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
            raise ParameterError("there are no keys to choose from: give at least one")
        self.candidates = list(candidates)
        self.fpr, self._shortlist = check_fpr(fpr), shortlist
        # Called by thorough screens with the number of keys that are done, and of all.
        self.progress: Progress | None = None
        self.alphabet = self.candidates[0].key.profile.alphabet
        for other in self.candidates:
            if other.key.profile.alphabet != self.alphabet:
                raise ParameterError(
                    f"{other.file or other.name}: its alphabet is "
                    f"{other.key.profile.alphabet.name!r}, but that of "
                    f"{self.candidates[0].file or self.candidates[0].name} is "
                    f"{self.alphabet.name!r}: identify with keys of one alphabet at a time"
                )
        self._groups = self._make_groups(shortlist)
        self._group_of = {
            number: place for place, group in enumerate(self._groups) for number in group.numbers
        }
        self._detectors: dict[int, Detector] = {}

    @property
    def caution(self) -> str | None:
        """A warning about the p-values of some of the keys, if there is one."""
        cautions = (caution_of(self.candidates[g.numbers[0]].key.profile) for g in self._groups)
        return next(filter(None, cautions), None)

    def prepare(self) -> None:
        """Compute now what is the same for all sequences."""
        for group in self._groups:
            group.prepare()

    def identify(
        self,
        sequences: Sequence[NDArray[np.int64]],
        ids: Sequence[str],
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> list[Identification]:
        """Find the best keys of each encoded sequence."""
        # All keys of a group read a record alike: masked repeats do not depend on the secret.
        readings = [
            self._detector(group.numbers[0]).read(list(sequences), scored) for group in self._groups
        ]
        masks = [None] * len(sequences) if scored is None else scored
        result = []
        for at in range(0, len(sequences), _BATCH):
            some = [records[at : at + _BATCH] for records in readings]
            for row, suspects in enumerate(self._suspects(some), start=at):
                own = self._group_of[suspects[0].number]
                result.append(
                    Identification(
                        id=ids[row],
                        length=int(np.count_nonzero(sequences[row] >= 0)),
                        num_tokens_scored=readings[own][row].num_scored,
                        num_keys=len(self.candidates),
                        fpr=self.fpr,
                        best=suspects[0],
                        runner_up=suspects[1] if len(suspects) > 1 else None,
                        signature=joined(
                            self.signature, scored_part([sequences[row]], [masks[row]])
                        ),
                    )
                )
        return result

    @cached_property
    def signature(self) -> str:
        """Every setting that can change a result: the keys, their detectors, the correction."""
        kinds = sorted({self._detector(g.numbers[0]).settings_of_any_key for g in self._groups})
        many = f"kinds:{len(kinds)}-{short_hash(kind.encode() for kind in kinds)}"
        return joined(
            keys_part([candidate.key.key_id for candidate in self.candidates]),
            kinds[0] if len(kinds) == 1 else many,
            f"shortlist:{self._shortlist}",
            "correction:bonferroni",
            f"fpr:{self.fpr!r}",
            f"v:{__version__}",
        )

    def _make_groups(self, shortlist: int) -> list[_Group]:
        """Put keys with the same public parameters into one group."""
        numbers_of: dict[str, list[int]] = {}
        for number, candidate in enumerate(self.candidates):
            numbers_of.setdefault(candidate.key.profile.canonical, []).append(number)
        return [
            _Group(numbers, [self.candidates[number].key for number in numbers], shortlist)
            for numbers in numbers_of.values()
        ]

    def _suspects(self, readings: Readings) -> list[list[Suspect]]:
        """Return each record's tested keys, best first."""
        found: list[dict[int, Measurement]] = [{} for _ in readings[0]]
        for stage in range(_MAX_STAGES):
            unsettled = [r for r, row in enumerate(found) if self._is_open(readings[0][r], row)]
            self._test_keys(self._keys_to_test(stage, readings, unsettled), readings, found)
        ordered = [sorted(row, key=lambda number: _order(row[number], number)) for row in found]
        return [
            [self._suspect(row[number], number) for number in numbers]
            for row, numbers in zip(found, ordered, strict=True)
        ]

    def _is_open(self, reading: Reading, found: dict[int, Measurement]) -> bool:
        """Whether the next stage should search for more keys of a record."""
        if not found:
            return True
        best = self._correct(min(measured.log_p for measured in found.values()))
        return reading.num_scored > 0 and not is_below(best, self.fpr)

    def _keys_to_test(
        self, stage: int, readings: Readings, records: list[int]
    ) -> dict[int, list[int]]:
        """Return the keys that a stage picks, each with the records that it may have marked."""
        records_of: dict[int, list[int]] = {}
        if not records:
            return records_of
        for group, own in zip(self._groups, readings, strict=True):
            some = [own[record] for record in records]
            for record, numbers in zip(
                records, group.pick(stage, some, self.progress), strict=True
            ):
                for number in numbers:
                    records_of.setdefault(number, []).append(record)
        return records_of

    def _test_keys(
        self,
        records_of: dict[int, list[int]],
        readings: Readings,
        found: list[dict[int, Measurement]],
    ) -> None:
        """Test keys in full against the records that a stage picked them for, each pair once."""
        with repeated(len(records_of)):
            for number, records in records_of.items():
                fresh = [record for record in records if number not in found[record]]
                if fresh:
                    statistic = self._detector(number).statistic
                    own = readings[self._group_of[number]]
                    measured = statistic.measure([own[record] for record in fresh])
                    for record, measurement in zip(fresh, measured, strict=True):
                        found[record][number] = measurement

    def _suspect(self, found: Measurement, number: int) -> Suspect:
        log_p_any = None if found.log_p_any is None else self._correct(found.log_p_any)
        own = self.candidates[number]
        return Suspect(own, number, found.log_p, self._correct(found.log_p), log_p_any)

    def _correct(self, log_p: float) -> float:
        return float(bonferroni(log_p, len(self.candidates)))

    def _detector(self, number: int) -> Detector:
        if number not in self._detectors:
            key = self.candidates[number].key
            limit = _MAX_TOKEN_DETECTORS if needs_excerpts(key) else _MAX_DETECTORS
            if len(self._detectors) >= limit:
                self._detectors.pop(next(iter(self._detectors)))
            # Of a copy: what the key derives is freed together with the detector.
            self._detectors[number] = Detector(replace(key), fpr=self.fpr)
        return self._detectors[number]


def _order(found: Measurement, number: int) -> tuple[float, float, int]:
    """Sort by the p-value; if p-values are equal, by the statistic."""
    return found.log_p, -found.statistic, number


class _Group:
    """Keys with the same public parameters, and the screen that picks some for a full test."""

    def __init__(self, numbers: list[int], keys: list[Key], shortlist: int) -> None:
        self.numbers, self._shortlist = numbers, shortlist
        self._screen = _make_screen(keys) if len(keys) > shortlist else None

    def prepare(self) -> None:
        if self._screen is not None:
            self._screen.prepare()

    def pick(
        self, stage: int, readings: Sequence[Reading], progress: Progress | None
    ) -> list[list[int]]:
        """Return the numbers of the keys that a stage picks for each record, possibly none."""
        if self._screen is None:
            return [self.numbers if stage == 0 else []] * len(readings)
        if stage >= len(self._screen.stages):
            return [[]] * len(readings)
        score, share = self._screen.stages[stage]
        kinds = np.moveaxis(score(readings, progress), 2, 0)
        # All kinds of scores share the shortlist.
        best = [self._best(scores, self._shortlist // (share * len(kinds))) for scores in kinds]
        return [[n for numbers in row for n in numbers] for row in zip(*best, strict=True)]

    def _best(self, scores: NDArray[Any], count: int) -> list[list[int]]:
        """Return the keys with the highest scores of each record; -inf means not picked."""
        places = np.argsort(-scores, axis=1, kind="stable")[:, : max(1, count)]
        return [
            [self.numbers[place] for place in row if own[place] > -np.inf]
            for row, own in zip(places.tolist(), scores, strict=True)
        ]


def _make_screen(keys: Sequence[Key]) -> KeyScreen | None:
    """Return the screen for keys of one profile, or None if all of them must be tested."""
    return _SCREENS[keys[0].profile.scheme.name](keys)


def _make_phase_screen(keys: Sequence[Key]) -> KeyScreen | None:
    """Return a screen over phases, or None if the position keys do not repeat in a circle."""
    if not keys[0].profile.scheme.is_cycle:
        return None
    return TokenScreen(keys) if needs_excerpts(keys[0]) else LetterShortlist(keys)


_SCREENS: dict[str, Callable[[Sequence[Key]], KeyScreen | None]] = {
    Blocks.name: BlockKeyScreen,
    Turns.name: TurnKeyScreen,
    Paper.name: _make_phase_screen,
}
