"""The work of `patternmark attack`: records in, attacked records out, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.cli.output import progress, warn
from patternmark.core.alphabet import PROTEIN, SEPARATOR
from patternmark.core.keyfile import load_key
from patternmark.designing.fitting import Fitted, fitted_records
from patternmark.errors import InputError, SequenceError
from patternmark.io.items import RecordSource
from patternmark.io.lines import read_lines, writing
from patternmark.io.manifest_use import IGNORE, TRUST, ManifestUse
from patternmark.io.records import Problem, Record, input_name, read_records

if TYPE_CHECKING:
    from patternmark.attacks.oracle import Answer
    from patternmark.attacks.registry import Attack
    from patternmark.designing.plan import DesignPlan
    from patternmark.designing.run import Designer

_AT_ONCE = 96  # records that are attacked, and written, together


class Unit(NamedTuple):
    """A record to attack; one that stands on a line of its own has that line's number."""

    id: str
    sequence: Any  # ids of PROTEIN, a text, or what the worker wants
    line: int | None = None


class Outcome(NamedTuple):
    """What became of a record, before and after; `facts` are for it alone."""

    before: NDArray[np.int64] | str
    after: NDArray[np.int64] | str
    facts: dict[str, Any] | None = None


Worker = Callable[[list[Unit]], list[Outcome]]


# --- reading ---------------------------------------------------------------------------------


def looks_like_fasta(file: Path) -> bool:
    """Judge by the first character that is not blank."""
    if str(file) == "-" or file.suffix == ".gz":
        return file.suffix == ".gz"
    try:
        with file.open("rb") as stream:
            return stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b">", b";")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None


def text_units(file: Path) -> Iterator[Unit]:
    """Read a text from each line; empty ones stay."""
    for number, line in enumerate(read_lines(file, "it is left empty", warn), start=1):
        yield Unit(f"line-{number}", line, number)


def protein_units(file: Path) -> Iterator[Unit]:
    """Read proteins from FASTA or lines; those that are none are named."""
    name = input_name(str(file))
    for record in read_records(str(file)):
        if isinstance(record, Problem):
            warn(record)
            continue
        try:
            symbols = PROTEIN.encode(record.sequence)
        except SequenceError as error:
            warn(Problem(name, f"{record.place} ({record.id})", f"{error}; left out"))
            continue
        yield Unit(record.id, symbols, _line_of(record, name))


def _line_of(record: Record, name: str) -> int | None:
    kind, _, number = record.place.partition(" ")
    if kind != "line":
        return None
    if record.id != f"line-{number}" or not isinstance(record.sequence, str):
        raise InputError(f"{name}: JSON is not attacked: give FASTA, or a sequence on each line")
    return int(number)


def read_host(file: Path) -> NDArray[np.int64]:
    """Read natural sequences to splice into, one after the other."""
    found = [unit.sequence[unit.sequence != SEPARATOR] for unit in protein_units(file)]
    if not found:
        raise InputError(f"{file}: contains no protein to splice into")
    return np.concatenate(found)


def _letters(sequence: NDArray[np.int64] | str) -> str:
    if isinstance(sequence, str):
        return sequence
    return "".join("/" if i == SEPARATOR else PROTEIN.letters[i] for i in sequence)


# --- attacking -------------------------------------------------------------------------------


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
    structure: Path
    name: str
    epsilon: float
    seed: int
    use_manifest: bool

    def units(self, file: Path) -> Iterator[Unit]:
        """Read the records that fit; the others are named."""
        manifests = ManifestUse(TRUST if self.use_manifest else IGNORE)
        fitting = fitted_records([str(file)], self.structure, self.plan, warn, manifests=manifests)
        for fitted in fitting:
            line = _line_of(fitted.record, fitted.file)
            yield Unit(fitted.record.id, fitted, line)

    def __call__(self, units: list[Unit]) -> list[Outcome]:
        from patternmark.attacks.redesign import Redesigner

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
        key: Path,
        *,
        queries: int,
        answers: Any,
        epsilon: float,
        seed: int,
        allow_open: bool = False,
    ) -> None:
        from patternmark.detector import Detector

        loaded = load_key(key, allow_open=allow_open, with_secret=True)
        self._detector = Detector(loaded)
        self._source = RecordSource(loaded.profile.alphabet, beside=key.parent)
        self._queries, self._answers, self._epsilon, self._seed = queries, answers, epsilon, seed
        self.of_text = self._source.of_text

    def _ask(self, sequences: list[Any]) -> list[Answer]:
        from patternmark.attacks.oracle import Answer

        symbols = [self._symbols(sequence) for sequence in sequences]
        return [Answer(v.log10_p, v.prediction) for v in self._detector.detect_many(symbols)]

    def _symbols(self, sequence: Any) -> NDArray[np.int64]:
        """A text that has lost all its tokens is judged as an empty one."""
        if isinstance(sequence, str) and not sequence.strip():
            return np.zeros(0, dtype=np.int64)
        return self._source.symbols(sequence).ids

    def __call__(self, units: list[Unit]) -> list[Outcome]:
        return [self._one(unit) for unit in units]

    def _one(self, unit: Unit) -> Outcome:
        from patternmark.attacks import find_attack, oracle_attack, protein_edits, text_edits

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


# --- writing ---------------------------------------------------------------------------------


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
        self.unchanged += _letters(outcome.before) == _letters(outcome.after)
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


def run(units: Iterator[Unit], work: Worker, output: Path, tally: Tally) -> None:
    """Attack records and write them, some at a time: `tally` has counted what is written."""
    everything = list(units)  # what is wrong with the file is said before anything is written
    if not everything:
        raise InputError("there is no record that could be attacked")
    attacked = _attacked(everything, work)
    first = next(attacked)  # an attack that cannot be made leaves no file behind
    line = 0
    with progress("records") as bar, writing(output, append=False) as stream:
        task = bar.add_task("attacking", total=len(everything))
        for unit, outcome in chain([first], attacked):
            letters = _letters(outcome.after)
            if unit.line is None:
                stream.write(f">{unit.id}\n{letters}\n".encode())
            else:
                missing = unit.line - 1 - line  # lines that were empty or bad
                stream.write(b"\n" * missing + f"{letters}\n".encode())
                line = unit.line
            stream.flush()
            if len(outcome.before):
                tally.add(outcome)
            bar.advance(task)


def _attacked(units: list[Unit], work: Worker) -> Iterator[tuple[Unit, Outcome]]:
    for start in range(0, len(units), _AT_ONCE):
        some = units[start : start + _AT_ONCE]
        yield from zip(some, work(some), strict=True)
