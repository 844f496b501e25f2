"""What `detect` adds to single verdicts: comparison with fresh keys, and one p-value for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import Progress

from patternmark.cli.items import signed_for_all
from patternmark.cli.output import warn
from patternmark.combination import Combined, Rule, combine
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.detector import Detector
from patternmark.errors import ParameterError
from patternmark.evidence import call_by_rank
from patternmark.plan.calibrate import (
    calibration_path,
    calibration_warning,
    check_num_keys,
    rank_p_values,
)
from patternmark.results import Status, format_p

DEFAULT_NULL_KEYS = 999

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
        try:
            check_num_keys(number, fpr)
        except ParameterError as error:
            raise ParameterError(f"{error}: set --null-keys") from None
    return number


def readings_of(judged: list[Judged], judge: Detector) -> list[Reading]:
    """Return what the detector read of records."""
    items = [item for _, item in judged]
    return judge.read(
        [item.symbols for item in items],
        [item.scored for item in items],
        [item.rates for item in items],
    )


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
    readings = readings_of(judged, judge)
    task = bar.add_task("comparing with fresh keys", total=num_keys)
    ranks = rank_p_values(make_detector, judge.key, readings, num_keys, lambda: bar.advance(task))
    bar.remove_task(task)
    return [
        (call_by_rank(verdict, p, num_keys, decides=decides), item)
        for (verdict, item), p in zip(judged, ranks, strict=True)
    ]


def combined_evidence(judged: list[Judged], judge: Detector) -> Combined:
    """Combine all records but native ones and those with nothing to score."""
    used = [
        (verdict, item)
        for verdict, item in judged
        if verdict.status is not Status.NOTHING_TO_SCORE
        and not (item.record.design is not None and item.record.design.is_native)
    ]
    return combine(
        judge,
        [item.symbols for _, item in used],
        [item.scored for _, item in used],
        [item.rates for _, item in used],
        verdicts=[verdict for verdict, _ in used],
    )


def print_combined(judged: list[Judged], judge: Detector, *, wanted: bool, as_json: bool) -> None:
    """Print the summary of all records."""
    if wanted:
        found = combined_evidence(judged, judge)
        signature = signed_for_all(found.signature, (item for _, item in judged))
        found = replace(found, signature=signature)
        typer.echo(json.dumps(found.to_dict()) if as_json else _in_words(found))


def _in_words(found: Combined) -> str:
    call = "marked" if found.prediction else "no mark found"
    groups, records = len(found.groups), found.num_records
    of_what = {
        Rule.COINS: f"{records} texts, {groups} of them with tokens that no earlier one has; only "
        "these count",
        Rule.GROUPS: f"{records} sequences in {groups} groups of similar ones; "
        "the best of each counts",
        Rule.NONCES: f"{records} sequences; each secret coin counts once, and p holds whoever "
        "wrote them",
    }[found.how]
    return f"all together: p = {format_p(found.log10_p)}, {call} ({of_what})"
