"""`power`: predict how often a mark is found. `calibrate`: count false positives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

from patternmark.api.given import Given, GivenKey, Reader, ReadOptions, key_and_folder
from patternmark.core.profile import Profile
from patternmark.errors import ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.items import signed_for_all
from patternmark.io.manifest_use import IGNORE
from patternmark.plan.calibrate import Calibration, count_false_positives
from patternmark.plan.power import DRAWS, LONGEST, Power, PowerStudy
from patternmark.statistics.rates import DELTAS

GOAL = 0.95  # the default rate of detection to reach


def power(
    delta: float | None = None,
    length: int | None = None,
    *,
    tpr: float | None = None,
    fpr: float = DEFAULT_FPR,
    profile: Profile | None = None,
    draws: int = DRAWS,
    seed: int = 1,
    step: Callable[[str], None] = lambda what: None,
) -> Power:
    """Predict how often a mark is found, or what it takes to find it.

    Give `delta` and `length` for the expected rate of detection. Leave out one of them for the
    smallest value that reaches the rate `tpr` (0.95). `profile` has the scheme of the key. The
    agreement rates come from ProteinMPNN's designs. `step` is called for each simulated rate.

    >>> import patternmark as pm
    >>> pm.power(delta=1.0, length=300, draws=40).tpr > 0.9
    True
    """
    check_unknowns(delta, length, tpr)
    study = PowerStudy(profile or Profile(), fpr, draws=draws, seed=seed, step=step)
    return smallest_that_suffices(study, delta, length, GOAL if tpr is None else tpr)


def check_unknowns(delta: float | None, length: int | None, tpr: float | None) -> None:
    """Raise ParameterError unless delta, length or both are given, and `tpr` only with one."""
    if delta is None and length is None:
        raise ParameterError("give delta=X, length=N or both")
    if delta is not None and length is not None and tpr is not None:
        raise ParameterError(
            "tpr=P is a goal: leave out delta=X or length=N, which is then chosen to reach it"
        )
    if tpr is not None and not 0.0 < tpr < 1.0:
        raise ParameterError(f"tpr=P must lie between 0 and 1, not {tpr:g}")


def smallest_that_suffices(
    study: PowerStudy, delta: float | None, length: int | None, tpr: float
) -> Power:
    """Return the rate for a strength and a length; one that is None gets its smallest value."""
    if delta is not None and length is not None:
        return study.power(delta, length)
    if delta is not None:
        found = study.least_length(delta, tpr)
        limit = f"{LONGEST} residues do not reach"
    else:
        found = study.least_delta(length or 0, tpr)
        limit = f"delta {DELTAS[-1]:g}, the largest that was measured, does not reach"
    if found is None:
        raise ParameterError(f"{limit} a rate of {tpr:g} at an FPR of {study.fpr:g}")
    return found


def calibrate(
    records: Given,
    key: GivenKey,
    *,
    detector: str = "auto",
    null_keys: int = 200,
    workers: int = 1,
    **options: Unpack[ReadOptions],
) -> Calibration:
    """Count the false positives of a key, and of fresh keys, on sequences without a mark.

    `records`, `key` and the options are those of `detect`.

    >>> import patternmark as pm
    >>> key = pm.Key.generate(pm.Profile())
    >>> pm.calibrate(["MKTAYIAKQR" * 9, "MSTNPKPQRK" * 9], key, null_keys=4).num_keys
    5
    """
    loaded, folder = key_and_folder(key)
    # All residues are counted here: no manifest is read.
    reader = Reader(loaded.profile.alphabet, folder, {**options, "manifest": IGNORE})
    items = list(reader.items(records))
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        reader.progress("calibrating", done, null_keys + 1)

    found = count_false_positives(
        loaded,
        detector,
        [item.symbols for item in items],
        num_keys=null_keys,
        workers=workers,
        step=step,
    )
    return replace(found, signature=signed_for_all(found.signature, items))
