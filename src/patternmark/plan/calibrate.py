"""Count how often unmarked sequences are called marked, with a key and with many fresh keys.

A p-value depends on assumptions about unmarked sequences. Two checks need none: count false
positives on sequences that are known to be unmarked, and compare a key with fresh keys, which did
not mark the sequence.

The secrets of fresh keys are derived from the secret of the key. To everybody without this secret
they are random. A repeated check gives the same numbers.
"""

from __future__ import annotations

import pickle
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
from patternmark.evidence import check_fpr, rank_p_value
from patternmark.fast.compiled import repeated
from patternmark.intervals import rate_interval
from patternmark.io.bounded import read_json
from patternmark.results import Result
from patternmark.signature import joined
from patternmark.workers import pickle_with_secrets

NOMINAL = (0.1, 0.01, 0.001, 1e-4, 1e-5)
ALARMING = 1.5  # a rate above this multiple of the nominal rate causes a warning
_ALARM_LEVELS = (0.01, 0.001)
_OWN = -1  # the number of the key itself; fresh keys have numbers from 0


@dataclass(frozen=True)
class Rate:
    """False positives at one nominal rate, with a 95 % interval for independent trials."""

    nominal: float
    trials: int
    hits: int
    fpr: float
    low: float
    high: float

    @classmethod
    def of(cls, nominal: float, hits: int, trials: int) -> Rate:
        """Return the rate of some hits among trials."""
        return cls(nominal, trials, hits, hits / trials, *rate_interval(hits, trials))


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    """Rates over all keys, of the key itself, and of the key with the most false positives."""

    key_id: str
    detector: str
    signature: str
    num_sequences: int
    num_keys: int  # including the key itself
    levels: tuple[Rate, ...]
    own_key: tuple[Rate, ...]
    worst_key: tuple[Rate, ...]
    worst_key_id: str

    def cells(self) -> dict[str, str]:
        """Return what people look at first, by name."""
        of_key = {f"{rate.nominal:g}": f"{rate.fpr:.3g}" for rate in self.own_key}
        return {
            "key": self.key_id,
            "sequences": str(self.num_sequences),
            "keys": str(self.num_keys),
            **{f"called at {nominal}": share for nominal, share in of_key.items()},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
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
    """Return fresh key number 0, 1, ... with the same profile; it has marked no sequence."""
    secret = key.require_secret().subkey(f"null key/{number}")
    return Key.of(Secret(secret), key.profile)


def count_false_positives(
    key: Key,
    detector: str,
    sequences: Sequence[NDArray[np.int64]],
    *,
    num_keys: int = 200,
    workers: int = 1,
    step: Callable[[], None] = lambda: None,
) -> Calibration:
    """Count false positives on unmarked sequences; `step` is called after every key.

    Trials of one sequence under many keys, or of one key on similar sequences, are not independent.
    The intervals are then too narrow.
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
    """The data that a worker needs for every key."""

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


def _begin(job: bytes) -> None:
    global _job  # noqa: PLW0603  # sent once to each worker, not once for each key
    _job = pickle.loads(job)  # noqa: S301  # from the process that started this one


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
    with ProcessPoolExecutor(
        workers, get_context("spawn"), _begin, (pickle_with_secrets(job),)
    ) as pool:
        yield from pool.map(_hits_of, numbers)


def rank_p_values(
    make_detector: Callable[[Key], Detector],
    key: Key,
    readings: Sequence[Reading],
    num_keys: int,
    step: Callable[[], None] = lambda: None,
) -> list[float]:
    """Return (1 + fresh keys with at least the statistic of the key) / (1 + fresh keys) per record.

    This p-value is valid for any sequence: see `evidence.rank_p_value`.
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
    """Return the file that `detect` reads as the calibration of a key: KEY.calibration.json."""
    return key_file.with_name(f"{key_file.name}.calibration.json")


def calibration_warning(file: Path, key: Key, detector: str) -> str | None:
    """Return a warning if the calibration of a key shows too many false positives, else None."""
    if not file.exists():
        return None
    try:
        content = read_json(file)
        if content["key_id"] != key.key_id:
            return (
                f"{file}: this is the calibration of another key, {content['key_id']}: make it "
                "again, or remove it"
            )
        levels = [Rate(**level) for level in content["own_key"]["levels"]]
        is_of_detector = content["detector"] == detector
        if not all(_has_numbers(level) for level in levels):
            raise ValueError("not numbers")
    except (OSError, ValueError, KeyError, TypeError):
        return f"{file}: no calibration can be read from it: make it again, or remove it"
    for rate in levels if is_of_detector else []:
        if rate.nominal in _ALARM_LEVELS and rate.low > ALARMING * rate.nominal:
            return (
                f"{file}: this key called {rate.fpr:.2%} of {rate.trials} unmarked sequences "
                f"marked at a nominal rate of {rate.nominal:.1%} (at least {rate.low:.2%}): its "
                "p-values are too small for such sequences: decide by rank among fresh keys instead"
            )
    return None


def _has_numbers(level: Rate) -> bool:
    """Tell whether a rate from a file can be compared and shown."""
    whole = type(level.trials) is int and type(level.hits) is int
    return whole and all(
        isinstance(x, int | float) and abs(x) <= 1
        for x in (level.nominal, level.fpr, level.low, level.high)
    )


def check_num_keys(num_keys: int, fpr: float) -> None:
    """Raise an error if the number of fresh keys is too small to reach the false positive rate."""
    if num_keys < 1:
        raise ParameterError("at least one fresh key is needed for a comparison")
    least = float(rank_p_value(0, num_keys))
    if least > check_fpr(fpr):
        needed = np.ceil(1.0 / fpr - 1e-6) - 1  # infinite for the smallest numbers
        raise ParameterError(
            f"with {num_keys} fresh keys no p-value is below {least:.2g}: "
            f"an FPR of {fpr:g} needs {needed:.0f} fresh keys or more"
        )
