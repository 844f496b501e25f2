"""Which lists are promoted at a position, by what is known around it.

All schemes add strength to the symbols of keyed lists; they differ in the lists and in the rule
that picks them. A rule knows no key, so that sequences of many keys are ruled together. Its lists
are numbered: that of token t as the left neighbour is t, that of the empty token V, and that of
token t as the right neighbour V + 1 + t. NO_LIST promotes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from patternmark.errors import ParameterError
from patternmark.models.canvas import Canvas, library_of

NO_LIST = -1
GAP = 2  # places between two chains on a canvas: no rule looks further


class Picked(NamedTuple):
    """The lists of M positions: [M, C] numbers, and what share of the strength each adds."""

    lists: Any
    weights: Any = None  # [M, C]; None: all of it


class Rule(Protocol):
    """Picks lists. `likely` is how many tokens of open neighbours it asks the model for."""

    @property
    def likely(self) -> int: ...

    def __call__(self, canvas: Canvas, symbols: int) -> Picked:
        """Return the lists of all wanted positions, of an alphabet of so many symbols."""


def right_list(token: Any, symbols: int) -> Any:
    """Return the number of the list of a right neighbour."""
    return token + symbols + 1


@dataclass(frozen=True)
class Everywhere:
    """One list for all positions."""

    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Picked:
        return Picked(library_of(canvas.rows).zeros_like(canvas.rows)[:, None])


@dataclass(frozen=True)
class AfterToken:
    """The list of the token before, or of the empty token where that is not decoded yet."""

    by_step: bool = False  # before in time, not in place
    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Picked:
        if not self.by_step:
            token = canvas.neighbour(-1)
        elif canvas.previous is None:
            raise ParameterError(
                "soft-by-step follows a decoder that settles one token a step: Mask-Predict "
                "settles many; take soft"
            )
        else:
            token = canvas.previous[canvas.rows]
        return Picked(library_of(token).where(token < 0, symbols, token)[:, None])


@dataclass(frozen=True)
class EitherSide:
    """The list of the token at a lag to the left, or else to the right, or else none."""

    lag: int
    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Picked:
        left, right = canvas.neighbour(-self.lag), canvas.neighbour(self.lag)
        library = library_of(left)
        token = library.where(left >= 0, left, right)
        return Picked(library.where(token >= 0, token, NO_LIST)[:, None])


@dataclass(frozen=True)
class BothSides:
    """The lists of both neighbours, as far as they are known."""

    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Picked:
        left, right = canvas.neighbour(-1), canvas.neighbour(1)
        library = library_of(left)
        left = library.where(left >= 0, left, NO_LIST)
        right = library.where(right >= 0, right_list(right, symbols), NO_LIST)
        return Picked(library.stack([left, right], 1))


@dataclass(frozen=True)
class ShiftedSides(BothSides):
    """The same, but probability is moved to their symbols instead of strength added."""

    shifts: bool = True


@dataclass(frozen=True)
class LikelySides:
    """The lists of both neighbours; of one that is open, its likeliest tokens stand in.

    `weighted` has each count by its probability, as an expectation; else it is the one likeliest.
    """

    likely: int
    weighted: bool

    def __call__(self, canvas: Canvas, symbols: int) -> Picked:
        (left, of_left), (right, of_right) = (
            canvas.likely_neighbour(offset, self.likely) for offset in (-1, 1)
        )
        library = library_of(left)
        tokens = library.concatenate([left, right_list(right, symbols)], 1)
        p = library.concatenate([of_left, of_right], 1)
        lists = library.where(p > 0, tokens, NO_LIST)
        return Picked(lists, p if self.weighted else None)
