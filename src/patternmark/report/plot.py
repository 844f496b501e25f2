"""The picture of a verdict: agreement along the sequence, and the null with the observed value.

It shows neither parts nor keys, but with the sequence the track reveals them. In the paper's scheme
there are only 92,378 possible partitions into two parts, and the track shows which one is right.
Tracks of other schemes have one point for each window: they show how many symbols of a window agree
with their keys, but not which ones. Even so, a picture is as confidential as the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.detector import Detector
from patternmark.errors import ParameterError, PatternmarkError
from patternmark.io.files import write_private
from patternmark.report.track import WINDOW, Track, Tracker
from patternmark.results import LN10, Verdict, format_p
from patternmark.statistics import NullCurve
from patternmark.statistics.recover import running_mean

MARKED, UNMARKED, NULL = "#0b7a75", "#8d99ae", "#c9d1d9"


def require_matplotlib() -> None:
    """Raise an error that says what to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401, PLC0415
    except ImportError:
        raise PatternmarkError(
            "pictures need matplotlib: pip install 'patternmark[plot]'"
        ) from None


def plot_verdicts(
    detector: Detector,
    verdicts: Sequence[Verdict],
    sequences: Sequence[str | ArrayLike],
    path: str,
    scored: Sequence[NDArray[np.bool_] | None] | None = None,
    rates: Sequence[NDArray[np.float64] | None] | None = None,
) -> None:
    """Draw one row for each verdict and save the picture; the suffix sets its format.

    Only its owner can read the file: with the sequences the picture reveals what the key promotes.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415  # no pyplot: no window, no state

    figure = Figure(figsize=(11, 0.6 + 2.4 * len(verdicts)), layout="constrained", dpi=150)
    grid = figure.subplots(len(verdicts), 2, squeeze=False, width_ratios=(3, 2))
    figure.suptitle(f"key {detector.key.key_id}, detector {detector.statistic.name}", fontsize=10)
    encoded = [detector.key.profile.alphabet.encode(sequence) for sequence in sequences]
    tracker = Tracker(detector.key)
    for (left, right), verdict, reading in zip(
        grid, verdicts, detector.read(encoded, scored, rates), strict=True
    ):
        colour = MARKED if verdict.prediction else UNMARKED
        left.set_title(verdict.id or "sequence", loc="left", fontsize=10, parse_math=False)
        _draw_track(left, tracker.follow(reading), colour)
        call = "marked" if verdict.prediction else "no mark found"
        right.set_title(f"p = {format_p(verdict.log10_p)}: {call}", loc="left", fontsize=10)
        _draw_null(right, detector.statistic.null_curve(reading, verdict.statistic), colour)
    content = BytesIO()
    try:
        figure.savefig(content, format=Path(path).suffix.removeprefix(".") or "png")
    except ValueError as error:
        raise ParameterError(f"{path}: the picture cannot be written: {error}") from None
    write_private(Path(path), content.getvalue(), overwrite=True)


def _draw_track(axes: Any, track: Track, colour: str) -> None:
    mean = running_mean(track.agreement, WINDOW)
    # The differences between overlapping windows would reveal which symbols agree.
    first, step = (0, 1) if track.shows_symbols else (min(WINDOW, len(mean)) // 2, WINDOW)
    at = np.arange(first, len(mean), step)
    position, mean = at + 1, mean[at]
    axes.axhline(track.chance, color="black", linewidth=0.8, linestyle=":")
    axes.plot(
        position, mean, color=colour, linewidth=1.5, marker=None if track.shows_symbols else "o"
    )
    above = mean > track.chance
    axes.fill_between(
        position, track.chance, mean, where=above, color=colour, alpha=0.2, interpolate=True
    )
    axes.set(ylim=(0, 1), xlim=(1, max(len(track.agreement), 2)))
    axes.set_ylabel(track.name.replace(" that ", "\nthat "))
    axes.set_xlabel(f"position (average over {WINDOW}; dotted: chance)")


def _draw_null(axes: Any, curve: NullCurve, colour: str) -> None:
    axes.axvline(curve.observed, color=colour, linewidth=2)
    if curve.is_tail:
        log10_p = curve.heights / LN10
        axes.plot(curve.values, log10_p, color="black", linewidth=1)
        axes.set(ylim=(min(1.05 * log10_p.min(), -1.0), 0))
        axes.set_ylabel("log10 p")
        axes.set_xlabel(f"{curve.name}; line: p-value")
    else:
        axes.fill_between(curve.values, curve.heights, step="mid", color=NULL)
        axes.set(ylim=(0, None), yticks=[])
        axes.set_xlabel(f"{curve.name}; grey: by chance")
