"""An attacker who may ask the detector: edits kept where its answer says that they help.

Given p-values, single edits are tried a few at a time, and those that raise the p-value are kept
together. Given yes or no alone, edits are added in ever larger steps until the answer is no. What
is left of the budget serves to take edits back as far as the answer stays so. Every sequence shown
to the detector is one query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from patternmark.alphabet import PROTEIN
from patternmark.attacks.blosum import replacement_law
from patternmark.attacks.forge import draw
from patternmark.attacks.registry import check_epsilon
from patternmark.errors import ParameterError

Sequence_ = TypeVar("Sequence_")
Answers = Literal["p", "verdict"]
_AT_ONCE = 8  # single edits that are tried before the good ones are kept


class Answer(NamedTuple):
    """What a detector says of a sequence."""

    log10_p: float
    is_marked: bool


Ask = Callable[[list[Sequence_]], Sequence[Answer]]


@dataclass(frozen=True, eq=False)
class Edits(Generic[Sequence_]):
    """The single edits an attacker may make: each has a number, and any set of them can be made."""

    number: int
    make: Callable[[NDArray[np.int64]], Sequence_]  # numbers of edits -> the edited sequence


@dataclass(frozen=True, eq=False)
class OracleResult(Generic[Sequence_]):
    """Where the attack ended: the sequence, what it cost, and what the detector says of it."""

    sequence: Sequence_
    edits: int
    queries: int
    before: Answer
    after: Answer

    @property
    def fell(self) -> bool:
        """Whether a verdict that was "marked" is so no more."""
        return self.before.is_marked and not self.after.is_marked


def protein_edits(ids: NDArray[np.int64], rng: np.random.Generator) -> Edits[NDArray[np.int64]]:
    """Allow each amino acid to be replaced by one that BLOSUM62 says is likely."""
    places = rng.permutation(np.flatnonzero(PROTEIN.is_scored(ids)))
    letters = draw(replacement_law()[ids[places]], rng)

    def make(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        edited = ids.copy()
        edited[places[numbers]] = letters[numbers]
        return edited

    return Edits(len(places), make)


def text_edits(text: str, rng: np.random.Generator) -> Edits[str]:
    """Allow each word but one to be left out."""
    words = np.array(text.split(), dtype=object)
    places = rng.permutation(len(words))

    def make(numbers: NDArray[np.int64]) -> str:
        return " ".join(np.delete(words, places[numbers]))

    return Edits(max(len(words) - 1, 0), make)


def oracle_attack(
    edits: Edits[Sequence_],
    ask: Ask[Sequence_],
    queries: int,
    *,
    answers: Answers = "p",
    epsilon: float = 1.0,
) -> OracleResult[Sequence_]:
    """Edit until the verdict falls, with so many queries and a share `epsilon` of all edits.

    `ask` judges a batch, of which each sequence counts as a query.
    """
    check_epsilon(epsilon)
    if queries < 1:
        raise ParameterError(f"an attacker who asks needs at least one query, not {queries}")
    if answers not in ("p", "verdict"):
        raise ParameterError(f"a detector answers 'p' or 'verdict', not {answers!r}")
    asked = _Asked(edits, ask, queries)
    nothing = np.zeros(0, dtype=np.int64)
    (before,) = asked([nothing])
    most = int(epsilon * edits.number + 1e-9)
    kept, after = nothing, before
    if before.is_marked:
        search = _by_p_value if answers == "p" else _by_verdict
        kept, after = search(asked, before, most)
    return OracleResult(edits.make(kept), len(kept), queries - asked.left, before, after)


class _Asked(Generic[Sequence_]):
    """The detector, as long as the budget lasts."""

    def __init__(self, edits: Edits[Sequence_], ask: Ask[Sequence_], queries: int) -> None:
        self._edits, self._ask, self.left = edits, ask, queries

    @property
    def number(self) -> int:
        return self._edits.number

    def __call__(self, wanted: Sequence[NDArray[np.int64]]) -> list[Answer]:
        self.left -= len(wanted)
        return list(self._ask([self._edits.make(numbers) for numbers in wanted]))


Found = tuple[NDArray[np.int64], Answer]


def _by_p_value(asked: _Asked[Sequence_], before: Answer, most: int) -> Found:
    """Keep every edit that raises the p-value, until the verdict falls."""
    kept, best = np.zeros(0, dtype=np.int64), before
    untried = 0
    # One query is held back for the edits that are kept together.
    while best.is_marked and len(kept) < most and untried < asked.number and asked.left >= 2:
        some = min(_AT_ONCE, asked.number - untried, asked.left - 1)
        tried = np.arange(untried, untried + some)
        untried += some
        found = asked([np.append(kept, number) for number in tried])
        gain = np.array([answer.log10_p - best.log10_p for answer in found])
        helpful = tried[np.argsort(-gain, kind="stable")][: np.count_nonzero(gain > 0)]
        if not len(helpful):
            continue
        together = np.append(kept, helpful[: most - len(kept)])
        if len(together) == len(kept) + 1:  # this very one was asked for
            kept, best = together, found[int(gain.argmax())]
            continue
        (answer,) = asked([together])
        if answer.log10_p > best.log10_p:
            kept, best = together, answer
    return _taken_back(asked, kept, best)


def _by_verdict(asked: _Asked[Sequence_], before: Answer, most: int) -> Found:
    """Add edits until the verdict falls."""
    count, answer = 0, before
    while answer.is_marked and count < most and asked.left:
        count = min(max(2 * count, most // 16, 1), most)
        (answer,) = asked([np.arange(count)])
    return _taken_back(asked, np.arange(count), answer)


def _taken_back(asked: _Asked[Sequence_], kept: NDArray[np.int64], answer: Answer) -> Found:
    """Undo as many edits as a fallen verdict allows: half of them at a time, then fewer."""
    size = len(kept) // 2
    while not answer.is_marked and size and asked.left:
        at = 0
        while at < len(kept) and asked.left:
            fewer = np.delete(kept, np.arange(at, min(at + size, len(kept))))
            (without,) = asked([fewer])
            if without.is_marked:
                at += size
            else:
                kept, answer = fewer, without
        size //= 2
    return kept, answer
