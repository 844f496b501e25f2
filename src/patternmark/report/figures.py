"""The figures of the page of a report, as inline SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.intervals import mean_interval
from patternmark.report.track import WINDOW, Track
from patternmark.results import LN10
from patternmark.statistics import NullCurve
from patternmark.statistics.recover import running_mean

_MOST_POINTS = 1000  # points of a track; the page is about as many pixels wide


def dot_plot(groups: Sequence[NDArray[np.float64]], name: str, show: Callable[[float], str]) -> str:
    """Draw the values of marked and of unmarked designs, with their means."""
    everything = np.concatenate(groups)
    low, high = float(everything.min()), float(everything.max())
    pad = 0.06 * (high - low) or 0.05 * max(abs(high), 1.0)
    across = Scale(low - pad, high + pad, 84, 480)
    body = _x_axis(across, 116, [(t, show(t)) for t in _ticks(across.low, across.high, 5)])
    for values, y, kind, style in zip(groups, (32, 86), ("marked", "unmarked"), "mc", strict=True):
        body += _text(74, y + 4, kind, "end")
        if not len(values):
            continue
        spread = y + 30 * ((np.arange(len(values)) * 0.618034) % 1.0 - 0.5)  # no dot hides others
        for x, dot in zip(across.at(values).tolist(), spread.tolist(), strict=True):
            body += f'<circle class="dot {style}" cx="{x:.1f}" cy="{dot:.1f}" r="3"/>'
        found = mean_interval(values)
        mean, half = found["mean"], found["half"]
        if isfinite(half):  # with few designs, the interval may be wider than the frame
            ends = across.at(np.clip([mean - half, mean + half], across.low, across.high))
            body += f'<path class="bar {style}" d="M{ends[0]:.1f} {y}H{ends[1]:.1f}"/>'
        body += f'<circle class="mean {style}" cx="{across.at(mean):.1f}" cy="{y}" r="6"/>'
    return _svg(500, 140, f"{name}: each design, mean and 95 % interval", body)


def track_plot(track: Track, is_marked: bool) -> str:
    """Draw the agreement along a record, averaged over windows."""
    follows, length = track.agreement, len(track.agreement)
    mean, known = running_mean(follows, WINDOW), running_mean(1.0 - np.isnan(follows), WINDOW)
    mean[known < 0.5 * known.sum() / max(length, 1)] = np.nan  # too few for an average
    at = np.unique(np.linspace(0, length - 1, min(length, _MOST_POINTS)).astype(int))
    across, up = Scale(1, max(length, 2), 48, 1040), Scale(0, 1, 128, 12)
    chance = float(up.at(track.chance))
    body = "".join(_text(42, 132 - 116 * y, f"{100 * y:.0f} %", "end") for y in (0, 0.5, 1))
    body += _x_axis(across, 128, [(t, f"{t:g}") for t in _ticks(1, length, 10, least=1)])
    body += f'<path class="chance" d="M48 {chance:.1f}H1040"/>'
    style = "m" if is_marked else "c"
    edges = np.diff(~np.isnan(mean[at]), prepend=False, append=False)
    for start, stop in np.flatnonzero(edges).reshape(-1, 2).tolist():
        xs, ys = across.at(at[start:stop] + 1), up.at(mean[at[start:stop]])
        above = _points(xs, np.minimum(ys, chance))
        base = f"{xs[-1]:.1f},{chance:.1f} {xs[0]:.1f},{chance:.1f}"
        body += f'<polygon class="area {style}" points="{above} {base}"/>'
        body += f'<polyline class="line {style}" points="{_points(xs, ys)}"/>'
    text = f"{track.name.capitalize()}, by position (average over {WINDOW}; dotted: chance)"
    return f"<figure>{_svg(1060, 152, text, body)}</figure>\n"


def null_plot(curve: NullCurve, expected: float | None, is_marked: bool) -> str:
    """Draw the null of a statistic and its observed value."""
    seen, style = curve.observed, "m" if is_marked else "c"
    low, high = min(float(curve.values[0]), seen), max(float(curve.values[-1]), seen)
    pad = 0.02 * (high - low) + (0.5 if low == high or not curve.is_tail else 0.0)
    across = Scale(low - pad, high + pad, 48 if curve.is_tail else 8, 392)
    body = (_tail if curve.is_tail else _distribution)(curve, across)
    least = 0.0 if curve.is_tail else 1.0
    body += _x_axis(across, 178, [(t, f"{t:g}") for t in _ticks(low, high, 6, least=least)])
    x = float(across.at(seen))
    body += f'<path class="line {style}" d="M{x:.1f} 18V178"/>'
    anchor = "start" if x < 60 else "end" if x > 340 else "middle"
    body += _text(x, 13, f"observed {seen:.4g}", anchor)
    mean = "" if expected is None else f", {expected:.1f} expected"
    by_chance = "p-value (line, log10)" if curve.is_tail else f"chance (grey{mean})"
    name = curve.name[0].upper() + curve.name[1:]
    return f"<figure>{_svg(400, 204, f'{name}: {by_chance}, observed', body)}</figure>"


def _distribution(curve: NullCurve, across: Scale) -> str:
    up = Scale(0, float(curve.heights.max()), 178, 28)
    xs = across.at(np.repeat(curve.values, 2) + np.tile([-0.5, 0.5], len(curve.values)))
    shape = _points(xs, up.at(np.repeat(curve.heights, 2)))
    return f'<polygon class="null" points="{xs[0]:.1f},178 {shape} {xs[-1]:.1f},178"/>'


def _tail(curve: NullCurve, across: Scale) -> str:
    heights = curve.heights / LN10
    up = Scale(min(float(heights.min()), -1.0), 0, 178, 28)
    labels = "".join(_text(42, float(up.at(t)) + 4, f"{t:g}", "end") for t in _ticks(up.low, 0, 4))
    points = _points(across.at(curve.values), up.at(heights))
    return f'{labels}<polyline class="tail" points="{points}"/>'


@dataclass(frozen=True)
class Scale:
    low: float
    high: float
    start: float  # where `low` is drawn
    end: float

    def at(self, values: ArrayLike) -> NDArray[np.float64]:
        share = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return np.asarray(self.start + share * (self.end - self.start))


def _ticks(low: float, high: float, about: int, least: float = 0.0) -> list[float]:
    """Return roughly `about` round numbers between two values, at least `least` apart."""
    rough = max((high - low) / about, least, 1e-9)
    power = 10.0 ** floor(log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough * (1 - 1e-9))
    return [k * step for k in range(ceil(low / step), floor(high / step) + 1)]


def _points(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))


def _x_axis(scale: Scale, y: float, ticks: Sequence[tuple[float, str]]) -> str:
    labels = "".join(_text(float(scale.at(t)), y + 18, text, "middle") for t, text in ticks)
    return f'<path class="axis" d="M{scale.start} {y}H{scale.end}"/>{labels}'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _svg(width: int, height: int, label: str, body: str) -> str:
    picture = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{body}</svg>'
    return f'{picture}<figcaption class="soft">{label}</figcaption>'
