"""Pictures of rates: false positives against nominal rates, detection against length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patternmark.errors import ParameterError
from patternmark.plan.calibrate import Calibration, Rate
from patternmark.plan.power import Power
from patternmark.report.plot import require_matplotlib

_COLOURS = ("#0b7a75", "#d17b0f", "#5b4b8a", "#8d99ae", "#b23a48", "#3f88c5")


def plot_calibration(calibration: Calibration, path: str) -> None:
    """Draw measured against nominal rates with their intervals, on logarithmic axes."""
    figure, axes = _figure()
    rows = ((calibration.levels, "all keys", 1.0), (calibration.own_key, "this key", 1.15))
    nominal = [rate.nominal for rate in calibration.levels]
    axes.plot(nominal, nominal, color="black", linewidth=0.8, linestyle=":", label="as nominal")
    for (rates, name, shift), colour in zip(rows, _COLOURS, strict=False):
        _draw_rates(axes, rates, name, shift, colour)
    lowest = min(1.0 / max(rate.trials, 1) for rate in calibration.levels)
    axes.set(xscale="log", yscale="log", ylim=(min(lowest, *nominal) / 3, 1))
    axes.set_xlabel("nominal false positive rate")
    axes.set_ylabel("on unmarked sequences (95 % interval)")
    _finish(figure, axes, path, f"key {calibration.key_id}, detector {calibration.detector}")


def _draw_rates(axes: Any, rates: Sequence[Rate], name: str, shift: float, colour: str) -> None:
    for number, rate in enumerate(rates):
        x = rate.nominal * shift  # the two series stand side by side
        axes.plot([x, x], [max(rate.low, 1e-12), rate.high], color=colour, linewidth=1.5)
        label = name if number == 0 else None
        if rate.hits:
            axes.plot([x], [rate.fpr], "o", color=colour, label=label)
        else:  # without hits, only the end of the interval can be shown
            axes.plot([x], [rate.high], "v", color=colour, markerfacecolor="none", label=label)


def plot_power(curves: Sequence[Sequence[Power]], path: str, title: str) -> None:
    """Draw the rate of detection against length, with a curve for each delta."""
    figure, axes = _figure()
    for curve, colour in zip(curves, _COLOURS, strict=False):
        lengths = [point.length for point in curve]
        axes.plot(lengths, [p.tpr for p in curve], "o-", color=colour, label=f"{curve[0].delta:g}")
        low, high = [p.low for p in curve], [p.high for p in curve]
        axes.fill_between(lengths, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(ylim=(0, 1.02), xscale="log")
    ticks = [point.length for point in curves[0]]
    axes.set_xticks(ticks, [str(length) for length in ticks])
    axes.minorticks_off()
    axes.set_xlabel("residues")
    axes.set_ylabel("found (95 % interval)")
    _finish(figure, axes, path, title)


def _figure() -> tuple[Any, Any]:
    require_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415  # no pyplot: no window, no state

    figure = Figure(figsize=(6, 4.5), layout="constrained", dpi=150)
    return figure, figure.subplots()


def _finish(figure: Any, axes: Any, path: str, title: str) -> None:
    axes.legend(frameon=False)
    axes.set_title(title, loc="left", fontsize=10)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path}: the picture cannot be written: {error}") from None
