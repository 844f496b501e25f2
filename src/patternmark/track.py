"""Along a record: which symbols speak for the mark. What pictures and pages are drawn from.

The paper's scheme shows in neighbours: a key that follows the one before, as the chain prefers.
A hardened key shows in symbols that agree with the schedule, along the path through it that
explains the record best. A path is chosen among many, so that even an unmarked record agrees with
its best more often than half: this, not a half, is the level of chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import NO_KEY, UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper
from patternmark.null.walk import phase_log_tail
from patternmark.recover import agreement, recover
from patternmark.statistics.base import padded
from patternmark.statistics.excerpts import excerpt_of
from patternmark.statistics.phases import PhaseStatistic

AGREES, DIFFERS = 0, 1
WINDOW = 31  # positions that pictures average over
_LEAST_COST = 8


@dataclass(frozen=True, eq=False)
class Track:
    """What to draw along a record of n positions."""

    kinds: NDArray[np.int64]  # [n] the paper's part, or AGREES or DIFFERS; NO_KEY: not scored
    agreement: NDArray[np.float64]  # [n] 1 or 0; nan where nothing can be said
    chance: float  # how often chance agrees
    name: str  # what agrees


class Tracker:
    """Finds the tracks of a key's records.

    >>> from patternmark import Detector, Profile
    >>> detector = Detector(Key.generate(Profile(scheme=Paper()), parts=["ACDEFGHIKL", "MNPQRSTVWY"]))
    >>> track = Tracker(detector.key).follow(detector.read([np.array([0, 10, 1, 20])])[0])
    >>> track.kinds.tolist(), track.agreement.tolist()
    ([0, 1, 0, -1], [nan, 1.0, 1.0, nan])
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._whole: PhaseStatistic | None = None  # for all records, where the alphabet is small

    def follow(self, reading: Reading) -> Track:
        """Return the track of one record."""
        if self._key.profile.is_hardened:
            excerpt, (numbered,) = excerpt_of(self._key, [reading])
            if excerpt is not None:
                return _along_schedule(numbered, PhaseStatistic(self._key, excerpt))
            self._whole = self._whole or PhaseStatistic(self._key)
            return _along_schedule(reading, self._whole)
        chain = self._key.profile.chain
        keys = recover([reading], self._key.partition)[0]
        chance = 1.0 / chain.num_keys
        return Track(keys, agreement(keys, chain), chance, "keys that follow the chain")


def _along_schedule(reading: Reading, phases: PhaseStatistic) -> Track:
    """Follow each chain along its best path; the chains of a record share a nonce."""
    agrees = np.full(len(reading.symbols), np.nan)
    nonce = int(np.argmax(phases.screen.best_in_part(padded(reading.parts)).sum(axis=0)))
    for chain in reading.chains:
        symbols = reading.symbols[chain]
        read = np.flatnonzero(symbols != UNREAD)
        if len(read):
            signs = phases.signs_along(symbols, nonce)[read]
            agrees[chain.start + read] = signs[np.arange(len(read)), best_path(signs)] > 0
    kinds = np.full(len(agrees), NO_KEY)
    kinds[agrees == 1.0] = AGREES
    kinds[agrees == 0.0] = DIFFERS
    chance = _usual_share(reading.parts, phases.num_phases)
    return Track(kinds, agrees, chance, "symbols that agree with their keys")


def best_path(signs: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the phase of every position along the best path: signs [n, P] -> [n].

    A slip to the next phase, up or down, costs what a fair walk of n steps gains by itself: less
    would let the path follow chance.
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


def _usual_share(chains: list[NDArray[np.int64]], phases: int) -> float:
    """Return the share that the best of so many phases agrees with by chance, half of the time."""
    agreed, total = 0, 0
    for chain in chains:
        scored = int(np.count_nonzero(chain != UNREAD))
        counts = np.arange(scored + 1)
        tails = phase_log_tail(counts, np.full(scored + 1, scored), phases)
        agreed += int(np.count_nonzero(tails >= log(0.5))) - 1  # the largest that often
        total += scored
    return agreed / total if total else 0.5
