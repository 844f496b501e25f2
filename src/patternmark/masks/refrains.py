"""Texts that repeat themselves: lists, tables, refrains, one sentence over and over.

The p-value for natural text was counted on natural English, where a word that returns does so at
even and odd places alike, and in other company each time. Where it is not so, the ratio E meets the
same secret coins too often, and chance reaches large values more often. How far, the tokens alone
tell; a key is never looked at. Three numbers do, and act on ln p of natural text:

**In company.** A factor of E is 1 + e c s: e the strength of a mark, c the secret coin of a token
in its block (1 or -1), s the parity of its place along a path. In the mean over coins only products
of an even number of factors of each token are left. Up to the fourth order the mean of E is

    1 + e^2 sum of <s_i s_j> + e^4 sum of <s_i s_j s_a s_b>

over pairs of places i, j (and a, b) that hold one token. Along a path that slips, the parities of
two places that are d apart agree by (-r)^d in the mean, where r = 1 - 2 slips. So places far from
each other count for little in the second order. In the fourth do tokens that return *together*,
however far from their first place, such as the parts of a name, a bullet and its line break, or a
phrase: a path may slip between, and meets all their coins as it did before. That sum, per token,
tells how often natural and other texts alike pass by chance, at any length. ln p is raised by its
root, and beyond a limit that nearly all natural texts keep, the text repeats itself: the bound for
any text decides.

**At places of one parity**, the second order: so words return in texts that another key marked.
For that, too, ln p is raised.

**Few tokens, and copies.** Where too many places hold the same tokens, more than four places matter
at a time. Where long phrases return after a whole round of the schedule, they meet their coins as
near ones do. Such texts repeat themselves, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import UNREAD
from patternmark.core.reading import Reading

# Of all pairs of places, those that hold the same token; a short text has few to count.
_SAME, _SAME_IN_SHORT = 0.020, 0.7
# A mark that agrees in 82 % of places, and a path that slips at one place in ten (likelihood).
_STRENGTH, _STEADY = 0.64, 0.8
_REACH = 256  # of places where a coin lasts: how far apart they may be
_COMPANY = 4  # how near neighbours are
_MARGIN = 2 * _COMPANY  # by how much the lags of neighbours differ at most
# Of all places, those in the midst of a phrase of so many tokens that stood before.
_PHRASE, _COPIED = 8, 0.1
# By how much ln p rises, from what natural text has to the most that it has. Fitted to 15,000 texts
# of natural English and of 70 ways to repeat oneself, judged by 40 keys.
_RISE_IN_COMPANY, _USUAL_COMPANY, _MOST_COMPANY = 17.0, 0.09, 0.20
# By how much ln p rises with each standard deviation of the surplus beyond the first half: fitted
# to 2,189 translations that other keys marked, judged by 25 keys.
_RISE, _USUAL = 0.45, 0.5
_SPREAD = 4.0  # so that a few returning words are no surplus
_AT_ONCE = 2**14  # pairs whose company is looked up together

# Of a pair's neighbours: how far after its later place one stands, how far before (-) or after its
# earlier place the other does, and what they weigh.
_AFTER = np.repeat(np.arange(1, _COMPANY + 1), 2 * _COMPANY)
_AROUND = np.tile(np.delete(np.arange(-_COMPANY, _COMPANY + 1), _COMPANY), _COMPANY)
_WEIGHT = (-_STEADY) ** (_AFTER + np.abs(_AROUND))


class Refrains(NamedTuple):
    """How a text repeats itself: four numbers."""

    same: float  # the share of all pairs of places that hold the same token, over the most usual
    copied: float  # the share of all phrases of eight tokens that stood before
    company: float  # the root of the sum for tokens that return together, per token
    parity: float  # standard deviations by which words return at places of one parity

    @classmethod
    def of(cls, reading: Reading, block: int | None = None) -> Refrains:
        """Count them; each `block` has coins of its own, or a token's one coin lasts.

        >>> prose = np.arange(60)
        >>> Refrains.of(Reading(prose, (slice(0, 60),)))
        Refrains(same=0.0, copied=0.0, company=0.0, parity=0.0)
        >>> verse = Refrains.of(Reading(prose % 30, (slice(0, 60),)))  # the same 30 tokens twice
        >>> round(verse.company, 2), verse.repeats_itself
        (0.34, True)
        """
        parts = reading.parts
        read = np.concatenate([np.zeros(0, dtype=np.int64), *(p[p != UNREAD] for p in parts)])
        if len(read) < 2:
            return cls(0.0, 0.0, 0.0, 0.0)
        same = _coincidences(read) / (_SAME + _SAME_IN_SHORT / len(read))
        returning = 0.0
        if same <= 1.0:  # otherwise there is no need to know, and much to count
            returning = sum(_returning_together(part, block) for part in parts)
        company = float(np.sqrt(max(returning, 0.0) / len(read)))
        copied = sum(_copied_phrases(part) for part in parts) / len(read)
        return cls(same, copied, company, _surplus(parts))

    @property
    def repeats_itself(self) -> bool:
        """Whether a text repeats itself more than natural texts do."""
        return self.same > 1.0 or self.copied > _COPIED or self.company > _MOST_COMPANY

    @property
    def log_rise(self) -> float:
        """What to add to ln p of natural text; 0 for most."""
        company = _RISE_IN_COMPANY * max(self.company - _USUAL_COMPANY, 0.0)
        return company + _RISE * max(self.parity - _USUAL, 0.0)


def _coincidences(symbols: NDArray[np.int64]) -> float:
    """Return the share of all pairs of places that hold the same symbol."""
    counts = np.unique(symbols, return_counts=True)[1]
    return float((counts * (counts - 1)).sum() / (len(symbols) * (len(symbols) - 1)))


def _copied_phrases(part: NDArray[np.int64]) -> int:
    """Return how many phrases of eight tokens, all of them read, stood before in a part.

    >>> _copied_phrases(np.array([*range(10), 50, *range(10)]))
    3
    """
    if len(part) <= _PHRASE:
        return 0
    names = part - UNREAD  # of longer and longer phrases: 1, 2, 4, 8 tokens; 0 where one is unread
    size = 1
    while size < _PHRASE:
        one, other = names[:-size], names[size:]
        both = np.where((one > 0) & (other > 0), one * (names.max() + 1) + other, 0)
        names = np.unique(both, return_inverse=True)[1] + (0 if (both == 0).any() else 1)
        size *= 2
    read = names[names > 0]
    return len(read) - len(np.unique(read))


def _returning_together(part: NDArray[np.int64], block: int | None) -> float:
    """Return the terms of fourth order in the mean of E over keys."""
    table = _table_of_pairs(part, block or _REACH)
    found = np.flatnonzero(table)
    lag = found % table.shape[1] - _MARGIN
    # Of the places where a block may begin, those that are not between: both meet one coin.
    share = 1.0 - lag / block if block else np.ones(len(lag))
    fourth = 0.0
    for at in range(0, len(found), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        fourth += float(share[some] @ _company(table, found[some], lag[some]))
    return _STRENGTH**4 * fourth


def _table_of_pairs(part: NDArray[np.int64], reach: int) -> NDArray[np.bool_]:
    """Tell for each place which of those before it hold its token: [n + COMPANY, lags].

    Beyond the end, and beyond the lags from 1 to below `reach`, nothing is said.
    """
    nothing = UNREAD - 1  # is like no token, nor like one that is not read
    before = np.full(len(part) + reach - 1, nothing)
    before[reach - 1 :] = np.where(part == UNREAD, nothing, part)
    windows = np.lib.stride_tricks.sliding_window_view(before, reach)[:, -2::-1]
    table = np.zeros((len(part) + _COMPANY, reach + 2 * _MARGIN), dtype=bool)
    np.equal(windows, part[:, None], out=table[: len(part), 1 + _MARGIN : -_MARGIN])
    return table


def _company(
    table: NDArray[np.bool_], found: NDArray[np.int64], lag: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the weight of pairs of one token that stand near the places of each pair: [pairs].

    One stands after the later place; the other on either side of the earlier one, but not on the
    later one. Pairs are named by their places in the table.
    """
    step = _AFTER * table.shape[1] + _AFTER - _AROUND
    together = table.ravel()[found[:, None] + step] & (lag[:, None] != _AROUND)
    return np.asarray(together @ _WEIGHT)


def _surplus(parts: list[NDArray[np.int64]]) -> float:
    """Return by how much more often words return at places of one parity.

    Of the pairs of places that hold one token, those of equal parity are counted for and the others
    against; the surplus is measured in what it varies by in natural text.

    >>> _surplus([np.arange(60)])
    0.0
    >>> round(_surplus([np.where(np.arange(60) % 2, np.arange(60), np.arange(60) % 20)]), 2)
    5.14
    """
    surplus, pairs = 0.0, 0.0
    for part in parts:
        read = part != UNREAD
        _, kind, count = np.unique(part[read], return_inverse=True, return_counts=True)
        signs = 1.0 - 2.0 * (np.flatnonzero(read) % 2)
        sums = np.bincount(kind, weights=signs, minlength=len(count))
        surplus += float((sums**2 - count).sum() / 2.0)
        pairs += float((count * (count - 1)).sum() / 2.0)
    return surplus / float(np.sqrt(pairs + _SPREAD))
