"""An attacker who may query the detector and keeps the edits that help.

To strip a mark (`oracle_attack`): if the detector answers with numbers, edits are tried one by one,
and those that cost most evidence are made first. If it answers only yes or no, edits are made in
any order. More and more edits are made until the answer is no. The rest of the budget is used to
undo edits as long as the answer stays no.

To forge a mark (`oracle_forge`): single edits are made or taken back, and a change stays if the
evidence grows. As long as the answer says nothing (p is 1, or the verdict is no), other random sets
of edits are tried. With verdicts alone this is a lottery at the false positive rate.

Every sequence that the detector judges is one query.
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
from patternmark.core.blocks import PROTEIN_PAIRS
from patternmark.errors import ParameterError

__all__ = [
    "Answer",
    "OracleResult",
    "oracle_attack",
    "oracle_forge",
    "partner_edits",
    "protein_edits",
    "text_edits",
    "token_edits",
]

Sequence_ = TypeVar("Sequence_")
Answers = Literal["statistic", "p", "verdict"]
ANSWERS: tuple[Answers, ...] = ("statistic", "p", "verdict")
_QUERIES_AT_ONCE = 64  # sequences that are judged together
_TRIAL_SHARE = 0.6  # share of the budget that is used to try single edits
_VARIANT_SHARE = 0.25  # share of all edits in a random set of them


class Answer(NamedTuple):
    """The detector's answer for one sequence."""

    log10_p: float
    is_marked: bool
    statistic: float = 0.0

    def evidence(self, answers: Answers) -> float:
        """Return how much evidence for a mark someone sees who gets such answers."""
        if answers == "statistic":
            return self.statistic
        return -self.log10_p if answers == "p" else float(self.is_marked)

    def says_something(self, answers: Answers) -> bool:
        """Return whether it says more than that there is no evidence at all."""
        return answers == "statistic" or self.is_marked or self.evidence(answers) > 0.0


Ask = Callable[[list[Sequence_]], Sequence[Answer]]


@dataclass(frozen=True, eq=False)
class Edits(Generic[Sequence_]):
    """The edits that an attacker may make: they are numbered, and any set of them can be made."""

    number: int
    make: Callable[[NDArray[np.int64]], Sequence_]  # numbers of edits -> the edited sequence


@dataclass(frozen=True, eq=False)
class OracleResult(Generic[Sequence_]):
    """The result of an attack: the sequence, its cost, and the detector's answers."""

    sequence: Sequence_
    edits: int
    queries: int
    before: Answer
    after: Answer

    @property
    def fell(self) -> bool:
        """Whether the sequence was called marked before the attack, but not after it."""
        return self.before.is_marked and not self.after.is_marked

    @property
    def passed(self) -> bool:
        """Whether the sequence was not called marked before the attack, but is after it."""
        return self.after.is_marked and not self.before.is_marked


def protein_edits(ids: NDArray[np.int64], rng: np.random.Generator) -> Edits[NDArray[np.int64]]:
    """Allow each amino acid to be replaced by one other, drawn by BLOSUM62."""
    places = rng.permutation(np.flatnonzero(PROTEIN.is_scored(ids)))
    letters = draw(replacement_law()[ids[places]], rng)

    def make(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        edited = ids.copy()
        edited[places[numbers]] = letters[numbers]
        return edited

    return Edits(len(places), make)


def partner_edits(ids: NDArray[np.int64], rng: np.random.Generator) -> Edits[NDArray[np.int64]]:
    """Allow each amino acid to be replaced by the other one of its public pair.

    A block promotes one letter of each pair, so this turns the vote of the letter for certain.
    """
    partner = np.arange(PROTEIN.size)
    pairs = PROTEIN.encode("".join(PROTEIN_PAIRS)).reshape(-1, 2)
    partner[pairs] = pairs[:, ::-1]
    places = rng.permutation(np.flatnonzero(PROTEIN.is_scored(ids)))

    def make(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        edited = ids.copy()
        edited[places[numbers]] = partner[ids[places[numbers]]]
        return edited

    return Edits(len(places), make)


def token_edits(
    ids: NDArray[np.int64], others: NDArray[np.int64], times: int, rng: np.random.Generator
) -> Edits[NDArray[np.int64]]:
    """Allow each token to be replaced by any of `times` others, drawn from natural text.

    Of several edits of one place, the last one counts.
    """
    places = rng.permutation(len(ids))
    drawn = rng.choice(others, size=(times, len(ids)))

    def make(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        edited = ids.copy()
        for number in np.sort(numbers):
            edited[places[number % len(ids)]] = drawn[divmod(number, len(ids))]
        return edited

    return Edits(times * len(ids), make)


def text_edits(text: str, rng: np.random.Generator) -> Edits[str]:
    """Allow all words except one to be left out."""
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
    """Edit until the detector says no, with at most `queries` and a share `epsilon` of all edits.

    `ask` judges a batch; each of its sequences counts as one query.
    """
    check_epsilon(epsilon)
    _check(queries, answers)
    oracle = _Oracle(edits, ask, queries)
    nothing = np.zeros(0, dtype=np.int64)
    (before,) = oracle([nothing])
    most = int(epsilon * edits.number + 1e-9)
    kept, after = nothing, before
    if before.is_marked:
        is_blind = answers == "verdict"
        order = np.arange(edits.number) if is_blind else _order_by(answers, oracle, before)
        kept, after = _undo_edits(oracle, _make_edits(oracle, before, order[:most]))
    return OracleResult(edits.make(kept), len(kept), queries - oracle.left, before, after)


def oracle_forge(
    edits: Edits[Sequence_],
    ask: Ask[Sequence_],
    queries: int,
    rng: np.random.Generator,
    *,
    answers: Answers = "p",
) -> OracleResult[Sequence_]:
    """Edit until the detector says that the sequence is marked, with at most `queries`."""
    _check(queries, answers)
    oracle = _Oracle(edits, ask, queries)
    kept = np.zeros(0, dtype=np.int64)
    (before,) = oracle([kept])
    after = before
    while not after.says_something(answers) and oracle.left:
        kept = np.flatnonzero(rng.random(edits.number) < _VARIANT_SHARE)
        (after,) = oracle([kept])
    helped = True
    while helped and not after.is_marked and oracle.left:
        helped = False
        for number in rng.permutation(edits.number):
            if after.is_marked or not oracle.left:
                break
            changed = np.setxor1d(kept, [number])
            (answer,) = oracle([changed])
            if answer.evidence(answers) > after.evidence(answers):
                kept, after, helped = changed, answer, True
    return OracleResult(edits.make(kept), len(kept), queries - oracle.left, before, after)


def _check(queries: int, answers: str) -> None:
    if queries < 1:
        raise ParameterError(f"the oracle attack needs at least one query, not {queries}")
    if answers not in ANSWERS:
        known = "'statistic', 'p' or 'verdict'"
        raise ParameterError(f"answers must be {known}, not {answers!r}")


class _Oracle(Generic[Sequence_]):
    """The detector with a budget of queries."""

    def __init__(self, edits: Edits[Sequence_], ask: Ask[Sequence_], queries: int) -> None:
        self._edits, self._ask, self.left = edits, ask, queries

    @property
    def number(self) -> int:
        return self._edits.number

    def __call__(self, wanted: Sequence[NDArray[np.int64]]) -> list[Answer]:
        self.left -= len(wanted)
        return list(self._ask([self._edits.make(numbers) for numbers in wanted]))


Found = tuple[NDArray[np.int64], Answer]


def _order_by(answers: Answers, oracle: _Oracle[Sequence_], before: Answer) -> NDArray[np.int64]:
    """Try edits one at a time; put those that cost evidence first, the best before others.

    The effects of single edits on a statistic, or on the logarithm of a p-value, nearly add up.
    Edits that were not tried come next; edits that do not help are left out.
    """
    tried = min(oracle.number, int(_TRIAL_SHARE * oracle.left))
    gains: list[float] = []
    for start in range(0, tried, _QUERIES_AT_ONCE):
        stop = min(start + _QUERIES_AT_ONCE, tried)
        some = oracle([np.array([number]) for number in range(start, stop)])
        gains += [before.evidence(answers) - answer.evidence(answers) for answer in some]
    best = np.argsort(-np.array(gains), kind="stable")[: sum(gain > 0 for gain in gains)]
    return np.append(best, np.arange(tried, oracle.number))


def _make_edits(oracle: _Oracle[Sequence_], before: Answer, order: NDArray[np.int64]) -> Found:
    """Make more and more edits, in this order, until the sequence is not called marked.

    The steps are small: if keys alternate between two parts, too many edits would write a new mark
    in the other phase.
    """
    count, answer = 0, before
    while answer.is_marked and count < len(order) and oracle.left:
        count = min(max(count + count // 4, count + 1, len(order) // 16), len(order))
        (answer,) = oracle([order[:count]])
    return order[:count], answer


def _undo_edits(oracle: _Oracle[Sequence_], made: Found) -> Found:
    """Undo edits while the sequence is not called marked, the last first: half, then fewer."""
    kept, answer = made
    size = len(kept) // 2
    while not answer.is_marked and size and oracle.left:
        end = len(kept)
        while end > 0 and oracle.left:
            fewer = np.delete(kept, np.arange(max(end - size, 0), end))
            end -= size
            (without,) = oracle([fewer])
            if not without.is_marked:
                kept, answer = fewer, without
        size //= 2
    return kept, answer
