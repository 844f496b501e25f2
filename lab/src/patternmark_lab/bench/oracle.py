"""`patternmark bench oracle`: how many questions to a detector strip or forge a mark.

The attacker knows everything but the secret and asks a detector about sequences of its choice. The
detector answers with its statistic, with the p-value, or with the verdict alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.oracle import (
    ANSWERS,
    Answer,
    Answers,
    Edits,
    oracle_attack,
    oracle_forge,
    partner_edits,
    token_edits,
)
from patternmark.core.alphabet import PROTEIN
from patternmark.core.key import Key
from patternmark.core.profile import Profile
from patternmark.core.schemes import Blocks, Turns
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import InputError
from patternmark.evidence import DEFAULT_FPR
from patternmark.intervals import mean_interval
from patternmark.io.kept import Kept
from patternmark.plan.simulate import marked_sequences, plain_sequences, rates_at
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.secrecy_rates import rate

LENGTH = 300  # residues
DELTA = 1.0  # of block keys
TEXT_DELTA = 3.0
TEXT_LENGTH = 75  # tokens of a natural text that the attacker wants to be called marked
CHEAP = 0.1  # share of the symbols that an attacker changes without much harm
_SKIP = 1200  # paragraphs, as in `bench text-secrecy`: defaults were chosen on earlier ones
_ALTERNATIVES = 8  # tokens that may replace each token of a forgery
_SPARE = 2  # marked sequences for each one that is attacked: those that are found are used
_COUNTS = (10, 25, 50, 100, 200, 400, 1000, 2000)  # questions; those up to the largest are shown

Symbols = NDArray[np.int64]
MakeEdits = Callable[[Symbols, np.random.Generator], Edits[Symbols]]


@dataclass(frozen=True)
class Size:
    """How much is measured of one scheme."""

    keys: int = 10
    sequences: int = 6  # of each key, marked ones and unmarked ones
    strip: tuple[int, ...] = (10, 25, 50, 100, 200, 400, 1000)  # questions, an attack for each
    forge: int = 2000  # questions at most, in one attack


SIZE, TEXT_SIZE = Size(), Size(keys=4, sequences=3, strip=(25, 100), forge=400)


@dataclass(frozen=True, eq=False)
class Target:
    """A key that is attacked: sequences with its mark, and what the attacker has of its own."""

    detector: Detector
    marked: Sequence[Symbols]
    own: Sequence[Symbols]
    strip_edits: MakeEdits
    forge_edits: MakeEdits

    def ask(self, sequences: list[Symbols]) -> list[Answer]:
        """Answer as the detector does."""
        verdicts = self.detector.detect_many(sequences)
        return [Answer(v.log10_p, v.prediction, v.statistic) for v in verdicts]


def run_oracle_benchmark(
    paragraphs: Path | None = None,
    natural: Path | None = None,
    *,
    size: Size = SIZE,
    text_size: Size = TEXT_SIZE,
    seed: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Attack block keys, and text keys if there are paragraphs; `step` hears of every key."""
    measured = [_measured(Blocks.name, partial(block_target, seed), size, seed, step)]
    if paragraphs is not None and natural is not None:
        target = text_targets(paragraphs, natural, text_size, seed)
        measured.append(_measured(Turns.name, target, text_size, seed, step))
    return {
        "benchmark": "oracle",
        **environment(),
        "seed": seed,
        "fpr": DEFAULT_FPR,
        "length": LENGTH,
        "delta": DELTA,
        "text_delta": TEXT_DELTA,
        "text_length": TEXT_LENGTH,
        "cheap": CHEAP,
        "schemes": measured,
    }


def block_target(seed: int, number: int, size: Size) -> Target:
    """Return a fresh block key with marked and natural sequences."""
    key = Key.of(_secret(seed, Blocks.name, number), Profile(delta=DELTA))
    rng = np.random.default_rng([seed, number, 0])
    rates = rates_at(DELTA, PROTEIN, Blocks.name)
    uniforms = rng.random((_SPARE * size.sequences, LENGTH))
    marked = marked_sequences(key, rates, uniforms, f"{seed}/{number}")  # of several nonces
    own = plain_sequences(PROTEIN, size.sequences, LENGTH, rng)
    detector = Detector(key)
    found = _found(detector, list(marked), size.sequences)
    return Target(detector, found, list(own), partner_edits, partner_edits)


def text_targets(
    paragraphs: Path, natural: Path, size: Size, seed: int
) -> Callable[[int, Size], Target]:
    """Return what makes fresh text keys with translations that they marked, and natural text."""
    from patternmark_lab.bench.text_secrecy_texts import open_texts  # noqa: PLC0415  # needs torch

    texts = open_texts(
        paragraphs,
        natural,
        skip=_SKIP,
        delta=TEXT_DELTA,
        seed=seed,
        kept=Kept(None),
        step=lambda what: None,
    )
    tokens = np.concatenate(texts.natural)
    if len(tokens) < size.keys * size.sequences * TEXT_LENGTH:
        raise InputError(f"{natural}: there are too few sentences in it")

    def target(number: int, size: Size) -> Target:
        first = number * size.sequences
        own = [
            tokens[index * TEXT_LENGTH : (index + 1) * TEXT_LENGTH]
            for index in range(first, first + size.sequences)
        ]
        detector = Detector(texts.key(Turns.name, number))
        marked = texts.marked(Turns.name, number, _SPARE * size.sequences)
        return Target(
            detector,
            _found(detector, marked, size.sequences),
            own,
            lambda ids, rng: token_edits(ids, tokens, 1, rng),
            lambda ids, rng: token_edits(ids, tokens, _ALTERNATIVES, rng),
        )

    return target


def _found(detector: Detector, marked: Sequence[Symbols], number: int) -> list[Symbols]:
    """Return the first sequences that the detector finds."""
    verdicts = detector.detect_many(marked)
    found = [ids for ids, v in zip(marked, verdicts, strict=True) if v.prediction]
    if len(found) < number:
        raise InputError(f"the detector finds only {len(found)} marked sequences, not {number}")
    return found[:number]


def _secret(seed: int, scheme: str, number: int) -> Secret:
    master = Secret(seed.to_bytes(32, "big"))
    return Secret(master.subkey(f"bench oracle/{scheme}/{number}"))


@dataclass(frozen=True)
class _Attacked:
    """One attack: whether it succeeded, after how many questions, and what share was changed."""

    succeeded: bool
    questions: int
    changed: float


ByKey = dict[int, list[_Attacked]]


def _measured(
    scheme: str,
    target_of: Callable[[int, Size], Target],
    size: Size,
    seed: int,
    step: Callable[[str], None],
) -> dict[str, Any]:
    stripped: dict[tuple[Answers, int], ByKey] = {}
    forged: dict[Answers, ByKey] = {}
    blind: ByKey = {}
    for number in range(size.keys):
        target = target_of(number, size)
        rng = np.random.default_rng([seed, number, 1])
        blind[number] = [_edited_blindly(target, ids, rng) for ids in target.marked]
        for answers in ANSWERS:
            for questions in size.strip:
                of_budget = stripped.setdefault((answers, questions), {})
                of_budget[number] = [
                    _stripped(target, ids, answers, questions, rng) for ids in target.marked
                ]
            forged.setdefault(answers, {})[number] = [
                _forged(target, ids, answers, size.forge, rng) for ids in target.own
            ]
        step(f"{scheme}, key {number + 1}")
    return {
        "scheme": scheme,
        "keys": size.keys,
        "sequences": size.sequences,
        "blind": _rate(blind, lambda one: one.succeeded),
        "strip": [
            {"answers": answers, "questions": questions, **_strip_cell(found)}
            for (answers, questions), found in stripped.items()
        ],
        "forge": [
            {"answers": answers, "questions": questions, **_forge_cell(found, questions)}
            for answers, found in forged.items()
            for questions in _up_to(size.forge)
        ],
    }


def _up_to(most: int) -> list[int]:
    return [count for count in _COUNTS if count <= most]


def _share_changed(before: Symbols, after: Symbols) -> float:
    return float(np.mean(before != after))


def _edited_blindly(target: Target, ids: Symbols, rng: np.random.Generator) -> _Attacked:
    """Make a tenth of all edits without any question."""
    edits = target.strip_edits(ids, rng)
    edited = edits.make(np.arange(int(CHEAP * len(ids))))
    before, after = target.ask([ids, edited])
    return _Attacked(before.is_marked and not after.is_marked, 0, _share_changed(ids, edited))


def _stripped(
    target: Target, ids: Symbols, answers: Answers, questions: int, rng: np.random.Generator
) -> _Attacked:
    found = oracle_attack(target.strip_edits(ids, rng), target.ask, questions, answers=answers)
    return _Attacked(found.fell, found.queries, _share_changed(ids, found.sequence))


def _forged(
    target: Target, ids: Symbols, answers: Answers, questions: int, rng: np.random.Generator
) -> _Attacked:
    edits = target.forge_edits(ids, rng)
    found = oracle_forge(edits, target.ask, questions, rng, answers=answers)
    return _Attacked(found.passed, found.queries, _share_changed(ids, found.sequence))


def _rate(found: ByKey, succeeded: Callable[[_Attacked], bool]) -> dict[str, Any]:
    return rate([(sum(map(succeeded, runs)), len(runs)) for runs in found.values()])


def _strip_cell(found: ByKey) -> dict[str, Any]:
    return {
        "fell": _rate(found, lambda one: one.succeeded),
        "cheaply": _rate(found, lambda one: one.succeeded and one.changed <= CHEAP),
        "changed": _mean_changed(found, lambda one: one.succeeded),
    }


def _forge_cell(found: ByKey, questions: int) -> dict[str, Any]:
    def in_time(one: _Attacked) -> bool:
        return one.succeeded and one.questions <= questions

    return {"passed": _rate(found, in_time), "changed": _mean_changed(found, in_time)}


def _mean_changed(found: ByKey, counts: Callable[[_Attacked], bool]) -> dict[str, Any] | None:
    """Return the mean share of changed symbols in successful attacks, if there are two or more."""
    shares = [one.changed for runs in found.values() for one in runs if counts(one)]
    return mean_interval(shares) if len(shares) > 1 else None
