"""What detectors measure on a sequence, each with a p-value that holds."""

from collections.abc import Callable

from patternmark.chain import KeyChain
from patternmark.errors import ParameterError
from patternmark.key import Key
from patternmark.schedule import Excerpt
from patternmark.statistics.base import Measurement, NullCurve, Statistic
from patternmark.statistics.excerpts import OfExcerpts, needs_excerpts
from patternmark.statistics.pattern import PatternStatistic
from patternmark.statistics.phases import LocalStatistic, PhaseStatistic, SlipStatistic
from patternmark.statistics.ratio import AutoStatistic, RatioStatistic

__all__ = [
    "STATISTICS",
    "Measurement",
    "NullCurve",
    "PatternStatistic",
    "Statistic",
    "make_statistic",
]

_OF_KEY: dict[str, Callable[[Key, Excerpt | None], Statistic]] = {
    "auto": AutoStatistic,
    "phase": PhaseStatistic,
    "slip": SlipStatistic,
    "local": LocalStatistic,
    "lr": RatioStatistic,
}
STATISTICS = ("auto", "pattern", "phase", "slip", "local", "lr")


def make_statistic(
    name: str, key: Key, *, m: int | None = None, null: KeyChain | None = None
) -> Statistic:
    """Return the statistic of a name for a key; `m` and `null` are the pattern count's own."""
    if name not in STATISTICS:
        raise ParameterError(f"detector {name!r} is not known: take {', '.join(STATISTICS)}")
    if name == "pattern":
        return PatternStatistic(key, m, null)
    if m is not None or null is not None:
        raise ParameterError("a pattern length or a null of parts goes with --detector pattern")
    make = _OF_KEY[name]
    return OfExcerpts(make, key) if needs_excerpts(key) else make(key, None)
