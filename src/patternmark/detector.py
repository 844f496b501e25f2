"""The detector: sequences in, verdicts out. It needs the key and no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark._version import __version__
from patternmark.core.alphabet import SEPARATOR
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.reading import Reading, read_many
from patternmark.errors import ParameterError, SequenceError
from patternmark.evidence import DEFAULT_FPR, check_fpr, is_below
from patternmark.fast.compiled import repeated
from patternmark.masks import find_repeated_evidence
from patternmark.masks.coins import count_occurrences
from patternmark.results import CALL_BY_P, CALL_BY_P_ANY, LN10, Status, Verdict, p_value_of
from patternmark.signature import joined, rates_part, scored_part
from patternmark.statistics import Measurement, Statistic, make_statistic


class Detector:
    """Judge sequences by one key.

    >>> from patternmark import Detector, Key, Profile
    >>> from patternmark.core.schemes import Paper
    >>> key = Key.generate(Profile(scheme=Paper()), parts=["ACDEFGHIKL", "MNPQRSTVWY"])
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
        strict: bool = False,
    ) -> None:
        """With `strict`, `p_any` decides: for sequences that may have been written to deceive."""
        self.key = key
        self.strict = strict
        self.fpr = check_fpr(fpr)
        if isinstance(detector, str):
            detector = make_statistic(detector, key, m=m, null=null)
        self.statistic = detector
        self.mask_repeats = mask_repeats
        self._num_calls = 0

    @property
    def masks_repeats(self) -> bool:
        """Whether repeats are masked: only if the p-values of the scheme need it."""
        return self.mask_repeats and self.key.profile.scheme.masks_repeats

    @property
    def _shares_repeats(self) -> bool:
        """Whether every occurrence of a repeated token is read, and all of them share its coin."""
        return self.mask_repeats and getattr(self.statistic, "reads_repeats", False)

    @property
    def _repeats(self) -> str:
        """What is done with repeats, as signatures say it."""
        if self._shares_repeats:
            return "shared"
        return "masked" if self.masks_repeats else "counted"

    @cached_property
    def settings_of_any_key(self) -> str:
        """Every setting that can change a p-value, except the key itself."""
        profile = self.key.profile
        return joined(
            f"{profile.scheme.signature}|alphabet:{profile.alphabet.name}",
            f"delta_at:{profile.delta_at}",
            f"detector:{self.statistic.name}",
            self.statistic.signature,
            f"repeats:{self._repeats}",
        )

    @cached_property
    def settings(self) -> str:
        """The key and every setting that can change a p-value."""
        return joined(f"key:{self.key.key_id}", self.settings_of_any_key)

    @cached_property
    def signature(self) -> str:
        """The settings of all verdicts; the signature of a verdict adds those of its record."""
        return joined(self.settings, f"fpr:{self.fpr!r}", f"v:{__version__}")

    def made(self, verdict: Verdict) -> bool:
        """Return whether a verdict was made with these settings."""
        return verdict.signature.startswith(f"{self.signature}|")

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
        `rates` gives the rate at which each should agree with its key, for statistics that use it
        (see `expected_rates`).
        Chains of one record, separated by `/` or `:`, are read one by one; repeats count once.
        """
        sequences = list(sequences)
        names = [str(i + 1) for i in range(len(sequences))] if ids is None else list(ids)
        encoded = [self.encode(*pair) for pair in zip(sequences, names, strict=True)]
        readings = self.read(encoded, scored, rates)
        measurements = self.measure(readings)
        no_values = [None] * len(encoded)
        signatures = [
            self.signature_of([ids], [mask], [expected])
            for ids, mask, expected in zip(
                encoded, scored or no_values, rates or no_values, strict=True
            )
        ]
        lengths = [int(np.count_nonzero(ids != SEPARATOR)) for ids in encoded]
        counted = [reading.num_scored for reading in readings]
        rows = zip(names, lengths, counted, measurements, signatures, strict=True)
        return [self._verdict(*row) for row in rows]

    def signature_of(
        self,
        records: Sequence[NDArray[np.int64]],
        scored: Sequence[NDArray[np.bool_] | None],
        rates: Sequence[NDArray[np.float64] | None],
    ) -> str:
        """Return the signature of a result on encoded records."""
        call = CALL_BY_P_ANY if self.strict else CALL_BY_P
        return joined(self.signature, scored_part(records, scored), rates_part(rates), call)

    def read(
        self,
        encoded: Sequence[NDArray[np.int64]],
        scored: Sequence[NDArray[np.bool_] | None] | None = None,
        rates: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> list[Reading]:
        """Return the readings of encoded sequences: the positions that count."""
        alphabet = self.key.profile.alphabet
        masks = scored if scored is not None else [None] * len(encoded)
        repeats = None
        if self.masks_repeats and not self._shares_repeats:
            matters = getattr(self.key.schedule, "reuses", None)
            repeats = find_repeated_evidence(encoded, alphabet, masks, matters)
        # Copies of a chain count only if the caller wants repeats to count.
        drop_copies = self.mask_repeats or not self.key.profile.scheme.masks_repeats
        readings = read_many(encoded, alphabet, masks, repeats, drop_copies=drop_copies)
        if self._shares_repeats:
            readings = [
                reading._replace(times=count_occurrences(reading.symbols)) for reading in readings
            ]
        if rates is None:
            return readings
        pairs = zip(readings, rates, strict=True)
        return [
            reading._replace(rates=_check_rates(expected, len(reading.symbols)))
            for reading, expected in pairs
        ]

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Measure readings; without any, return an empty list."""
        # After n calls expect n more: the compiled loops may be worth loading for them.
        self._num_calls += 1
        with repeated(self._num_calls):
            return self.statistic.measure(readings) if readings else []

    def encode(self, sequence: str | ArrayLike, name: str) -> NDArray[np.int64]:
        """Return the symbols of a record; an error names the record."""
        try:
            return self.key.profile.alphabet.encode(sequence)
        except SequenceError as error:
            raise SequenceError(f"sequence {name!r}: {error}") from None

    def _verdict(
        self, id: str, length: int, scored: int, found: Measurement, signature: str
    ) -> Verdict:
        status = self._status(scored, found)
        is_marked = status is Status.MARKED
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
            signature=signature,
            status=status,
            note=self._note(length, scored, found),
            **self._p_any_fields(found),
            segment=found.segment,
            payload=found.payload if is_marked else None,
            payload_error=found.payload_error if is_marked else None,
        )

    def _p_any_fields(self, found: Measurement) -> dict[str, Any]:
        """Return `p_any` and its logarithm as fields of a verdict, or {} if it does not hold."""
        # For a text it holds only if every coin counts once.
        counts_twice = self.key.profile.alphabet.has_many_symbols and not self.mask_repeats
        if found.log_p_any is None or counts_twice:
            return {}
        log_p = found.log_p_any
        return {"p_any": p_value_of(log_p), "log10_p_any": log_p / LN10 + 0.0}

    def _deciding_log_p(self, found: Measurement) -> tuple[float, float]:
        """Return ln of the p-value that decides, and its smallest value for this length."""
        if not self.strict:
            return found.log_p, found.log_p_floor
        if found.log_p_any is None:
            raise ParameterError(
                f"the detector {self.statistic.name!r} has no p-value that holds for any sequence "
                f"with key {self.key.key_id}: judge without 'strict'"
            )
        floor = found.log_p_any_floor
        return found.log_p_any, found.log_p_floor if floor is None else floor

    def _status(self, scored: int, found: Measurement) -> Status:
        log_p, floor = self._deciding_log_p(found)
        if is_below(log_p, self.fpr):
            return Status.MARKED
        if scored == 0 or floor == 0.0:
            return Status.NOTHING_TO_SCORE
        return Status.NO_MARK if is_below(floor, self.fpr) else Status.TOO_SHORT

    def _note(self, length: int, scored: int, found: Measurement) -> str:
        if scored == 0:
            why = "empty" if length == 0 else "no symbol carries a key"
            return f"nothing to score: {why}"
        if found.note:
            return found.note
        _, floor = self._deciding_log_p(found)
        if floor == 0.0:
            return "too short to tell at any FPR: too few symbols in a row carry a key"
        if not is_below(floor, self.fpr):
            needed = ceil(scored * log(self.fpr) / floor)
            return (
                f"too short to tell at FPR {self.fpr:g}, whatever the symbols are: "
                f"it takes about {needed} scored symbols"
            )
        return ""


def _check_rates(rates: NDArray[np.float64] | None, length: int) -> NDArray[np.float64] | None:
    """Return rates unchanged; raise ParameterError unless they are probabilities [levels, n]."""
    if rates is None:
        return None
    if rates.ndim != 2 or rates.shape[1] != length:
        raise ParameterError(f"rates must have the shape [levels, {length}], not {rates.shape}")
    if not np.all((rates > 0.0) & (rates < 1.0)):  # nan is neither
        raise ParameterError("rates must lie between 0 and 1")
    return rates
