"""The detector: sequences in, verdicts out. It needs the key and no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark._version import __version__
from patternmark.alphabet import SEPARATOR
from patternmark.chain import KeyChain
from patternmark.errors import ParameterError, SequenceError
from patternmark.key import Key
from patternmark.null import PatternNull
from patternmark.patterns import Patterns
from patternmark.recover import RecoveredKeys, recover
from patternmark.verdict import LN10, Verdict, p_value_of

DEFAULT_FPR = 1e-3
# These begin the notes of sequences that nothing could be said of, whatever their symbols.
NOTHING = "nothing to score: "
TOO_SHORT = "too short to tell at any FPR: "


@dataclass(frozen=True)
class Measurement:
    """A statistic with its exact p-value, and the smallest p-value the sequence could reach."""

    statistic: float
    expected: float
    log_p: float
    log_p_floor: float


class Statistic(Protocol):
    """What a detector measures on recovered keys, with the null that goes with it."""

    name: str
    signature: str  # its parameters, as `name:value` joined by `|`

    def measure(self, recovered: RecoveredKeys) -> list[Measurement]:
        """Measure every sequence of a batch."""


class PatternStatistic:
    """The paper's detector (Algorithm 2): the number of target patterns among the keys."""

    name = "pattern"

    def __init__(self, patterns: Patterns, null: KeyChain | None = None) -> None:
        self.patterns = patterns
        self.null = PatternNull(patterns, null)
        self.signature = f"m:{patterns.length}|null:{self.null.null.signature}"

    def measure(self, recovered: RecoveredKeys) -> list[Measurement]:
        """Count the patterns and look up how often chance counts as many."""
        counts = recovered.count_marks(self.patterns.hits(recovered.keys)).tolist()
        return [
            self._judge(count, segments)
            for count, segments in zip(counts, recovered.segments, strict=True)
        ]

    def _judge(self, count: int, segments: tuple[int, ...]) -> Measurement:
        largest = self.null.largest_count(segments)
        return Measurement(
            statistic=count,
            expected=self.null.mean(segments),
            log_p=self.null.log_tail(count, segments),
            log_p_floor=self.null.log_tail(largest, segments),
        )


class Detector:
    """Judge sequences by one key.

    >>> from patternmark import Detector, Key, Profile
    >>> key = Key.generate(Profile(), parts=["ACDEFGHIKL", "MNPQRSTVWY"])
    >>> verdict = Detector(key).detect("AMCNDPEQFR" * 4)
    >>> verdict.prediction, verdict.statistic, verdict.num_tokens_scored
    (True, 36, 40)
    >>> round(verdict.log10_p, 3)  # two alternating sequences of 2^40
    -11.74
    """

    def __init__(
        self,
        key: Key,
        detector: str = "pattern",
        *,
        m: int | None = None,
        fpr: float = DEFAULT_FPR,
        null: KeyChain | None = None,
    ) -> None:
        if detector not in DETECTORS:
            raise ParameterError(
                f"detector {detector!r} is not known: this version has {', '.join(DETECTORS)}"
            )
        if not 0.0 < fpr < 1.0:
            raise ParameterError(f"a false positive rate lies between 0 and 1, not {fpr}")
        self.key = key
        self.fpr = fpr
        self.statistic: Statistic = DETECTORS[detector](key.profile.target_patterns(m), null)
        self._partition = key.partition
        self.signature = _signature(key, self.statistic)

    def detect(self, sequence: str | ArrayLike, id: str = "") -> Verdict:
        """Judge one sequence, given as letters or as token ids."""
        return self.detect_many([sequence], [id])[0]

    def detect_many(
        self,
        sequences: Iterable[str | ArrayLike],
        ids: Sequence[str] | None = None,
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> list[Verdict]:
        """Judge a batch: one verdict per sequence, in order.

        `scored` says for each sequence which positions count, such as those that were designed.
        Chains of one record, joined by `/` or `:`, are counted one at a time and copies once.
        """
        sequences = list(sequences)
        names = [str(i + 1) for i in range(len(sequences))] if ids is None else list(ids)
        encoded = [self._encode(*pair) for pair in zip(names, sequences, strict=True)]
        recovered = self.recover(encoded, scored)
        measurements = self.statistic.measure(recovered)
        lengths = [int(np.count_nonzero(ids != SEPARATOR)) for ids in encoded]
        counted = recovered.num_scored.tolist()
        return [
            self._verdict(*row) for row in zip(names, lengths, counted, measurements, strict=True)
        ]

    def recover(
        self,
        encoded: Sequence[NDArray[np.int64]],
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> RecoveredKeys:
        """Return the keys that encoded sequences show."""
        return recover(encoded, self._partition, scored)

    def _encode(self, name: str, sequence: str | ArrayLike) -> NDArray[np.int64]:
        try:
            return self.key.profile.alphabet.encode(sequence)
        except SequenceError as error:
            raise SequenceError(f"sequence {name!r}: {error}") from None

    def _verdict(self, id: str, length: int, scored: int, found: Measurement) -> Verdict:
        return Verdict(
            id=id,
            length=length,
            num_tokens_scored=scored,
            detector=self.statistic.name,
            statistic=found.statistic,
            expected_statistic=round(found.expected, 6),
            p_value=p_value_of(found.log_p),
            log10_p=found.log_p / LN10,
            prediction=found.log_p <= log(self.fpr),
            fpr=self.fpr,
            key_id=self.key.key_id,
            signature=self.signature,
            note=self._note(length, scored, found),
        )

    def _note(self, length: int, scored: int, found: Measurement) -> str:
        if scored == 0:
            return NOTHING + ("empty" if length == 0 else "no symbol carries a key")
        if found.log_p_floor == 0.0:
            return f"{TOO_SHORT}too few symbols in a row carry a key"
        if found.log_p_floor > log(self.fpr):
            return f"too short to tell at FPR {self.fpr:g}, whatever its sequence"
        return ""


def _signature(key: Key, statistic: Statistic) -> str:
    profile = key.profile
    return (
        f"key:{key.key_id}|scheme:{profile.scheme}|alphabet:{profile.alphabet.name}"
        f"|l:{profile.num_keys}|delta_at:{profile.delta_at}"
        f"|detector:{statistic.name}|{statistic.signature}|v:{__version__}"
    )


DETECTORS = {"pattern": PatternStatistic}
