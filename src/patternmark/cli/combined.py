"""What `detect` prints besides verdicts: a warning, and one p-value for all records."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from patternmark.api.detecting import Judged, combine_judged
from patternmark.cli.output import warn
from patternmark.combination import Combined, Rule
from patternmark.detector import Detector
from patternmark.plan.calibrate import calibration_path, calibration_warning
from patternmark.results import format_p


def warn_of_calibration(key_file: Path, judge: Detector) -> None:
    """Warn if the calibration file beside a key shows too many false positives."""
    message = calibration_warning(calibration_path(key_file), judge.key, judge.statistic.name)
    if message is not None:
        warn(message)


def print_combined(
    judged: list[Judged], judge: Detector, *, as_json: bool, verdict_only: bool
) -> None:
    """Print the p-value of all records together, or the call alone."""
    found = combine_judged(judged, judge)
    if verdict_only:
        words = f"all together: {found.status.in_words} ({found.num_records} records)"
        typer.echo(json.dumps(found.bare().to_dict()) if as_json else words)
    else:
        typer.echo(json.dumps(found.to_dict()) if as_json else _describe(found))


def _describe(found: Combined) -> str:
    call = "marked" if found.prediction else "no mark found"
    groups, records = len(found.groups), found.num_records
    details = {
        Rule.COINS: f"{records} texts, {groups} of them with tokens that no earlier one has; only "
        "these count",
        Rule.GROUPS: f"{records} sequences in {groups} groups of similar ones; "
        "the best of each counts",
        Rule.NONCES: f"{records} sequences; each secret coin counts once, and p holds whoever "
        "wrote them",
    }[found.how]
    return f"all together: p = {format_p(found.log10_p)}, {call} ({details})"
