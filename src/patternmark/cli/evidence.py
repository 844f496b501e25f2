"""What `detect` adds to single verdicts: comparison with fresh keys, and one p-value for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress

from patternmark.calibrate import (
    calibration_path,
    calibration_warning,
    check_num_keys,
    rank_p_values,
)
from patternmark.cli.output import warn
from patternmark.combine import Combined, combine, combine_texts
from patternmark.detect import NOTHING, Detector
from patternmark.key import Key
from patternmark.verdict import LN10, format_p, p_value_of

DEFAULT_NULL_KEYS = 999
_OF_GROUPS = "fisher over groups of similar records, bonferroni within"
_ONE_RECORD = "as chains of one record, in which every secret coin counts once"

if TYPE_CHECKING:
    from patternmark.cli.detect import Judged


def warn_of_calibration(key_file: Path, judge: Detector) -> None:
    """Say so if the calibration beside a key shows too many false positives."""
    message = calibration_warning(calibration_path(key_file), judge.key, judge.statistic.name)
    if message is not None:
        warn(message)


def num_fresh_keys(wanted: int | None, fpr: float, *, decides: bool) -> int:
    """Return how many fresh keys to compare with: none unless asked for."""
    number = (DEFAULT_NULL_KEYS if decides else 0) if wanted is None else wanted
    if decides:
        check_num_keys(number, fpr)
    return number


def compare_with_keys(
    judged: list[Judged],
    make_detector: Callable[[Key], Detector],
    judge: Detector,
    num_keys: int,
    bar: Progress,
    *,
    decides: bool,
) -> list[Judged]:
    """Add the p-value of the rank among fresh keys; where it `decides`, call by it."""
    if not judged or num_keys == 0:
        return judged
    items = [item for _, item in judged]
    readings = judge.read(
        [item.symbols for item in items],
        [item.scored for item in items],
        [item.rates for item in items],
    )
    task = bar.add_task("comparing with fresh keys", total=num_keys)
    ranks = rank_p_values(make_detector, judge.key, readings, num_keys, lambda: bar.advance(task))
    bar.remove_task(task)
    result: list[Judged] = []
    for (verdict, item), p in zip(judged, ranks, strict=True):
        is_marked = p <= judge.fpr if decides else verdict.prediction
        result.append((replace(verdict, p_keys=p, prediction=is_marked), item))
    return result


def combined_table(judged: list[Judged], judge: Detector) -> dict[str, Any]:
    """Return one p-value for all records but native ones and those with nothing to score.

    It combines the ordinary p-values: ranks among the same fresh keys are not independent.
    """
    used = [
        (verdict, item)
        for verdict, item in judged
        if not verdict.note.startswith(NOTHING)
        and not (item.record.design is not None and item.record.design.is_native)
    ]
    found, method = _combined(used, judge)
    finite = found.log_p > -float("inf")
    return {
        "combined": True,
        "num_records": found.num_records,
        "num_groups": len(found.groups),
        "p_value": p_value_of(found.log_p),
        "log10_p": found.log_p / LN10 if finite else None,
        "prediction": found.log_p <= log(judge.fpr),
        "fpr": judge.fpr,
        "method": method,
        "key_id": judge.key.key_id,
        "signature": judge.signature,
    }


def _combined(judged: list[Judged], judge: Detector) -> tuple[Combined, str]:
    """Return the evidence of all records, and how it was combined."""
    symbols = [item.symbols for _, item in judged]
    if _as_texts(judge):
        return combine_texts(judge, symbols, [item.scored for _, item in judged]), _ONE_RECORD
    log_ps = [-float("inf") if v.p_value == 0.0 else v.log10_p * LN10 for v, _ in judged]
    return combine(log_ps, symbols, judge.key.profile.alphabet), _OF_GROUPS


def _as_texts(judge: Detector) -> bool:
    return judge.key.profile.alphabet.has_many_symbols and judge.mask_repeats


def print_combined(judged: list[Judged], judge: Detector, *, wanted: bool, as_json: bool) -> None:
    """Print the summary of all records."""
    if not wanted:
        return
    table = combined_table(judged, judge)
    typer.echo(json.dumps(table) if as_json else _in_words(table, texts=_as_texts(judge)))


def _in_words(table: dict[str, Any], *, texts: bool) -> str:
    log10_p = -float("inf") if table["log10_p"] is None else table["log10_p"]
    call = "marked" if table["prediction"] else "no mark found"
    of_what = (
        f"{table['num_records']} texts, {table['num_groups']} of them with tokens that no earlier "
        "one has; only these count"
        if texts
        else f"{table['num_records']} sequences in {table['num_groups']} groups of similar ones; "
        "the best of each counts"
    )
    return f"all together: p = {format_p(log10_p)}, {call} ({of_what})"
