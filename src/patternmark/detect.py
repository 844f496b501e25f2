"""The detector: sequences in, verdicts out. It needs the key and no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark._version import __version__
from patternmark.alphabet import SEPARATOR
from patternmark.chain import KeyChain
from patternmark.errors import ParameterError, SequenceError
from patternmark.key import Key
from patternmark.reading import Reading, checked_rates, read_many
from patternmark.statistics import Measurement, Statistic, make_statistic
from patternmark.verdict import LN10, Verdict, p_value_of

DEFAULT_FPR = 1e-3
# These begin the notes of sequences that nothing could be said of, whatever their symbols.
NOTHING = "nothing to score: "
TOO_SHORT = "too short to tell at any FPR: "


class Detector:
    """Judge sequences by one key.

    >>> from patternmark import Detector, Key, Profile
    >>> key = Key.generate(Profile(), parts=["ACDEFGHIKL", "MNPQRSTVWY"])
    >>> marked = "AMCNDPEQFRGSHTIVKWLYAWEMKQLVDPGTCRFNHYIS"
    >>> verdict = Detector(key, "phase").detect(marked)
    >>> verdict.prediction, verdict.statistic, verdict.num_tokens_scored
    (True, 40, 40)
    >>> round(verdict.log10_p, 3)  # two alternating sequences of 2^40
    -11.74
    """

    def __init__(
        self,
        key: Key,
        detector: str | Statistic = "auto",
        *,
        m: int | None = None,
        fpr: float = DEFAULT_FPR,
        null: KeyChain | None = None,
        mask_repeats: bool = True,
    ) -> None:
        if not 0.0 < fpr < 1.0:
            raise ParameterError(f"a false positive rate lies between 0 and 1, not {fpr}")
        self.key = key
        self.fpr = fpr
        if isinstance(detector, str):
            detector = make_statistic(detector, key, m=m, null=null)
        self.statistic = detector
        self.mask_repeats = mask_repeats
        self.signature = _signature(key, self.statistic, mask_repeats)

    def detect(self, sequence: str | ArrayLike, id: str = "") -> Verdict:
        """Judge one sequence, given as letters or as token ids."""
        return self.detect_many([sequence], [id])[0]

    def detect_many(
        self,
        sequences: Iterable[str | ArrayLike],
        ids: Sequence[str] | None = None,
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
        rates: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> list[Verdict]:
        """Judge a batch: one verdict per sequence, in order.

        `scored` says for each sequence which positions count, such as those that were designed;
        `rates` how often each should agree with its key, for a statistic that asks (see `expect`).
        Chains of one record, joined by `/` or `:`, are counted one at a time, and repeats once.
        """
        sequences = list(sequences)
        names = [str(i + 1) for i in range(len(sequences))] if ids is None else list(ids)
        encoded = [self._encode(*pair) for pair in zip(names, sequences, strict=True)]
        readings = self.read(encoded, scored, rates)
        lengths = [int(np.count_nonzero(ids != SEPARATOR)) for ids in encoded]
        measurements = self.statistic.measure(readings)
        counted = [reading.num_scored for reading in readings]
        return [
            self._verdict(*row) for row in zip(names, lengths, counted, measurements, strict=True)
        ]

    def read(
        self,
        encoded: Sequence[NDArray[np.int64]],
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
        rates: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> list[Reading]:
        """Return what of encoded sequences counts."""
        alphabet = self.key.profile.alphabet
        masks = scored if scored is not None else [None] * len(encoded)
        readings = read_many(
            encoded,
            alphabet,
            masks,
            mask_repeats=self.mask_repeats,
            matters=self.key.schedule.reuses,
        )
        if rates is None:
            return readings
        pairs = zip(readings, rates, strict=True)
        return [
            reading._replace(rates=checked_rates(expected, len(reading.symbols)))
            for reading, expected in pairs
        ]

    def _encode(self, name: str, sequence: str | ArrayLike) -> NDArray[np.int64]:
        try:
            return self.key.profile.alphabet.encode(sequence)
        except SequenceError as error:
            raise SequenceError(f"sequence {name!r}: {error}") from None

    def _verdict(self, id: str, length: int, scored: int, found: Measurement) -> Verdict:
        is_marked = found.log_p <= log(self.fpr)
        return Verdict(
            id=id,
            length=length,
            num_tokens_scored=scored,
            detector=self.statistic.name,
            statistic=found.statistic,
            expected_statistic=None if found.expected is None else round(found.expected, 6),
            p_value=p_value_of(found.log_p),
            log10_p=found.log_p / LN10 + 0.0,  # never minus zero
            prediction=is_marked,
            fpr=self.fpr,
            key_id=self.key.key_id,
            signature=self.signature,
            note=self._note(length, scored, found),
            segment=found.segment,
            payload=found.payload if is_marked else None,
            payload_error=found.payload_error if is_marked else None,
        )

    def _note(self, length: int, scored: int, found: Measurement) -> str:
        if scored == 0:
            return NOTHING + ("empty" if length == 0 else "no symbol carries a key")
        if found.log_p_floor == 0.0:
            return f"{TOO_SHORT}too few symbols in a row carry a key"
        if found.log_p_floor > log(self.fpr):
            needed = ceil(scored * log(self.fpr) / found.log_p_floor)
            return (
                f"too short to tell at FPR {self.fpr:g}, whatever its sequence: "
                f"about {needed} scored symbols are the least"
            )
        return ""


def _signature(key: Key, statistic: Statistic, mask_repeats: bool) -> str:
    profile = key.profile
    repeats = "masked" if mask_repeats else "counted"
    return (
        f"key:{key.key_id}|scheme:{profile.scheme}|alphabet:{profile.alphabet.name}"
        f"|l:{profile.num_keys}|delta_at:{profile.delta_at}"
        f"|detector:{statistic.name}|{statistic.signature}|repeats:{repeats}|v:{__version__}"
    )
