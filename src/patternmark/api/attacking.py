"""`attack`: change marked records to weaken their marks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from patternmark.api.given import (
    Given,
    GivenKey,
    Progress,
    Recorded,
    each_of,
    is_one,
    key_and_folder,
    no_progress,
    record_of,
    warn_in_python,
)
from patternmark.api.given import Sequence as OneSequence
from patternmark.api.on_structures import (
    GivenChains,
    fitted_of,
    path_if_any,
    plan_on,
    trusted_manifests,
)
from patternmark.core.alphabet import PROTEIN
from patternmark.designing.network import DEFAULT_WEIGHTS, load_network
from patternmark.errors import InputError, ParameterError, SequenceError
from patternmark.io.items import Warn
from patternmark.io.lines import refuse_own_input, writing
from patternmark.io.records import Record
from patternmark.results import Result, Results

if TYPE_CHECKING:
    from patternmark.attacks.attackers import Worker
    from patternmark.attacks.registry import Attack
    from patternmark.attacks.units import Outcome, Unit

KINDS = ("protein", "text")
WITH_BACKBONE = ("redesign", "rewrite")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class AttackedRecord(Result, Recorded):
    """A record before and after an attack: letters of a protein, or a text.

    `oracle` has the findings of the attack `oracle`.
    """

    id: str
    before: str
    after: str
    oracle: dict[str, Any] | None = None

    def as_record(self) -> Record:
        """Return the record that the file of attacked records holds."""
        return Record(self.id, self.after, f"record {self.id}")

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values for JSON."""
        return asdict(self)

    def cells(self) -> dict[str, str]:
        """Return the cells of a table row by the names of their columns."""
        marked = "" if self.oracle is None else str(self.oracle["marked_after"])
        return {
            "id": self.id,
            "characters": f"{len(self.before):,} -> {len(self.after):,}",
            "still marked": marked,
        }


class AttackedRecords(Results[AttackedRecord]):
    """Attacked records in the order of the records; `summary` says what the attack changed."""

    def __init__(self, found: Iterable[AttackedRecord], summary: dict[str, Any]) -> None:
        super().__init__(found)
        self.summary = summary


@dataclass(frozen=True)
class AttackRequest:
    """How records are attacked; the same names as the options of `patternmark attack`."""

    name: str
    epsilon: float | None = None
    kind: str | None = None
    key: GivenKey | None = None
    host: PathLike[str] | str | None = None
    wordnet: PathLike[str] | str | None = None
    backbone: PathLike[str] | str | None = None
    chains: GivenChains = None
    fixed: str = ""
    queries: int = 500
    answers: str = "p"
    temperature: float = 0.1
    model: str = DEFAULT_WEIGHTS
    weights: PathLike[str] | str | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        self._check_options(("splice",), {"host=FILE": self.host})
        self._check_options(("synonym",), {"wordnet=FOLDER": self.wordnet})
        self._check_options(WITH_BACKBONE, {"backbone=FILE": self.backbone})
        self._check_options(WITH_BACKBONE, {"chains=LIST": self.chains, "fixed=LIST": self.fixed})
        self._check_options(("oracle",), {"key=FILE": self.key})
        if self.kind not in (None, *KINDS):
            raise ParameterError(f"kind={self.kind!r} is not protein or text")
        if self.name == "oracle" and self.key is None:
            raise ParameterError("the oracle attack needs the key of the detector: give key=FILE")
        from patternmark.attacks.oracle import ANSWERS  # noqa: PLC0415  # as needed

        if self.answers not in ANSWERS:
            raise ParameterError(f"answers={self.answers!r} is not one of {', '.join(ANSWERS)}")
        if self.queries < 1:
            raise ParameterError(f"queries=N must be at least 1, not {self.queries}")
        if self.name in WITH_BACKBONE and self.backbone is None:
            raise ParameterError(f"{self.name} needs the structure of the designs: backbone=FILE")

    def _check_options(self, attacks: tuple[str, ...], options: Mapping[str, object]) -> None:
        """Refuse the options of other attacks."""
        for parameter, value in options.items():
            if value and self.name not in attacks:
                raise ParameterError(
                    f"{parameter} goes with {' or '.join(attacks)}, not with {self.name}"
                )


class Attacking:
    """Attacks records, and keeps their ids and the order of lines."""

    def __init__(
        self,
        records: Given,
        request: AttackRequest,
        *,
        output: Path | None = None,
        overwrite: bool = False,
        warn: Warn = warn_in_python,
        report: Warn = _log.info,
    ) -> None:
        from patternmark.attacks.attackers import Tally  # noqa: PLC0415  # as needed
        from patternmark.attacks.registry import check_epsilon, find_attack  # noqa: PLC0415

        self._request, self._warn, self._output = request, warn, output
        self._chosen = find_attack(request.name)
        if request.epsilon is None and request.name != "oracle":
            raise ParameterError(
                f"give epsilon=X: for {request.name}, it is the {self._chosen.epsilon}"
            )
        self.epsilon = 1.0 if request.epsilon is None else request.epsilon
        check_epsilon(self.epsilon)
        self._check_output(records, overwrite)
        self.tally = Tally()
        # Read all input now: an error must come before anything is written.
        self._work, units, self.of_text = self._prepare(records, report)
        self._units = list(units)
        if not self._units:
            raise InputError("no record can be attacked: see the warnings")

    def _check_output(self, records: Given, overwrite: bool) -> None:
        output = self._output
        if output is None:
            return
        if isinstance(records, PathLike):
            refuse_own_input(Path(records), output)
        if str(output) != "-" and output.exists() and not overwrite:
            raise InputError(
                f"{output}: already exists: use overwrite=True, or choose another output=FILE"
            )

    def _prepare(self, records: Given, report: Warn) -> tuple[Worker, Iterable[Unit], bool]:
        """Return the attacker, the records, and whether they are texts."""
        from patternmark.attacks.attackers import Editor, Oracle  # noqa: PLC0415

        request = self._request
        if request.key is not None:
            key, folder = key_and_folder(request.key)
            how: dict[str, Any] = {"queries": request.queries, "answers": request.answers}
            oracle = Oracle(key, folder, epsilon=self.epsilon, seed=request.seed, **how)
            return oracle, self._read(records, oracle.of_text), oracle.of_text
        if request.backbone is not None:
            worker, units = self._prepare_backbone(records, Path(request.backbone), report)
            return worker, units, False
        chosen = self._add_material(self._chosen)
        of_text = _is_text(chosen, request.kind, records)
        return Editor(chosen, self.epsilon, request.seed), self._read(records, of_text), of_text

    def _add_material(self, chosen: Attack) -> Attack:
        """Return the attack with its host sequences or its synonyms."""
        from patternmark.attacks.registry import splice_into  # noqa: PLC0415
        from patternmark.attacks.text import replace_by_synonyms  # noqa: PLC0415
        from patternmark.attacks.units import read_host  # noqa: PLC0415

        host, wordnet = self._request.host, self._request.wordnet
        if host is not None:
            chosen = splice_into(read_host(Path(host), self._warn))
        if wordnet is not None:
            chosen = replace(chosen, edit=partial(replace_by_synonyms, folder=Path(wordnet)))
        return chosen

    def _prepare_backbone(
        self, records: Given, structure: Path, report: Warn
    ) -> tuple[Worker, Iterator[Unit]]:
        from patternmark.attacks.attackers import OnBackbone  # noqa: PLC0415
        from patternmark.attacks.units import Unit, line_of  # noqa: PLC0415

        request = self._request
        weights = path_if_any(request.weights)
        network, _ = load_network(request.model, weights, request.device, report)
        from patternmark.designing.run import Designer, DesignOptions  # noqa: PLC0415

        plan = plan_on(structure, self._warn, chains=request.chains, fixed=request.fixed)
        options = DesignOptions(temperature=request.temperature, seed=request.seed)
        worker = OnBackbone(
            Designer(network, options), plan, request.name, self.epsilon, request.seed
        )
        manifests = trusted_manifests(but_for=bool(request.chains or request.fixed))
        fitting = fitted_of(records, structure, plan, self._warn, manifests=manifests)
        units = (Unit(one.record.id, one, line_of(one.record, one.file)) for one in fitting)
        return worker, units

    def _read(self, records: Given, of_text: bool) -> Iterator[Unit]:
        from patternmark.attacks.units import Unit, protein_units, text_units  # noqa: PLC0415

        units = text_units if of_text else protein_units
        for id, one in each_of(records):
            if isinstance(one, PathLike):
                yield from units(Path(one), self._warn)
                continue
            record = record_of(one, id)
            try:
                sequence = record.sequence if of_text else PROTEIN.encode(record.sequence)
            except SequenceError as error:
                raise SequenceError(f"sequence {record.id!r}: {error}") from None
            if of_text and not isinstance(sequence, str):
                raise ParameterError(f"sequence {record.id!r} is not a text: give a str")
            yield Unit(record.id, sequence)

    def run(self, progress: Progress = no_progress) -> Iterator[tuple[Unit, Outcome]]:
        """Yield attacked records as they are written; `tally` counts them."""
        from patternmark.attacks.attackers import attacked  # noqa: PLC0415

        pairs = attacked(self._units, self._work)
        first = next(pairs)  # an attack that fails at once leaves no file behind
        with self._writing() as write:
            for done, (unit, outcome) in enumerate(chain([first], pairs), start=1):
                write(unit, outcome)
                if len(outcome.before):
                    self.tally.add(outcome)
                progress("attacking", done, len(self._units))
                yield unit, outcome

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        from patternmark.attacks.units import letters_of  # noqa: PLC0415

        if self._output is None:
            yield lambda unit, outcome: None
            return
        of_lines = self.of_text and not any(unit.line for unit in self._units)
        line = 0
        with writing(self._output, append=False) as stream:

            def write(unit: Unit, outcome: Outcome) -> None:
                nonlocal line
                letters = letters_of(outcome.after)
                number = line + 1 if of_lines else unit.line
                if number is None:
                    stream.write(f">{unit.id}\n{letters}\n".encode())
                else:
                    missing = number - 1 - line  # lines that were empty or bad
                    stream.write(b"\n" * missing + f"{letters}\n".encode())
                    line = number
                stream.flush()

            yield write

    @property
    def facts(self) -> dict[str, Any]:
        """The attack and its settings, for the output."""
        return {
            "attack": self._request.name,
            "kind": KINDS[self.of_text],
            "epsilon": self.epsilon,
            "seed": self._request.seed,
        }


def _is_text(chosen: Attack, kind: str | None, records: Given) -> bool:
    """Return whether the records are texts, as the attack, `kind` or the file says."""
    from patternmark.attacks.units import looks_like_fasta  # noqa: PLC0415

    if chosen.kind != "both":
        if kind not in (None, chosen.kind):
            raise ParameterError(f"{chosen.name} is an attack on {chosen.kind}, not on {kind}")
        return chosen.kind == "text"
    if kind is not None:
        return kind == "text"
    if isinstance(records, PathLike) and str(records) != "-":
        return not looks_like_fasta(Path(records))
    what = "standard input" if isinstance(records, PathLike) else "sequences"
    raise ParameterError(f"{what}: give kind='protein' or kind='text' for {chosen.name}")


class AttackOptions(TypedDict, total=False):
    """The options of `attack`, which explains them."""

    kind: str | None
    key: GivenKey | None
    host: PathLike[str] | str | None
    wordnet: PathLike[str] | str | None
    backbone: PathLike[str] | str | None
    chains: GivenChains
    fixed: str
    queries: int
    answers: str
    temperature: float
    model: str
    weights: PathLike[str] | str | None
    seed: int
    device: str


class AttackIO(AttackOptions, total=False):
    """The options of `attack` with those for output, warnings and progress."""

    output: PathLike[str] | str | None
    overwrite: bool
    warn: Warn
    progress: Progress


@overload
def attack(  # type: ignore[overload-overlap]  # a str is many letters, and yet one sequence
    records: OneSequence, name: str, epsilon: float | None = None, **options: Unpack[AttackIO]
) -> AttackedRecord: ...
@overload
def attack(
    records: Given, name: str, epsilon: float | None = None, **options: Unpack[AttackIO]
) -> AttackedRecords: ...
def attack(
    records: Given, name: str, epsilon: float | None = None, **options: Unpack[AttackIO]
) -> AttackedRecord | AttackedRecords:
    """Attack records, to test how much of a mark is left.

    `name` is one of `patternmark.attacks.ATTACKS`, `epsilon` its strength from 0 to 1. Options:

    - `kind`: protein or text; needed if the attack works on both and no file shows which;
    - `output`: write the attacked records to this file; `overwrite=True` replaces it;
    - `key`, `queries`, `answers`: for `oracle`: the attacked detector, how many questions it
      answers for each record, and whether with a statistic, a p-value ("p") or a verdict;
    - `host`: for `splice`, a file of natural sequences; `wordnet`: for `synonym`, its folder;
    - `backbone`, `chains`, `fixed`, `temperature`, `model`, `weights`, `device`: for `redesign`
      and `rewrite`, as for `design`;
    - `seed`: the same seed gives the same result (0).
    """
    from patternmark.attacks.units import letters_of  # noqa: PLC0415  # as needed

    given: dict[str, Any] = dict(options)
    names = AttackOptions.__annotations__
    job = Attacking(
        records,
        AttackRequest(name, epsilon, **{one: given[one] for one in names if one in given}),
        output=path_if_any(options.get("output")),
        overwrite=options.get("overwrite", False),
        warn=options.get("warn", warn_in_python),
    )
    found = [
        AttackedRecord(
            unit.id, letters_of(outcome.before), letters_of(outcome.after), outcome.facts
        )
        for unit, outcome in job.run(options.get("progress", no_progress))
    ]
    if is_one(records):
        return found[0]
    return AttackedRecords(found, job.facts | job.tally.summary())
