"""Where in a sequence marked stretches lie: the best one, then the best of what is left.

Each search tests whether what is left of a record is marked, and takes the best stretch:

- keys that repeat in a circle: the stretch of the detector `local`. If two marked stretches
  outweigh the letters between them, that stretch spans all three, so it is cut at valleys and the
  best piece is taken. A piece has the p-value of its own score, as if it were the best of the whole
  record;
- block keys: the p-value is that of `auto` for what is left, so that the first search finds what
  `detect` calls marked. The stretch is the likeliest path of the likeliest nonce
  (`statistics.block_best`).

A stretch that was found is masked, in all frames, and the rest is searched again, until a search
finds nothing at the FPR. The p-value of search number i is multiplied by i, and by six if DNA was
read in six frames. A wrong stretch is reported only if a search of unmarked residues succeeds, and
the first search that fails is the last: the chance of a wrong stretch is at most the FPR, however
many true stretches were found before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from patternmark.core.alphabet import SEPARATOR, UNREAD
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.detector import Detector
from patternmark.errors import SequenceError
from patternmark.evidence import DEFAULT_FPR, bonferroni, is_below
from patternmark.io.dna import Frame, first_bad_nucleotide, frames_of
from patternmark.null.local import LocalRules
from patternmark.results import LN10, p_value_of
from patternmark.signature import joined, scored_part
from patternmark.statistics import Measurement
from patternmark.statistics.block_best import STRETCHES, best_stretch
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.excerpts import excerpt_of
from patternmark.statistics.phases import LocalStatistic

VALLEY = 24  # a stretch is cut where its score falls by this much: some 100 unmarked residues
_MAX_SEARCHES = 1000  # of one record


@dataclass(frozen=True)
class Segment:
    """A marked stretch: `start` to `end` of its chain, from 0, half-open; nucleotides for DNA."""

    start: int
    end: int
    chain: int  # its number, from 0
    frame: int | None  # of DNA: 1, 2, 3, -1, -2, -3
    statistic: float
    log_p: float
    search: int  # the number of the search that found it, from 1

    def to_dict(self) -> dict[str, Any]:
        """Return its fields for JSON."""
        return {
            "start": self.start,
            "end": self.end,
            "chain": self.chain,
            "frame": self.frame,
            "statistic": self.statistic,
            "p_value": p_value_of(self.log_p),
            "log10_p": self.log_p / LN10,
            "search": self.search,
        }


@dataclass(frozen=True)
class Located:
    """The marked stretches of a record, strongest first, and ln p of the first search."""

    segments: tuple[Segment, ...]
    log_p: float
    num_tokens_scored: int
    signature: str


class FoundStretch(NamedTuple):
    """The result of one search: a place in a chain, its score, and ln p before any correction."""

    chain: int
    start: int
    end: int
    score: float
    log_p: float


class Search(Protocol):
    """One way to search records; it depends on the scheme."""

    def measure(self, remaining: Sequence[Reading]) -> list[Measurement]:
        """Measure what is left of each reading."""

    def find(
        self, reading: Reading, measured: Measurement, is_significant: Callable[[float], bool]
    ) -> FoundStretch | None:
        """Return the best stretch of a reading, if any; `is_significant` takes its ln p."""


class Locator:
    """Finds the marked stretches of sequences by one key."""

    def __init__(self, key: Key, *, fpr: float = DEFAULT_FPR) -> None:
        self._detector, self._prepare = _SEARCHES[key.profile.scheme.name](key, fpr)
        self.key, self.fpr = key, self._detector.fpr
        self.signature = self._detector.signature

    def in_protein(
        self, symbols: NDArray[np.int64], scored: NDArray[np.bool_] | None = None
    ) -> Located:
        """Find the stretches of an encoded sequence, chain by chain."""
        readings = self._detector.read([symbols], [scored])
        return self._search(readings, None, scored_part([symbols], [scored]))

    def in_dna(self, sequence: str) -> Located:
        """Find the stretches in the six frames of DNA or RNA; / or : separates chains."""
        bad = first_bad_nucleotide(sequence)
        if bad is not None:
            raise SequenceError(
                f"character {sequence[bad]!r} at position {bad + 1} is not a nucleotide"
            )
        chains = sequence.replace(":", "/").split("/")
        frames = list(zip(*(frames_of(chain) for chain in chains), strict=True))  # [6][chains]
        encode = self.key.profile.alphabet.encode
        texts = ["/".join(frame.protein for frame in frame_set) for frame_set in frames]
        readings = self._detector.read([encode(text) for text in texts])
        return self._search(readings, frames, "frames:6")

    def _search(
        self, readings: Sequence[Reading], frames: Sequence[Sequence[Frame]] | None, what: str
    ) -> Located:
        """Search until nothing is found; `readings` are the frames, or the protein alone.

        `what` names what is searched, for the signature.
        """
        search, numbered = self._prepare(readings)
        remaining = [Reading(r.symbols.copy(), r.chains) for r in numbered]
        segments: list[Segment] = []
        first_log_p = 0.0
        for number in range(1, _MAX_SEARCHES):
            measured = search.measure(remaining)
            best = min(range(len(remaining)), key=[one.log_p for one in measured].__getitem__)
            if number == 1:
                first_log_p = float(bonferroni(measured[best].log_p, len(remaining)))
            is_significant = partial(self._is_significant, chances=len(remaining) * number)
            found = search.find(remaining[best], measured[best], is_significant)
            if found is None or not is_significant(found.log_p):
                break
            log_p = float(bonferroni(found.log_p, len(remaining) * number))
            chain, start, end = found[:3]
            frame = None
            if frames is not None:
                frame = frames[best][chain].number
                start, end = frames[best][chain].nucleotides(start, end)
            segments.append(Segment(start, end, chain, frame, found.score, log_p, number))
            for row, reading in enumerate(remaining):
                of_chain = None if frames is None else frames[row][chain]
                _mask(reading.symbols[reading.chains[chain]], of_chain, start, end)
        scored = max(reading.num_scored for reading in readings)
        return Located(tuple(segments), first_log_p, scored, joined(self.signature, what))

    def _is_significant(self, log_p: float, chances: int) -> bool:
        return is_below(float(bonferroni(log_p, chances)), self.fpr)


Prepare = Callable[[Sequence[Reading]], tuple[Search, list[Reading]]]


def _prepare_phases(key: Key, fpr: float) -> tuple[Detector, Prepare]:
    whole = LocalStatistic(key, excerpt_of(key, [])[0])

    def prepare(readings: Sequence[Reading]) -> tuple[Search, list[Reading]]:
        excerpt, numbered = excerpt_of(key, readings)
        return _PhaseSearch(whole if excerpt is None else LocalStatistic(key, excerpt)), numbered

    return Detector(key, "local", fpr=fpr), prepare


def _prepare_blocks(key: Key, fpr: float) -> tuple[Detector, Prepare]:
    search = _BlockSearch(BlockStatistic.of(key), cast(Blocks, key.profile.scheme).block)
    return Detector(key, fpr=fpr), lambda readings: (search, list(readings))


_SEARCHES: dict[str, Callable[[Key, float], tuple[Detector, Prepare]]] = {
    Paper.name: _prepare_phases,
    Turns.name: _prepare_phases,
    Blocks.name: _prepare_blocks,
}


class _BlockSearch:
    """Tests for a mark by the exact ratio, and finds its place by the best path."""

    def __init__(self, statistic: BlockStatistic, block: int) -> None:
        self._statistic, self._block = statistic, block

    def measure(self, remaining: Sequence[Reading]) -> list[Measurement]:
        return self._statistic.measure(remaining)

    def find(
        self, reading: Reading, measured: Measurement, is_significant: Callable[[float], bool]
    ) -> FoundStretch | None:
        if not is_significant(measured.log_p):
            return None
        nonce = int(np.argmax(self._statistic.log_ratios(reading)))
        stretches = {}
        for number, chain in self._statistic.pieces(reading):
            halves = self._statistic.halves(number, chain.length, STRETCHES)[nonce]
            stretches[number] = best_stretch(chain, halves, self._block)
        number = max(stretches, key=lambda chain: stretches[chain].log_ratio)
        best = stretches[number]
        if best.start == best.end:
            return None
        return FoundStretch(number, best.start, best.end, measured.statistic, measured.log_p)


class _PhaseSearch:
    """Finds the best stretch of the detector `local`, or a piece of it."""

    def __init__(self, statistic: LocalStatistic) -> None:
        self._statistic = statistic

    def measure(self, remaining: Sequence[Reading]) -> list[Measurement]:
        return self._statistic.measure(remaining)

    def find(
        self, reading: Reading, measured: Measurement, is_significant: Callable[[float], bool]
    ) -> FoundStretch | None:
        if measured.segment is None:
            return None
        chain, start, end, score = _best_piece(self._statistic, reading, measured.segment)
        log_p = self._log_p(reading, score)
        if is_significant(log_p):
            return FoundStretch(chain, start, end, score, log_p)
        # The piece alone is not significant, but the uncut stretch may be.
        return FoundStretch(*_uncut(reading, measured), measured.log_p)

    def _log_p(self, reading: Reading, score: int) -> float:
        """Return ln P(what is left of the record has a stretch of this score by chance)."""
        numbers = (score, reading.num_scored, len(reading.parts))
        return float(self._statistic.log_p(*map(np.array, numbers)))


def _best_piece(
    statistic: LocalStatistic, reading: Reading, place: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Cut a stretch at its valleys: chain, start and end within it, and score of the best piece."""
    number, low, high = _in_chain(reading, place)
    symbols = reading.symbols[reading.chains[number]]
    nonces = [nonce for nonce, _, _ in statistic.by_nonce(symbols[None])]
    paths = [
        best_gains(statistic.signs_along(symbols, n)[low:high], statistic.rules) for n in nonces
    ]
    gains = max(paths, key=lambda path: int(path.sum()))
    start, end = cut_at_valleys(gains)
    return number, low + start, low + end, int(gains[start:end].sum())


def _in_chain(reading: Reading, place: tuple[int, int]) -> tuple[int, int, int]:
    """Turn a start and end in the record into the number of a chain and a start and end in it."""
    number = next(i for i, c in enumerate(reading.chains) if c.start <= place[0] < c.stop)
    offset = reading.chains[number].start
    return number, place[0] - offset, place[1] - offset


def _uncut(reading: Reading, found: Measurement) -> tuple[int, int, int, int]:
    """Return chain, start and end within it, and score of a stretch that is not cut."""
    assert found.segment is not None  # noqa: S101
    return *_in_chain(reading, found.segment), int(found.statistic)


def best_gains(signs: NDArray[np.int8], rules: LocalRules) -> NDArray[np.int64]:
    """Return what each position, with the slip before it, adds to the best path: [n, P] -> [n]."""
    length, num_phases = signs.shape
    values = np.where(signs > 0, rules.match, np.where(signs < 0, -rules.mismatch, 0))
    score = values[0].astype(np.int64)
    came_from = np.empty((length, num_phases), dtype=np.int64)
    phases = np.arange(num_phases)
    for position in range(1, length):
        came_from[position] = phases
        for shift in (1, -1):
            other = np.roll(score, shift) - rules.slip
            better = other > score
            score = np.where(better, other, score)
            came_from[position] = np.where(
                better, np.roll(came_from[position], shift), came_from[position]
            )
        score = score + values[position]
    gains = np.zeros(length, dtype=np.int64)
    phase = int(np.argmax(score))
    for position in range(length - 1, 0, -1):
        before = int(came_from[position, phase])
        apart = abs(phase - before)
        slips = min(apart, num_phases - apart)
        gains[position] = values[position, phase] - rules.slip * slips
        phase = before
    gains[0] = values[0, phase]
    return gains


def cut_at_valleys(gains: NDArray[np.int64]) -> tuple[int, int]:
    """Return start and end of the best piece within which the score never falls by `VALLEY`.

    >>> cut_at_valleys(np.array([2] * 30 + [-3] * 20 + [2] * 40))
    (50, 90)
    >>> cut_at_valleys(np.array([2] * 30 + [-3] * 5 + [2] * 40))
    (0, 75)
    """
    level = np.concatenate([[0], np.cumsum(gains)])
    falls = np.maximum.accumulate(level) - level
    bottom = int(np.argmax(falls))
    if falls[bottom] < VALLEY:
        return 0, len(gains)
    top = int(np.argmax(level[: bottom + 1]))
    left = cut_at_valleys(gains[:top])
    start, end = cut_at_valleys(gains[bottom:])
    right = bottom + start, bottom + end
    return max(left, right, key=lambda piece: int(gains[slice(*piece)].sum()))


def _mask(symbols: NDArray[np.int64], frame: Frame | None, start: int, end: int) -> None:
    """Mask a stretch; in DNA in every frame, since all frames share its nucleotides."""
    if frame is None:
        symbols[start:end] = UNREAD
        return
    for residue in range(len(symbols)):
        low, high = frame.nucleotides(residue, residue + 1)
        if low < end and start < high:
            symbols[residue] = UNREAD


def num_residues(symbols: NDArray[np.int64]) -> int:
    """Return the number of symbols that are not separators."""
    return int(np.count_nonzero(symbols != SEPARATOR))
