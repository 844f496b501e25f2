"""The picture of a verdict: agreement along the sequence, and the null with what was observed.

It does not name the parts, but whoever has the sequence can work them out from the track: with the
paper's scheme there are only 92,378 splits to try. A picture is as confidential as the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.detect import Detector, PatternStatistic
from patternmark.errors import ParameterError, PatternmarkError
from patternmark.recover import agreement, running_mean
from patternmark.verdict import Verdict, format_p

WINDOW = 31
MARKED, UNMARKED, NULL = "#0b7a75", "#8d99ae", "#c9d1d9"


def require_matplotlib() -> None:
    """Say what to install where matplotlib is missing."""
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
) -> None:
    """Draw one row for each verdict and save it; the suffix sets the format (png, svg, pdf)."""
    require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415  # no pyplot: no window, no state

    figure = Figure(figsize=(11, 0.6 + 2.4 * len(verdicts)), layout="constrained", dpi=150)
    grid = figure.subplots(len(verdicts), 2, squeeze=False, width_ratios=(3, 2))
    figure.suptitle(f"key {detector.key.key_id}, detector {detector.statistic.name}", fontsize=10)
    masks = scored if scored is not None else [None] * len(sequences)
    for (left, right), verdict, sequence, mask in zip(
        grid, verdicts, sequences, masks, strict=True
    ):
        encoded = detector.key.profile.alphabet.encode(sequence)
        recovered = detector.recover([encoded], [mask])
        colour = MARKED if verdict.prediction else UNMARKED
        _draw_agreement(left, detector, recovered[0], verdict, colour)
        _draw_null(right, detector, recovered.segments[0], verdict, colour)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path}: the picture cannot be written: {error}") from None


def _draw_agreement(
    axes: Any, detector: Detector, keys: Any, verdict: Verdict, colour: str
) -> None:
    chain = detector.key.profile.chain
    track = running_mean(agreement(keys, chain), WINDOW)
    chance = 1.0 / chain.num_keys
    position = np.arange(1, len(track) + 1)
    axes.axhline(chance, color="black", linewidth=0.8, linestyle=":")
    axes.plot(position, track, color=colour, linewidth=1.5)
    axes.fill_between(position, chance, track, where=track > chance, color=colour, alpha=0.2)
    axes.set(ylim=(0, 1), xlim=(1, max(len(track), 2)))
    axes.set_ylabel("keys that follow\nthe chain")
    axes.set_xlabel(f"position (average over {WINDOW}; dotted: chance)")
    axes.set_title(verdict.id or "sequence", loc="left", fontsize=10, parse_math=False)


def _draw_null(
    axes: Any, detector: Detector, segments: tuple[int, ...], verdict: Verdict, colour: str
) -> None:
    statistic = detector.statistic
    if not isinstance(statistic, PatternStatistic):
        return
    law = statistic.null.distribution(segments)
    likely = np.flatnonzero(law > law.max() * 1e-6)
    counts = np.arange(likely[0], likely[-1] + 1)
    axes.fill_between(counts, law[counts], step="mid", color=NULL)
    axes.axvline(verdict.statistic, color=colour, linewidth=2)
    axes.set(ylim=(0, None), yticks=[])
    axes.set_xlabel("target patterns: by chance (grey) and observed")
    call = "marked" if verdict.prediction else "no mark found"
    axes.set_title(f"p = {format_p(verdict.log10_p)}: {call}", loc="left", fontsize=10)
