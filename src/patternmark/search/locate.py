"""Where in a sequence marked stretches lie: the best one, then the best of what is left.

Each search asks whether what is left of a record is marked, and takes the best stretch:

- keys of a schedule that comes round: that of the detector `local`. Where two marked stretches
  outweigh what lies between them, it spans all three: it is cut at valleys, and the best piece is
  taken. A piece has the p-value of its own score, as if it were the best of the whole record;
- block keys: the p-value is that of `auto` for what is left, so that a first search finds what
  `detect` calls marked. The stretch is the likeliest path of the likeliest nonce
  (`statistics.block_best`).

What was found is masked, in all frames, and the rest is searched again, until a search finds none
at the false positive rate. The p-value of search number i is multiplied by i, and by six where DNA
was read in six frames. A wrong stretch is reported only if a search of unmarked residues succeeds,
and searches end with the first that does not: the chance of that is at most the rate, whatever
number of true stretches came before.
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

VALLEY = 24  # a fall of the score by this cuts a stretch: some 100 unmarked residues
_MOST_SEARCHES = 1000


@dataclass(frozen=True)
class Segment:
    """A marked stretch: `start` to `end` of its chain, from 0, half-open; nucleotides for DNA."""

    start: int
    end: int
    chain: int  # from 0
    frame: int | None  # of DNA: 1, 2, 3, -1, -2, -3
    statistic: float
    log_p: float
    search: int  # from 1

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    """The marked stretches of a record, the strongest first; the p-value of the first search."""

    segments: tuple[Segment, ...]
    log_p: float
    num_tokens_scored: int
    signature: str


class FoundStretch(NamedTuple):
    """What one search found: a place in a chain, its score, and ln p before any correction."""

    chain: int
    start: int
    end: int
    score: float
    log_p: float


class Search(Protocol):
    """How the records of one scheme are searched."""

    def measure(self, left: Sequence[Reading]) -> list[Measurement]:
        """Measure what is left of each reading."""

    def found(
        self, reading: Reading, measured: Measurement, is_enough: Callable[[float], bool]
    ) -> FoundStretch | None:
        """Return the best stretch of a reading, if there is one; `is_enough` judges its ln p."""


class Locator:
    """Finds the marked stretches of sequences by one key."""

    def __init__(self, key: Key, *, fpr: float = DEFAULT_FPR) -> None:
        self._detector, self._prepare = _SEARCHES[key.profile.scheme.name](key, fpr)
        self.key, self.fpr = key, self._detector.fpr
        self.signature = self._detector.signature

    def in_protein(
        self, symbols: NDArray[np.int64], scored: NDArray[np.bool_] | None = None
    ) -> Located:
        """Locate in an encoded sequence; its chains are searched one by one."""
        readings = self._detector.read([symbols], [scored])
        return self._search(readings, None, scored_part([symbols], [scored]))

    def in_dna(self, sequence: str) -> Located:
        """Locate in the six frames of DNA or RNA; chains are separated by / or :."""
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

        `what` is searched, as the signature says it.
        """
        search, numbered = self._prepare(readings)
        left = [Reading(r.symbols.copy(), r.chains) for r in numbered]
        segments: list[Segment] = []
        first_log_p = 0.0
        for number in range(1, _MOST_SEARCHES):
            measured = search.measure(left)
            best = min(range(len(left)), key=[one.log_p for one in measured].__getitem__)
            if number == 1:
                first_log_p = float(bonferroni(measured[best].log_p, len(left)))
            is_enough = partial(self._is_enough, chances=len(left) * number)
            found = search.found(left[best], measured[best], is_enough)
            if found is None or not is_enough(found.log_p):
                break
            log_p = float(bonferroni(found.log_p, len(left) * number))
            chain, start, end = found[:3]
            frame = None
            if frames is not None:
                frame = frames[best][chain].number
                start, end = frames[best][chain].nucleotides(start, end)
            segments.append(Segment(start, end, chain, frame, found.score, log_p, number))
            for row, reading in enumerate(left):
                of_chain = None if frames is None else frames[row][chain]
                _mask(reading.symbols[reading.chains[chain]], of_chain, start, end)
        scored = max(reading.num_scored for reading in readings)
        return Located(tuple(segments), first_log_p, scored, joined(self.signature, what))

    def _is_enough(self, log_p: float, chances: int) -> bool:
        return is_below(float(bonferroni(log_p, chances)), self.fpr)


Prepare = Callable[[Sequence[Reading]], tuple[Search, list[Reading]]]


def _by_phases(key: Key, fpr: float) -> tuple[Detector, Prepare]:
    whole = LocalStatistic(key, excerpt_of(key, [])[0])

    def prepare(readings: Sequence[Reading]) -> tuple[Search, list[Reading]]:
        excerpt, numbered = excerpt_of(key, readings)
        return _OfPhases(whole if excerpt is None else LocalStatistic(key, excerpt)), numbered

    return Detector(key, "local", fpr=fpr), prepare


def _by_blocks(key: Key, fpr: float) -> tuple[Detector, Prepare]:
    search = _OfBlocks(BlockStatistic.of(key), cast(Blocks, key.profile.scheme).block)
    return Detector(key, fpr=fpr), lambda readings: (search, list(readings))


_SEARCHES: dict[str, Callable[[Key, float], tuple[Detector, Prepare]]] = {
    Paper.name: _by_phases,
    Turns.name: _by_phases,
    Blocks.name: _by_blocks,
}


class _OfBlocks:
    """Asks the exact ratio whether there is a mark, and the best path where."""

    def __init__(self, statistic: BlockStatistic, block: int) -> None:
        self._statistic, self._block = statistic, block

    def measure(self, left: Sequence[Reading]) -> list[Measurement]:
        return self._statistic.measure(left)

    def found(
        self, reading: Reading, measured: Measurement, is_enough: Callable[[float], bool]
    ) -> FoundStretch | None:
        if not is_enough(measured.log_p):
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


class _OfPhases:
    """Takes the best stretch of the detector `local`, or a piece of it."""

    def __init__(self, statistic: LocalStatistic) -> None:
        self._statistic = statistic

    def measure(self, left: Sequence[Reading]) -> list[Measurement]:
        return self._statistic.measure(left)

    def found(
        self, reading: Reading, measured: Measurement, is_enough: Callable[[float], bool]
    ) -> FoundStretch | None:
        if measured.segment is None:
            return None
        chain, start, end, score = _best_piece(self._statistic, reading, measured.segment)
        log_p = self._log_p(reading, score)
        if is_enough(log_p):
            return FoundStretch(chain, start, end, score, log_p)
        # No piece is enough by itself: perhaps the whole is.
        return FoundStretch(*_whole(reading, measured), measured.log_p)

    def _log_p(self, reading: Reading, score: int) -> float:
        """Return ln P(chance has a stretch of this score in what is left of the record)."""
        numbers = (score, reading.num_scored, len(reading.parts))
        return float(self._statistic.log_p(*map(np.array, numbers)))


def _best_piece(
    statistic: LocalStatistic, reading: Reading, place: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return chain, start and end within it, and score of a stretch cut at its valleys."""
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
    """Turn a place of the record into the number of a chain and a place in it."""
    number = next(i for i, c in enumerate(reading.chains) if c.start <= place[0] < c.stop)
    offset = reading.chains[number].start
    return number, place[0] - offset, place[1] - offset


def _whole(reading: Reading, found: Measurement) -> tuple[int, int, int, int]:
    """Return chain, start and end within it, and score of a stretch as it was found."""
    assert found.segment is not None  # noqa: S101
    return *_in_chain(reading, found.segment), int(found.statistic)


def best_gains(signs: NDArray[np.int8], rules: LocalRules) -> NDArray[np.int64]:
    """Return what each position adds to the best path, with the slip before it: [n, P] -> [n]."""
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
    """Return start and end of the best piece that no fall of the score cuts in two.

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
    """Silence what was found; in every frame, for codons say in one what they say in another."""
    if frame is None:
        symbols[start:end] = UNREAD
        return
    for residue in range(len(symbols)):
        low, high = frame.nucleotides(residue, residue + 1)
        if low < end and start < high:
            symbols[residue] = UNREAD


def num_residues(symbols: NDArray[np.int64]) -> int:
    """Return how many symbols stand beside the separators."""
    return int(np.count_nonzero(symbols != SEPARATOR))
