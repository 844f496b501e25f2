"""Rules that pick the lists promoted at a position from the tokens known around it.

All schemes raise the symbols of keyed lists; they differ in the lists and in the rule that picks
them. A rule does not use the key, so that one call serves sequences of many keys. It returns
numbers of lists: t for token t as the left neighbour, V for the empty token, and V + 1 + t for
token t as the right neighbour. NO_LIST promotes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from patternmark.errors import ParameterError
from patternmark.models.canvas import Canvas, library_of

NO_LIST = -1
GAP = 2  # places between two chains on a canvas: no rule looks further away


class Selection(NamedTuple):
    """The lists of M positions, as numbers [M, C], and the share of the strength of each list."""

    lists: Any
    weights: Any = None  # [M, C]; None: each list has the whole strength


class Rule(Protocol):
    """Picks lists. `likely` is the number of likely tokens that it needs of an open neighbour."""

    @property
    def likely(self) -> int: ...

    def __call__(self, canvas: Canvas, symbols: int) -> Selection:
        """Return the lists of all wanted positions; the alphabet has `symbols` symbols."""


def right_list(token: Any, symbols: int) -> Any:
    """Return the list number of a token as the right neighbour."""
    return token + symbols + 1


@dataclass(frozen=True)
class Everywhere:
    """One list for all positions."""

    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Selection:
        return Selection(library_of(canvas.rows).zeros_like(canvas.rows)[:, None])


@dataclass(frozen=True)
class AfterToken:
    """The list of the token before, or of the empty token if that is not decoded yet."""

    by_step: bool = False  # True: the token decoded before; False: the left neighbour
    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Selection:
        if not self.by_step:
            token = canvas.neighbour(-1)
        elif canvas.previous is None:
            raise ParameterError(
                "soft-by-step needs a decoder that settles one token in each step, but "
                "Mask-Predict settles many: use soft"
            )
        else:
            token = canvas.previous[canvas.rows]
        return Selection(library_of(token).where(token < 0, symbols, token)[:, None])


@dataclass(frozen=True)
class EitherSide:
    """The list of the token `lag` places to the left; if unknown, to the right; else no list."""

    lag: int
    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Selection:
        left, right = canvas.neighbour(-self.lag), canvas.neighbour(self.lag)
        library = library_of(left)
        token = library.where(left >= 0, left, right)
        return Selection(library.where(token >= 0, token, NO_LIST)[:, None])


@dataclass(frozen=True)
class BothSides:
    """The lists of those neighbours that are known."""

    likely: int = 0

    def __call__(self, canvas: Canvas, symbols: int) -> Selection:
        left, right = canvas.neighbour(-1), canvas.neighbour(1)
        library = library_of(left)
        left = library.where(left >= 0, left, NO_LIST)
        right = library.where(right >= 0, right_list(right, symbols), NO_LIST)
        return Selection(library.stack([left, right], 1))


@dataclass(frozen=True)
class ShiftedSides(BothSides):
    """The lists of known neighbours, for marks that move probability instead of adding a bias."""

    shifts: bool = True


@dataclass(frozen=True)
class LikelySides:
    """The lists of both neighbours; the likeliest tokens stand in for an open neighbour.

    `weighted`: each list counts with its token's probability. Otherwise it counts fully.
    """

    likely: int
    weighted: bool

    def __call__(self, canvas: Canvas, symbols: int) -> Selection:
        (left, of_left), (right, of_right) = (
            canvas.likely_neighbour(offset, self.likely) for offset in (-1, 1)
        )
        library = library_of(left)
        tokens = library.concatenate([left, right_list(right, symbols)], 1)
        p = library.concatenate([of_left, of_right], 1)
        lists = library.where(p > 0, tokens, NO_LIST)
        return Selection(lists, p if self.weighted else None)
