"""The bias of a batch whose sequences may have different keys, strengths and schemes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patternmark.arrays import is_tensor, to_device_of
from patternmark.core.alphabet import NO_KEY
from patternmark.errors import ParameterError
from patternmark.models.canvas import Canvas, library_of
from patternmark_lab.schemes.rules import NO_LIST, Rule, Selection
from patternmark_lab.schemes.shift import log_factors

if TYPE_CHECKING:
    from patternmark_lab.schemes.base import Scheme


class Stack:
    """The lists of several schemes with one rule, in one table on the device of the logits."""

    def __init__(self, schemes: Sequence[Scheme], like: Any = None) -> None:
        if len({(scheme.rule, scheme.alphabet) for scheme in schemes}) != 1:
            raise ParameterError("all schemes of a stack must have the same rule and alphabet")
        if not schemes[0].by_bias:
            raise ParameterError(
                f"{schemes[0].name} has no bias: it marks by choosing among candidates"
            )
        self.rule: Rule | None = schemes[0].rule
        self.symbols = schemes[0].alphabet.size
        self._schemes = schemes
        # Without a rule, `marks` makes a table of only those lists that occur.
        tables = [] if self.rule is None else [scheme.table() for scheme in schemes]
        # Weighted sums need floats; otherwise a byte is enough and saves memory.
        kind = np.float32 if getattr(self.rule, "weighted", False) else np.uint8
        self.table = to_device_of(_join_tables(tables, self.symbols, kind), like)
        sizes = [len(table) for table in tables] or [0] * len(schemes)
        self.first = to_device_of(np.cumsum([0, *sizes])[:-1], like)
        self.strength = self._strength(schemes)
        self.shifts = getattr(self.rule, "shifts", False)
        self.scored = to_device_of(schemes[0].alphabet.is_scored(np.arange(self.symbols)), like)

    def _strength(self, schemes: Sequence[Scheme]) -> Any:
        strength = np.array([scheme.strength for scheme in schemes], dtype=np.float32)
        return to_device_of(strength, self.table)

    def at_strength_of(self, schemes: Sequence[Scheme]) -> Stack:
        """Return these lists at the strengths of schemes that differ in delta alone."""
        other = copy(self)  # both share the lists, which may take 512 MB
        other.strength = self._strength(schemes)
        return other

    @property
    def likely(self) -> int:
        """How many likely tokens of each open neighbour the rule needs."""
        return 0 if self.rule is None else self.rule.likely

    def marks(self, which: Sequence[int], keys: NDArray[np.int64] | None = None) -> Marks:
        """Return the marks of N sequences, given the scheme number and keys [N, L] of each."""
        numbers = np.asarray(which, dtype=np.int64)
        which = to_device_of(numbers, self.table)
        table, rows = self.table, None
        if self.rule is None:
            if keys is None:
                raise ParameterError(
                    "this scheme promotes by position key: pass the keys of all positions"
                )
            table, rows = (
                to_device_of(array, self.table) for array in self._key_table(numbers, keys)
            )
        return Marks(self, table, self.first[which], self.strength[which], rows)

    def _key_table(
        self, which: NDArray[np.int64], keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return a table of the keys that occur, and the row in it of each position: [N, L]."""
        tables: list[NDArray[np.bool_]] = []
        rows = np.full(keys.shape, NO_LIST, dtype=np.int64)
        for number in np.unique(which).tolist():
            own = which == number
            used, place = np.unique(keys[own], return_inverse=True)
            unkeyed = np.count_nonzero(used == NO_KEY)
            begin = sum(map(len, tables)) - unkeyed
            place = place.reshape(keys[own].shape)
            rows[own] = np.where(place < unkeyed, NO_LIST, begin + place)
            tables.append(self._schemes[number].promoted(used[unkeyed:]))
        return _join_tables(tables, self.symbols, np.uint8), rows


@dataclass(frozen=True, eq=False)
class Marks:
    """The marks of N sequences, which give the bias at any step."""

    stack: Stack
    table: Any  # [lists, V]; the last list promotes nothing
    first: Any  # [N] the table row where the lists of each sequence begin
    strength: Any  # [N]
    rows: Any = None  # [N, L] the list of each position, if neighbours do not decide it

    @property
    def likely(self) -> int:
        """How many likely tokens of each open neighbour a canvas must offer."""
        return self.stack.likely

    def bias(self, canvas: Canvas) -> Any:
        """Return the bias for the raw logits of the wanted positions: [M, V]."""
        rule = self.stack.rule
        if rule is None:
            picked = Selection(self.rows[canvas.rows, canvas.places][:, None])
        else:
            picked = rule(canvas, self.stack.symbols)
        first = self.first[canvas.rows][:, None]
        nothing = len(self.table) - 1
        where = library_of(first).where
        lists = where(picked.lists == NO_LIST, nothing, picked.lists + first)
        if self.stack.shifts:
            return self._shifted(canvas, lists)
        add_lists = _add_weighted if picked.weights is not None else _add_lists
        total = add_lists(self.table, lists, picked.weights)
        return total * self.strength[canvas.rows][:, None]

    def _shifted(self, canvas: Canvas, lists: Any) -> Any:
        """Return the bias that moves probability to each list in turn."""
        if canvas.logits is None:
            raise ParameterError(
                "this scheme needs the model's probabilities before it marks, and this decoder "
                "does not offer them: it can mark only text that is decoded with Mask-Predict"
            )
        law = canvas.logits / canvas.temperature
        strength, total = self.strength[canvas.rows], library_of(law).zeros_like(law)
        for column in range(lists.shape[1]):
            promoted = self.table[lists[:, column]] > 0
            total = total + log_factors(law + total, promoted, self.stack.scored, strength)
        return total * canvas.temperature


def _join_tables(
    tables: Sequence[NDArray[np.bool_]], symbols: int, kind: type[np.generic]
) -> NDArray[Any]:
    """Return the lists of all tables, then a list that promotes nothing: [lists + 1, V]."""
    nothing = np.zeros((1, symbols), dtype=bool)
    return np.concatenate([*tables, nothing], dtype=kind, casting="unsafe")


def _add_lists(table: Any, lists: Any, _: None) -> Any:
    """Count the lists that hold each symbol: [R, V], [M, C] -> [M, V]."""
    total = table[lists[:, 0]]
    for column in range(1, lists.shape[1]):
        total = total + table[lists[:, column]]
    return total


def _add_weighted(table: Any, lists: Any, weights: Any) -> Any:
    """Add up the weights of the lists that hold each symbol: -> [M, V]."""
    if is_tensor(table):
        bag = library_of(table).nn.functional.embedding_bag
        return bag(lists, table, per_sample_weights=weights.to(table.dtype), mode="sum")
    total = np.zeros((len(lists), table.shape[1]), dtype=table.dtype)
    for column in range(lists.shape[1]):
        total += weights[:, column, None].astype(table.dtype) * table[lists[:, column]]
    return total
