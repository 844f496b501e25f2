"""An attacker who may ask the detector: edits kept where its answer says that they help.

Given p-values, edits are tried one by one, and those that raise the p-value most are made first;
given yes or no alone, they are made in any order: ever more, until the answer is no. What is left
of the budget serves to take edits back as far as the answer stays so. Every sequence shown to the
detector is one query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from patternmark.attacks.forge import draw
from patternmark.attacks.registry import check_epsilon
from patternmark.attacks.substitutions import replacement_law
from patternmark.core.alphabet import PROTEIN
from patternmark.errors import ParameterError

Sequence_ = TypeVar("Sequence_")
Answers = Literal["p", "verdict"]
_AT_ONCE = 64  # sequences that are judged together
_TRYING = 0.6  # of the budget: for single edits


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
        by_p = answers == "p"
        order = _by_p_value(asked, before) if by_p else np.arange(edits.number)
        kept, after = _taken_back(asked, _made(asked, before, order[:most]))
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


def _by_p_value(asked: _Asked[Sequence_], before: Answer) -> NDArray[np.int64]:
    """Try edits one at a time; put those that raise the p-value first, the best before others.

    What single edits do to the logarithm of a p-value nearly adds up. Those that were not tried
    come next; those that do not help come never.
    """
    tried = min(asked.number, int(_TRYING * asked.left))
    gains: list[float] = []
    for start in range(0, tried, _AT_ONCE):
        some = asked([np.array([number]) for number in range(start, min(start + _AT_ONCE, tried))])
        gains += [answer.log10_p - before.log10_p for answer in some]
    best = np.argsort(-np.array(gains), kind="stable")[: sum(gain > 0 for gain in gains)]
    return np.append(best, np.arange(tried, asked.number))


def _made(asked: _Asked[Sequence_], before: Answer, order: NDArray[np.int64]) -> Found:
    """Make edits in an order, ever more of them, until the verdict falls.

    In small steps: where every second key is the other part, too many edits write the mark anew
    in the other phase.
    """
    count, answer = 0, before
    while answer.is_marked and count < len(order) and asked.left:
        count = min(max(count + count // 4, count + 1, len(order) // 16), len(order))
        (answer,) = asked([order[:count]])
    return order[:count], answer


def _taken_back(asked: _Asked[Sequence_], made: Found) -> Found:
    """Undo as many edits as a fallen verdict allows, the last first: half of them, then fewer."""
    kept, answer = made
    size = len(kept) // 2
    while not answer.is_marked and size and asked.left:
        end = len(kept)
        while end > 0 and asked.left:
            fewer = np.delete(kept, np.arange(max(end - size, 0), end))
            end -= size
            (without,) = asked([fewer])
            if not without.is_marked:
                kept, answer = fewer, without
        size //= 2
    return kept, answer
