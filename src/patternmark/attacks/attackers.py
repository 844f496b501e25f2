"""Attack records of any kind: editors, the design model, and who may ask the detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.oracle import Answer, oracle_attack, protein_edits, text_edits
from patternmark.attacks.registry import Attack, find_attack
from patternmark.attacks.units import Outcome, Unit, letters_of
from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.core.key import Key
from patternmark.detector import Detector
from patternmark.io.items import RecordSource

if TYPE_CHECKING:
    from patternmark.designing.fitting import Fitted
    from patternmark.designing.plan import DesignPlan
    from patternmark.designing.run import Designer

BATCH_RECORDS = 96  # that are attacked, and written, together


Worker = Callable[[list[Unit]], list[Outcome]]


@dataclass(frozen=True)
class Editor:
    """Applies an attack that needs nothing but the sequences."""

    attack: Attack
    epsilon: float
    seed: int

    def __call__(self, units: list[Unit]) -> list[Outcome]:
        before = [unit.sequence for unit in units]
        after = self.attack.attack_all(before, self.epsilon, self.seed)
        return [Outcome(*both) for both in zip(before, after, strict=True)]


@dataclass(frozen=True, eq=False)
class OnBackbone:
    """Applies an attack with ProteinMPNN to records that fit one structure."""

    designer: Designer
    plan: DesignPlan
    name: str
    epsilon: float
    seed: int

    def __call__(self, units: list[Unit]) -> list[Outcome]:
        from patternmark.attacks.redesign import Redesigner  # noqa: PLC0415  # needs torch

        outcomes: dict[int, Outcome] = {}
        alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for number, unit in enumerate(units):  # those of one plan are worked on together
            alike.setdefault(unit.sequence.plan.groups, []).append(number)
        for numbers in alike.values():
            fitted: list[Fitted] = [units[number].sequence for number in numbers]
            attack = Redesigner(self.designer, fitted[0].plan).attack(self.name)
            made = attack.attack_all([f.sequence for f in fitted], self.epsilon, self.seed)
            for number, own, letters in zip(numbers, fitted, made, strict=True):
                before = PROTEIN.encode(own.record.sequence)
                after = before.copy()
                after[before != SEPARATOR] = letters[own.rows]
                outcomes[number] = Outcome(before, after)
        return [outcomes[number] for number in range(len(units))]


class Oracle:
    """Asks the detector of a key what an edit is good for."""

    def __init__(
        self,
        key: Key,
        folder: Path | None,
        *,
        queries: int,
        answers: Any,
        epsilon: float,
        seed: int,
    ) -> None:
        self._detector = Detector(key)
        self._source = RecordSource(key.profile.alphabet, beside=folder)
        self._queries, self._answers, self._epsilon, self._seed = queries, answers, epsilon, seed
        self.of_text = self._source.of_text

    def _ask(self, sequences: list[Any]) -> list[Answer]:
        symbols = [self._symbols(sequence) for sequence in sequences]
        verdicts = self._detector.detect_many(symbols)
        return [Answer(v.log10_p, v.prediction, v.statistic) for v in verdicts]

    def _symbols(self, sequence: Any) -> NDArray[np.int64]:
        """A text that has lost all its tokens is judged as an empty one."""
        if isinstance(sequence, str) and not sequence.strip():
            return np.zeros(0, dtype=np.int64)
        return self._source.symbols(sequence).ids

    def __call__(self, units: list[Unit]) -> list[Outcome]:
        return [self._one(unit) for unit in units]

    def _one(self, unit: Unit) -> Outcome:
        sequence = unit.sequence
        if len(sequence) == 0:
            return Outcome(sequence, sequence)
        rng = find_attack("oracle").rng(sequence, self._seed)
        edits = text_edits(sequence, rng) if self.of_text else protein_edits(sequence, rng)
        found = oracle_attack(
            edits, self._ask, self._queries, answers=self._answers, epsilon=self._epsilon
        )
        facts = {
            "id": unit.id,
            "marked_before": found.before.is_marked,
            "marked_after": found.after.is_marked,
            "log10_p_before": found.before.log10_p,
            "log10_p_after": found.after.log10_p,
            "edits": found.edits,
            "queries": found.queries,
        }
        return Outcome(sequence, found.sequence, facts)


@dataclass
class Tally:
    """What a run did."""

    records: int = 0
    unchanged: int = 0
    symbols_before: int = 0
    symbols_after: int = 0
    compared: int = 0  # symbols of records that kept their length
    replaced: int = 0  # of these, those that are others now
    asked: list[dict[str, Any]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        before, after = _symbols(outcome.before), _symbols(outcome.after)
        self.records += 1
        self.unchanged += letters_of(outcome.before) == letters_of(outcome.after)
        self.symbols_before += len(before)
        self.symbols_after += len(after)
        if len(before) == len(after):
            self.compared += len(before)
            self.replaced += int(np.count_nonzero(before != after))
        if outcome.facts is not None:
            self.asked.append(outcome.facts)

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "records": self.records,
            "unchanged": self.unchanged,
            "symbols_before": self.symbols_before,
            "symbols_after": self.symbols_after,
            "share_replaced": self.replaced / self.compared if self.compared else None,
        }
        return found | ({"asked": self.asked} if self.asked else {})


def _symbols(sequence: NDArray[np.int64] | str) -> NDArray[Any]:
    """Return residues, or words."""
    if isinstance(sequence, str):
        return np.array(sequence.split(), dtype=object)
    return np.asarray(sequence[sequence != SEPARATOR])


def attacked(units: list[Unit], work: Worker) -> Iterator[tuple[Unit, Outcome]]:
    """Attack records, some at a time."""
    for start in range(0, len(units), BATCH_RECORDS):
        some = units[start : start + BATCH_RECORDS]
        yield from zip(some, work(some), strict=True)
