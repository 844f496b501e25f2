"""Find which symbols of a record support the mark, as the data of pictures and pages.

In the paper's scheme these are neighbours whose keys follow each other as the chain prefers. In
other schemes these are symbols that agree with their keys along the best path through the
schedule. The best path is chosen among many, so even an unmarked record agrees with it at more than
half of its positions. This higher share is shown as the level of chance. For block marks it is
measured: the same letters are searched with fresh coins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY, UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.null.walk import phase_log_tail
from patternmark.statistics.block_best import STRETCHES, best_stretch
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.excerpts import excerpt_of
from patternmark.statistics.phases import PhaseStatistic
from patternmark.statistics.recover import agreement, recover

AGREES, DIFFERS = 0, 1
WINDOW = 31  # positions that pictures average over
_LEAST_COST = 8  # of a slip, in agreeing symbols
_DRAWS = 5  # draws of fresh coins; their median is the level of chance


@dataclass(frozen=True, eq=False)
class Track:
    """The data to draw along a record of n positions."""

    kinds: NDArray[np.int64]  # [n] the paper's part, or AGREES or DIFFERS; NO_KEY: not scored
    agreement: NDArray[np.float64]  # [n] 1 or 0; nan if unknown
    chance: float  # the share that agrees by chance
    name: str  # what agrees
    shows_symbols: bool  # whether a picture may show each symbol; otherwise only windows


class Tracker:
    """Finds the tracks of records under a key.

    >>> from patternmark import Detector, Profile
    >>> parts = ["ACDEFGHIKL", "MNPQRSTVWY"]
    >>> detector = Detector(Key.generate(Profile(scheme=Paper()), parts))
    >>> track = Tracker(detector.key).follow(detector.read([np.array([0, 10, 1, 20])])[0])
    >>> track.kinds.tolist(), track.agreement.tolist()
    ([0, 1, 0, -1], [nan, 1.0, 1.0, nan])
    """

    def __init__(self, key: Key) -> None:
        self._follow = _FOLLOWERS[key.profile.scheme.name](key)

    def follow(self, reading: Reading) -> Track:
        """Return the track of one record."""
        return self._follow(reading)


def _in_parts(key: Key) -> Follower:
    """Return a function that follows the chain of the parts of symbols."""
    scheme = cast(Paper, key.profile.scheme)

    def follow(reading: Reading) -> Track:
        keys = recover([reading], key.partition)[0]
        agrees = agreement(keys, scheme.chain)
        return Track(keys, agrees, scheme.chance, "keys that follow the chain", shows_symbols=True)

    return follow


def _in_turns(key: Key) -> Follower:
    """Return a function that follows the circle of a schedule."""
    whole: list[PhaseStatistic] = []  # one for all records, if the alphabet is small

    def follow(reading: Reading) -> Track:
        excerpt, (numbered,) = excerpt_of(key, [reading])
        if excerpt is not None:
            return _along_schedule(numbered, PhaseStatistic(key, excerpt))
        if not whole:
            whole.append(PhaseStatistic(key))
        return _along_schedule(reading, whole[0])

    return follow


def _in_blocks(key: Key) -> Follower:
    """Return a function that follows the blocks of the likeliest nonce."""
    statistic = BlockStatistic.of(key)
    block, nonces = _sizes(key)

    def follow(reading: Reading) -> Track:
        agrees = _along_blocks(reading, statistic, block)
        fresh = [BlockStatistic(_FreshCoins(block, nonces, draw)) for draw in range(_DRAWS)]
        shares = [_mean(_along_blocks(reading, coins, block)) for coins in fresh]
        return _agreement_track(agrees, float(np.median(shares)))

    return follow


def _sizes(key: Key) -> tuple[int, int]:
    scheme = cast(Blocks, key.profile.scheme)
    return scheme.block, scheme.nonces


class _FreshCoins:
    """Random coins without a key, which show the level of chance; the same in every picture."""

    def __init__(self, block: int, nonces: int, draw: int) -> None:
        self.block, self.nonces, self._draw = block, nonces, draw

    def words(self, chain: int, blocks: int) -> NDArray[np.uint16]:
        """Return the coins of the first blocks of a chain, the same for any number of blocks."""
        rng = np.random.default_rng([self._draw, chain])
        return rng.integers(0, 2**16, size=(blocks, self.nonces), dtype=np.uint16)


def _along_blocks(reading: Reading, statistic: BlockStatistic, block: int) -> NDArray[np.float64]:
    """Return 1 where a symbol agrees with its block, and 0 where it does not: [n].

    Outside the stretch that looks marked, the blocks continue without slips. If no stretch looks
    marked, a chain is followed from its first block.
    """
    agrees = np.full(len(reading.symbols), np.nan)
    nonce = int(np.argmax(statistic.log_ratios(reading)))
    for number, chain in statistic.pieces(reading):
        halves = statistic.halves(number, chain.length, STRETCHES)[nonce]
        stretch = best_stretch(chain, halves, block)
        lies_on = np.arange(chain.length) // block
        if stretch.log_ratio > 0.0:
            lies_on = stretch.continued(block)
        rows = reading.chains[number]
        seen = np.flatnonzero((reading.symbols[rows] != UNREAD) & (lies_on != NO_KEY))
        seen = seen[lies_on[seen] < len(halves)]
        agrees[rows.start + seen] = halves[lies_on[seen], chain.letters[seen]] > 0
    return agrees


def _mean(agrees: NDArray[np.float64]) -> float:
    known = agrees[~np.isnan(agrees)]
    return float(known.mean()) if known.size else 0.5


def _agreement_track(agrees: NDArray[np.float64], chance: float) -> Track:
    kinds = np.full(len(agrees), NO_KEY)
    kinds[agrees == 1.0] = AGREES
    kinds[agrees == 0.0] = DIFFERS
    name = "symbols that agree with their keys"
    return Track(kinds, agrees, chance, name, shows_symbols=False)


def _along_schedule(reading: Reading, phases: PhaseStatistic) -> Track:
    """Follow each chain along its best path; the chains of a record share a nonce."""
    agrees = np.full(len(reading.symbols), np.nan)
    nonce = phases.likeliest_nonce(reading)
    for chain in reading.chains:
        symbols = reading.symbols[chain]
        read = np.flatnonzero(symbols != UNREAD)
        if len(read):
            signs = phases.signs_along(symbols, nonce)[read]
            agrees[chain.start + read] = signs[np.arange(len(read)), best_path(signs)] > 0
    return _agreement_track(agrees, _median_share(reading.parts, phases.num_phases))


def best_path(signs: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the phase of every position along the best path: signs [n, P] -> [n].

    A slip to the next phase, up or down, costs sqrt(n), which is about what a path gains by chance
    in n steps. With a smaller cost the path would follow chance.
    """
    length, period = signs.shape
    cost = max(_LEAST_COST, ceil(sqrt(length)))
    score = np.zeros(period, dtype=np.int64)
    came_from = np.zeros((length, period), dtype=np.int8)  # the phase before, relative to this
    for position, row in enumerate(signs):
        below, above = np.roll(score, 1), np.roll(score, -1)
        slipped = np.maximum(below, above) - cost
        came_from[position] = np.where(slipped > score, np.where(below >= above, -1, 1), 0)
        score = np.maximum(score, slipped) + row
    path = np.empty(length, dtype=np.int64)
    phase = int(np.argmax(score))
    for position in range(length - 1, -1, -1):
        path[position] = phase
        phase = (phase + int(came_from[position, phase])) % period
    return path


def _median_share(chains: list[NDArray[np.int64]], phases: int) -> float:
    """Return the median of the share that agrees by chance in the best of some phases."""
    agreed, total = 0, 0
    for chain in chains:
        scored = int(np.count_nonzero(chain != UNREAD))
        counts = np.arange(scored + 1)
        tails = phase_log_tail(counts, np.full(scored + 1, scored), phases)
        agreed += int(np.count_nonzero(tails >= log(0.5))) - 1  # the median
        total += scored
    return agreed / total if total else 0.5


Follower = Callable[[Reading], Track]
_FOLLOWERS: dict[str, Callable[[Key], Follower]] = {
    Paper.name: _in_parts,
    Turns.name: _in_turns,
    Blocks.name: _in_blocks,
}
