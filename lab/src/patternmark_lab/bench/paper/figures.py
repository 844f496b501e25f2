"""The figures of `bench paper`: the same numbers give the same files.

A scheme has the same colour and marker everywhere (colours by Okabe and Ito, which colour-blind
readers can tell apart). The paper's marks under our detector, and the second reading of Soft, are
dashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patternmark.errors import InputError
from patternmark_lab.bench.paper.findings import MEASURES, Row, key_of
from patternmark_lab.bench.paper.plan import LEVELS, OURS, OURS_LIKELIEST, REPORTED, Cell
from patternmark_lab.bench.paper.summary import span
from patternmark_lab.bench.paper.verdicts import NULLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REPORTED = key_of(REPORTED)
_FOUND = f"percent found, measured FPR {100 * REPORTED:g} %"
_NOMINAL = f"percent found, nominal FPR {100 * REPORTED:g} %"

# Colour, marker, dashes.
_STYLES = {
    "soft": ("#E69F00", "o", "-"),
    "soft-by-step": ("#E69F00", "v", "--"),
    "unigram": ("#009E73", "s", "-"),
    "multikey": ("#8C7A00", "D", "-"),
    "tango": ("#56B4E9", "^", "-"),
    "eth": ("#CC79A7", "P", "-"),
    "dmark": ("#999999", "X", "-"),
    "lr-dwm": ("#5D3A1A", "<", "-"),
    "umr": ("#6A3D9A", ">", "-"),
    "denmark-lexical": ("#000000", "h", "-"),
    "pattern-mark": ("#0072B2", "o", "-"),
    "pattern-auto": ("#0072B2", "s", "--"),
    OURS_LIKELIEST: ("#D55E00", "v", "--"),
    OURS: ("#D55E00", "*", "-"),
}

# The title of each figure.
FIGURES = {
    "tradeoff": "Marks found against quality lost",
    "quality": "Marks found against other measures of quality",
    "ablations": "Pattern lengths and transition matrices",
    "length": "Marks found in windows of each length",
    "false-positives": "Measured over nominal false positive rates; small dots are keys",
}


def has_figure(name: str, summary: Row) -> bool:
    """Tell whether a figure has something to draw."""
    if name == "quality":  # for texts, chrF would look like BLEU
        return bool(summary["task"] == "protein")
    return name != "ablations" or bool(summary["ablation_m"] or summary["ablation_stay"])


def draw_all(result: dict[str, Any], tasks: Sequence[str], folder: Path) -> list[Path]:
    """Draw all figures of a result as PNG and SVG, if matplotlib is installed."""
    if find_spec("matplotlib") is None:
        return []
    drawn = []
    for task in (task for task in tasks if task in result):
        for name, draw in _DRAWERS.items():
            if has_figure(name, result[task]):
                drawn += _save(draw, result[task], folder / f"paper-{task}-{name}")
    return drawn


def _save(draw: Callable[[Row], Figure], summary: Row, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG, without a date in the files."""
    files = []
    try:
        with _settings():
            figure = draw(summary)
            for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None})):
                file = path.with_name(f"{path.name}.{kind}")
                figure.savefig(file, metadata=facts)
                files.append(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be drawn: {error.strerror or error}") from None
    return files


@contextmanager
def _settings() -> Iterator[None]:
    from matplotlib import rc_context  # noqa: PLC0415  # not needed to measure

    fixed = {
        "svg.hashsalt": "patternmark",
        "svg.fonttype": "none",
        "font.size": 9.0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.fontsize": 8.0,
        "legend.frameon": False,
    }
    with rc_context(fixed):  # type: ignore[arg-type]
        yield


def _panels(count: int, width: float = 4.6) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width * count, 4.0), layout="constrained", dpi=150)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _legend(figure: Figure, axes: Axes) -> None:
    """Put the names of the schemes to the right of all panels."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")


def _line(
    axes: Axes, judge: str, points: Sequence[tuple[float, Row]], intervals: bool = True
) -> None:
    """Draw one detector, with the intervals of its rates if `intervals`."""
    colour, marker, dashes = _STYLES[judge]
    at = [place for place, _ in points]
    ours = judge == OURS
    axes.plot(
        at,
        [100 * rate["rate"] for _, rate in points],
        color=colour,
        marker=marker,
        linestyle=dashes,
        linewidth=2.4 if ours else 1.3,
        markersize=9 if ours else 5,
        label=judge,
        zorder=3 if ours else 2,
    )
    if not intervals:
        return
    ends = [span(rate) for _, rate in points]
    low, high = ([100 * end[i] for end in ends] for i in (0, 1))
    axes.vlines(at, low, high, color=colour, linewidth=0.8, alpha=0.6)


def _judges(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["judge"] for row in rows))


def _against(axes: Axes, summary: Row, measure: str) -> None:
    """Draw the share found at a measured level against the loss of one measure."""
    quality = {row["cell"]: row for row in summary["quality"]}
    for judge in _judges(summary["detection"]):
        points = [
            (
                quality[Cell(row["scheme"], row["delta"]).name][f"{measure} lost"]["mean"],
                row["matched"][_REPORTED],
            )
            for row in summary["detection"]
            if row["judge"] == judge
        ]
        _line(axes, judge, points)  # in the order of strengths, not of quality
    axes.axvline(0.0, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel=_LABELS.get(measure, f"{measure} lost"), ylim=(-3, 103))


_LABELS = {
    "nll": "likelihood lost (nats per residue)",
    "score, v_48_002": "likelihood lost under v_48_002 (nats per residue)",
    "score, v_48_030": "likelihood lost under v_48_030 (nats per residue)",
    "structure agreement": "structure agreement lost (share of residues)",
    "BLEU": "BLEU lost",
    "chrF": "chrF lost",
}


def _tradeoff(summary: Row) -> Figure:
    figure, (axes,) = _panels(1, 6.4)
    _against(axes, summary, MEASURES[summary["task"]][0])
    axes.set_ylabel(_FOUND)
    _legend(figure, axes)
    return figure


def _quality(summary: Row) -> Figure:
    """Draw the measures that are independent of the sampler, instead of pLDDT."""
    some = [m for m in MEASURES[summary["task"]][1:] if f"{m} lost" in summary["quality"][0]]
    figure, panels = _panels(len(some))
    for axes, measure in zip(panels, some, strict=True):
        _against(axes, summary, measure)
    panels[0].set_ylabel(_FOUND)
    _legend(figure, panels[0])
    return figure


def _ablations(summary: Row) -> Figure:
    parts = [
        ("ablation_m", "value", "pattern length m"),
        ("ablation_stay", "stay", "a11 (share that keeps its key)"),
    ]
    shown = [part for part in parts if summary[part[0]]]
    figure, panels = _panels(len(shown))
    for axes, (rows, field, label) in zip(panels, shown, strict=True):
        ordered = sorted(summary[rows], key=lambda row: float(row[field]))
        for level, dashes in ((0.01, "--"), (REPORTED, "-"), (1e-5, ":")):
            at = [row[field] for row in ordered]
            rates = [row["nominal"][key_of(level)] for row in ordered]
            found = [100 * rate["rate"] for rate in rates]
            style: dict[str, Any] = {"color": _STYLES["pattern-mark"][0], "linestyle": dashes}
            axes.plot(at, found, marker="o", label=f"FPR {100 * level:g} %", **style)
            low, high = ([100 * span(rate)[i] for rate in rates] for i in (0, 1))
            axes.fill_between(at, low, high, color=style["color"], alpha=0.08, linewidth=0)
        axes.set(xlabel=f"{label}, delta {ordered[0]['delta']:g}", ylim=(-3, 103))
    panels[0].set_ylabel("percent found, nominal FPR")
    _legend(figure, panels[0])
    return figure


def _length(summary: Row) -> Figure:
    rows = summary["lengths"]
    deltas = sorted({row["delta"] for row in rows})
    figure, panels = _panels(len(deltas))
    for axes, delta in zip(panels, deltas, strict=True):
        for judge in _judges(rows):
            points = sorted(
                (
                    (row["value"], row["nominal"][_REPORTED])
                    for row in rows
                    if row["judge"] == judge and row["delta"] == delta
                ),
                key=lambda point: float(point[0]),
            )
            if points:
                _line(axes, judge, points, intervals=False)
        axes.axhline(95.0, color="black", linewidth=0.8, linestyle=":")
        unit = "residues" if summary["task"] == "protein" else "tokens"
        axes.set(xlabel=f"{unit} in a window, delta {delta:g}", ylim=(-3, 103))
    panels[0].set_ylabel(_NOMINAL)
    _legend(figure, panels[0])
    return figure


def _false_positives(summary: Row) -> Figure:
    """Draw measured rates against nominal ones; rates of 0 are left out."""
    figure, panels = _panels(len(NULLS))
    for axes, what in zip(panels, NULLS, strict=True):
        rows = [row for row in summary["false_positives"] if row["what"] == what]
        for number, row in enumerate(rows):
            found = [(level, row["rates"][key_of(level)]) for level in LEVELS]
            seen = [(level, rate["rate"]) for level, rate in found if rate["rate"] > 0]
            colour, marker, dashes = _STYLES[row["judge"]]
            axes.plot(
                [level for level, _ in seen],
                [rate for _, rate in seen],
                color=colour,
                marker=marker,
                linestyle=dashes,
                linewidth=2.4 if row["judge"] == OURS else 1.3,
                markersize=9 if row["judge"] == OURS else 5,
                label=row["judge"],
            )
            # Draw each key at the reported level, because keys differ far more than sequences do.
            by_key = [rate for rate in row["by_key"] if rate > 0]
            place = REPORTED * 10 ** (0.05 * (number - len(rows) / 2))
            axes.scatter([place] * len(by_key), by_key, s=5, color=colour, alpha=0.6, zorder=1)
        axes.plot(LEVELS, LEVELS, color="black", linewidth=0.8, linestyle=":")
        n = rows[0]["rates"][_REPORTED]["n"]
        axes.set(xscale="log", yscale="log", xlabel=f"nominal rate: {what}, n = {n:,} each")
    panels[0].set_ylabel("measured false positive rate")
    _legend(figure, panels[0])
    return figure


_DRAWERS: dict[str, Callable[[Row], Figure]] = {
    "tradeoff": _tradeoff,
    "quality": _quality,
    "ablations": _ablations,
    "length": _length,
    "false-positives": _false_positives,
}
