"""How often unmarked sequences are called marked: counted, over the key itself and many others.

A p-value rests on assumptions about unmarked sequences. Two checks make none: count false positives
on sequences known to be unmarked, and compare a key with others that had no part in the sequence.

The other keys are fresh: their secrets are derived from the key's under labels of their own. To who
does not hold the secret they are random, and a check repeated gives the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from math import log
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patternmark._version import __version__
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.secret import Secret
from patternmark.detector import Detector
from patternmark.errors import InputError, ParameterError
from patternmark.evidence import rank_p_value
from patternmark.fast.compiled import repeated
from patternmark.intervals import rate_interval
from patternmark.signature import joined

NOMINAL = (0.1, 0.01, 0.001, 1e-4, 1e-5)
ALARMING = 1.5  # times the nominal rate
_ALARM_LEVELS = (0.01, 0.001)
_OWN = -1  # the number of the key itself among the fresh ones


@dataclass(frozen=True)
class Rate:
    """False positives at one nominal rate, with the 95 % interval of independent trials."""

    nominal: float
    trials: int
    hits: int
    fpr: float
    low: float
    high: float

    @classmethod
    def of(cls, nominal: float, hits: int, trials: int) -> Rate:
        """Return the rate of so many hits."""
        return cls(nominal, trials, hits, hits / trials, *rate_interval(hits, trials))


@dataclass(frozen=True)
class Calibration:
    """Rates over all keys, of the key itself, and of the key that has most false positives."""

    key_id: str
    detector: str
    signature: str
    num_sequences: int
    num_keys: int  # the key itself among them
    levels: tuple[Rate, ...]
    own_key: tuple[Rate, ...]
    worst_key: tuple[Rate, ...]
    worst_key_id: str

    def to_table(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "key_id": self.key_id,
            "detector": self.detector,
            "signature": self.signature,
            "num_sequences": self.num_sequences,
            "num_keys": self.num_keys,
            "levels": [asdict(rate) for rate in self.levels],
            "own_key": {"key_id": self.key_id, "levels": [asdict(r) for r in self.own_key]},
            "worst_key": {
                "key_id": self.worst_key_id,
                "levels": [asdict(r) for r in self.worst_key],
            },
        }


def fresh_key(key: Key, number: int) -> Key:
    """Return a key of the same profile that marked nothing: number 0, 1, ..."""
    secret = key.require_secret().subkey(f"null key/{number}")
    return Key.of(Secret(secret), key.profile)


def calibrate(
    key: Key,
    detector: str,
    sequences: Sequence[NDArray[np.int64]],
    *,
    num_keys: int = 200,
    workers: int = 1,
    step: Callable[[], None] = lambda: None,
) -> Calibration:
    """Count false positives on unmarked sequences; `step` is called after every key.

    The trials of one sequence under many keys, or of one key on sequences that are alike, are not
    independent: intervals are then too narrow.
    """
    judge = Detector(key, detector)
    readings = [reading for reading in judge.read(sequences) if reading.num_scored]
    if not readings:
        raise InputError("no sequence could be judged")
    hits = np.zeros((num_keys + 1, len(NOMINAL)), dtype=np.int64)  # the key itself comes first
    numbers = range(_OWN, num_keys)
    for row, found in enumerate(_all_hits(key, detector, readings, numbers, workers)):
        hits[row] = found
        step()
    worst = int(np.lexsort((-hits[:, 2], -hits[:, 1]))[0])
    trials = len(readings)
    return Calibration(
        key_id=key.key_id,
        detector=judge.statistic.name,
        signature=joined(judge.settings, f"null_keys:{num_keys}", f"v:{__version__}"),
        num_sequences=trials,
        num_keys=num_keys + 1,
        levels=_rates(hits.sum(axis=0), trials * (num_keys + 1)),
        own_key=_rates(hits[0], trials),
        worst_key=_rates(hits[worst], trials),
        worst_key_id=(fresh_key(key, worst - 1) if worst else key).key_id,
    )


def _rates(hits: NDArray[np.int64], trials: int) -> tuple[Rate, ...]:
    pairs = zip(NOMINAL, hits.tolist(), strict=True)
    return tuple(Rate.of(nominal, count, trials) for nominal, count in pairs)


@dataclass(frozen=True)
class _Job:
    """What a worker needs for every key."""

    key: Key
    detector: str
    readings: Sequence[Reading]
    times: float  # how many keys a worker judges, about

    def hits(self, number: int) -> list[int]:
        """Return how many sequences are called marked at each nominal rate."""
        tested = self.key if number == _OWN else fresh_key(self.key, number)
        with repeated(self.times):
            measured = Detector(tested, self.detector).statistic.measure(self.readings)
        log_p = np.array([found.log_p for found in measured])
        return [int(np.count_nonzero(log_p <= log(nominal))) for nominal in NOMINAL]


_job: _Job | None = None  # of this worker


def _begin(job: _Job) -> None:
    global _job  # noqa: PLW0603  # handed over once per worker, not once per key
    _job = job


def _hits_of(number: int) -> list[int]:
    assert _job is not None  # noqa: S101
    return _job.hits(number)


def _all_hits(
    key: Key, detector: str, readings: Sequence[Reading], numbers: range, workers: int
) -> Iterator[list[int]]:
    job = _Job(key, detector, readings, len(numbers) / max(workers, 1))
    if workers <= 1:
        yield from map(job.hits, numbers)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (job,)) as pool:
        yield from pool.map(_hits_of, numbers)


def rank_p_values(
    make_detector: Callable[[Key], Detector],
    key: Key,
    readings: Sequence[Reading],
    num_keys: int,
    step: Callable[[], None] = lambda: None,
) -> list[float]:
    """Return (1 + fresh keys that do as well) / (1 + fresh keys) for every record.

    It is valid whatever the sequence is: see `evidence.rank_p_value`.
    """
    own = _statistics(make_detector(key), readings)
    as_good = np.zeros(len(readings), dtype=np.int64)
    with repeated(num_keys):
        for number in range(num_keys):
            as_good += _statistics(make_detector(fresh_key(key, number)), readings) >= own
            step()
    return [float(p) for p in rank_p_value(as_good, num_keys)]


def _statistics(detector: Detector, readings: Sequence[Reading]) -> NDArray[np.float64]:
    return np.array([found.statistic for found in detector.statistic.measure(readings)])


def calibration_path(key_file: Path) -> Path:
    """Return where `detect` looks for the calibration of a key: KEY.calibration.json."""
    return key_file.with_name(f"{key_file.name}.calibration.json")


def calibration_warning(file: Path, key: Key, detector: str) -> str | None:
    """Return what to say of a key whose calibration shows too many false positives."""
    if not file.exists():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["key_id"] != key.key_id:
            return f"{file}: this is the calibration of another key, {content['key_id']}"
        levels = [Rate(**level) for level in content["own_key"]["levels"]]
        is_of_detector = content["detector"] == detector
    except (OSError, ValueError, KeyError, TypeError):
        return f"{file}: no calibration can be read from it; make it anew, or remove it"
    for rate in levels if is_of_detector else []:
        if rate.nominal in _ALARM_LEVELS and rate.low > ALARMING * rate.nominal:
            return (
                f"{file}: this key called {rate.fpr:.2%} of {rate.trials} unmarked sequences "
                f"marked at a nominal {rate.nominal:.1%} (at least {rate.low:.2%}): its p-values "
                "are too small for such sequences: call by rank among fresh keys instead"
            )
    return None


def check_num_keys(num_keys: int, fpr: float) -> None:
    """Refuse a number of fresh keys with which no rank can reach the false positive rate."""
    if num_keys < 1:
        raise ParameterError("at least one fresh key is needed to compare with")
    least = float(rank_p_value(0, num_keys))
    if least > fpr:
        needed = int(np.ceil(1.0 / fpr - 1e-6)) - 1
        raise ParameterError(
            f"among {num_keys} fresh keys no p-value is below {least:.2g}: "
            f"an FPR of {fpr:g} needs {needed} fresh keys or more"
        )
