"""The verdicts of `bench paper`: each key judges its marked, attacked and unmarked sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.edits import cut_window
from patternmark.attacks.registry import Attack, find_attack
from patternmark.errors import PatternmarkError
from patternmark.io.kept import Kept
from patternmark_lab.bench.jobs import run_all
from patternmark_lab.bench.paper.material import Material
from patternmark_lab.bench.paper.plan import (
    ABLATION_DELTA,
    ATTACKS,
    LENGTHS,
    PAPER_ATTACK,
    PATTERN_LENGTHS,
    PUBLISHED,
    Cell,
    Size,
    judges,
)
from patternmark_lab.schemes import Scheme

NULLS = ("unmarked", "natural")
_OTHER_EPSILONS = (0.1, 0.3)
_DIGITS = 4
_PROBE = "The house is large, and the people who live there are happy."


@dataclass(frozen=True)
class Label:
    """A set of judged sequences: a cell or unmarked ones; intact, attacked or cut, or another m."""

    what: str  # the name of a cell, or one of NULLS
    how: str = ""  # an attack, "length" or "m"
    value: float = 0.0

    def __str__(self) -> str:
        return f"{self.what}|{self.how}|{self.value:g}" if self.how else self.what

    @classmethod
    def of(cls, text: str) -> Label:
        """Parse the text of a label."""
        what, *rest = text.split("|")
        return cls(what, rest[0], float(rest[1])) if rest else cls(what)


@dataclass(frozen=True)
class Verdicts:
    """Scores and log10 p of one detector: an array for each key."""

    score: dict[Label, list[NDArray[np.float64]]]
    log10_p: dict[Label, list[NDArray[np.float64]]]


@dataclass(frozen=True)
class _Job:
    judge: str  # name of the detector
    marks: str  # scheme whose marks it looks for
    key: int

    @property
    def name(self) -> str:
        return f"{self.judge}/{self.key}"


def judge_all(
    material: Material,
    size: Size,
    seed: int,
    kept: Kept,
    workers: int,
    step: Callable[[str], None],
) -> dict[str, Verdicts]:
    """Return the verdicts of every detector; `step` is called for each key of a detector."""
    jobs = [
        _Job(judge, scheme, key)
        for judge, scheme in judges(material.task, [cell.scheme for cell in material.marked])
        for key in range(size.judging_keys(material.task))
    ]
    work = _Judge(material, size, seed)
    # Verdicts that lack an attack are made again once the attack's package is installed.
    missing = missing_attacks(material.task)
    prefix = f"{material.task}/{size}/seed {seed}/" + "".join(f"no {name}/" for name in missing)
    waiting = [job for job in jobs if kept.get(prefix + job.name) is None]
    for _ in range(len(jobs) - len(waiting)):
        step(f"{material.task}: judged")
    for job, found in run_all(work, waiting, workers):
        kept.add({"job": prefix + job.name, "found": found})
        step(f"{material.task}: {job.judge} judged")
    return {
        judge: _gather([kept.get(prefix + job.name) for job in jobs if job.judge == judge])
        for judge in dict.fromkeys(job.judge for job in jobs)
    }


@cache
def missing_attacks(task: str) -> tuple[str, ...]:
    """Return the attacks of a task whose packages are not installed.

    They are tried on a text that they must change. Otherwise an attack that changes nothing would
    seem to work, and only the texts that it does not change would be measured.
    """
    if task == "protein":
        return ()
    missing = []
    for name in (PAPER_ATTACK[task], *ATTACKS[task]):
        try:
            find_attack(name).attack_all([_PROBE], 1.0, 0)
        except PatternmarkError:
            missing.append(name)
    return tuple(missing)


def _marking(material: Material) -> int:
    return max(len(by_key) for by_key in material.marked.values())


def _gather(rows: Sequence[dict[str, Any] | None]) -> Verdicts:
    score: dict[Label, list[NDArray[np.float64]]] = {}
    log10_p: dict[Label, list[NDArray[np.float64]]] = {}
    for row in rows:
        assert row is not None  # noqa: S101  # all jobs are done
        for text, (scores, ps) in row["found"].items():
            score.setdefault(Label.of(text), []).append(np.array(scores))
            log10_p.setdefault(Label.of(text), []).append(np.array(ps))
    return Verdicts(score, log10_p)


@dataclass(frozen=True, eq=False)
class _Judge:
    """Judges all sequences of one detector and key; each process gets one of these."""

    material: Material
    size: Size
    seed: int

    @cached_property
    def _reader(self) -> Callable[[Sequence[str]], list[Any]]:
        return self.material.reader()

    @cached_property
    def _alphabet(self) -> Any:
        return self.material.alphabet()

    def __call__(self, job: _Job) -> tuple[_Job, dict[str, Any]]:
        found = {}
        schemes: dict[str, Scheme] = {}
        for label, cell, sequences in self._parts(job):
            scheme = self._scheme(job, label, cell, schemes)
            judged = scheme.judge(sequences)
            pair = [np.round(x, _DIGITS).tolist() for x in (judged.score, judged.log10_p)]
            found[str(label)] = pair
        return job, found

    def _scheme(self, job: _Job, label: Label, cell: Cell, before: dict[str, Scheme]) -> Scheme:
        """Return the detector of a cell; it shares the lists of the other strengths."""
        judge = replace(cell, scheme=job.judge)
        kind = replace(judge, delta=0.0).name
        if kind not in before:
            before[kind] = judge.of_key(job.key, self.seed, self._alphabet)
        scheme = before[kind]
        if scheme.delta != cell.delta:
            scheme = scheme.with_delta(cell.delta)
        if label.how == "m":
            return replace(scheme, pattern_length=int(label.value))  # type: ignore[call-arg]
        return scheme

    def _parts(self, job: _Job) -> Iterator[tuple[Label, Cell, list[Any]]]:
        """Yield the sequences to judge, read as a verifier reads them."""
        material, read = self.material, self._reader
        own = [cell for cell in material.marked if cell.scheme == job.marks]
        plain = [cell for cell in own if not cell.stay]
        strongest = max(plain, key=lambda cell: cell.delta)
        for name, sequences in zip(NULLS, (material.unmarked, material.natural), strict=True):
            yield Label(name), strongest, read(sequences)
        if job.key >= len(material.marked[strongest]):
            return
        for cell in own:
            if not cell.stay or job.judge == PUBLISHED:
                yield Label(cell.name), cell, read(material.marked[cell][job.key])
        yield from self._attacks(job, plain)
        for cell in (strongest, self._middle(plain)):
            yield from self._cut(job, cell)
        if job.judge == PUBLISHED:
            middle = self._middle(plain)
            sequences = read(material.marked[middle][job.key])
            for m in PATTERN_LENGTHS:
                yield Label(middle.name, "m", m), middle, sequences

    def _middle(self, plain: Sequence[Cell]) -> Cell:
        wanted = ABLATION_DELTA[self.material.task]
        return min(plain, key=lambda cell: abs(cell.delta - wanted))

    def _attacks(self, job: _Job, plain: Sequence[Cell]) -> Iterator[tuple[Label, Cell, list[Any]]]:
        """Yield attacks on the largest strength; the paper's own at all of them."""
        material, read = self.material, self._reader
        strongest = max(plain, key=lambda cell: cell.delta)
        for (name, epsilon), made in material.attacked.items():
            if job.key < len(made.get(strongest, ())):
                yield (
                    Label(strongest.name, name, epsilon),
                    strongest,
                    read(made[strongest][job.key]),
                )
        papers, task = PAPER_ATTACK[material.task], material.task
        of_paper = plain if job.judge == PUBLISHED else [strongest]
        parts = [(papers, cell, self.size.epsilons) for cell in of_paper]
        parts += [(name, strongest, _OTHER_EPSILONS) for name in ATTACKS[task]]
        for name, cell, epsilons in parts:
            if name in missing_attacks(task):
                continue
            attack, texts = find_attack(name), material.marked[cell][job.key]
            for epsilon in epsilons:
                yield Label(cell.name, name, epsilon), cell, self._edit(attack, texts, epsilon)

    def _edit(self, attack: Attack, texts: Sequence[str], epsilon: float) -> list[Any]:
        """Attack the form that an attacker has: the letters of a protein, or a text."""
        if self.material.task == "protein":
            return attack.attack_all(self._reader(texts), epsilon, self.seed)
        some = texts
        if attack.name == PAPER_ATTACK["translation"]:
            some = texts[: -(-self.size.round_trips // _marking(self.material))]
        return self._reader(attack.attack_all(list(some), epsilon, self.seed))

    def _cut(self, job: _Job, cell: Cell) -> Iterator[tuple[Label, Cell, list[Any]]]:
        """Yield windows of several lengths, cut from anywhere."""
        whole = self._reader(self.material.marked[cell][job.key])
        for length in LENGTHS[self.material.task]:
            rng = np.random.default_rng([self.seed, job.key, length])
            windows = [cut_window(np.asarray(ids), length, rng) for ids in whole]
            yield Label(cell.name, "length", length), cell, windows
