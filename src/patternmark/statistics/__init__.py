"""The statistics that detectors compute from a sequence, each with a valid p-value."""

from collections.abc import Callable

from patternmark.core.alphabet import PROTEIN
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.errors import ParameterError
from patternmark.statistics.base import Measurement, NullCurve, Statistic
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.excerpts import Excerpt, PerBatchStatistic, needs_excerpts
from patternmark.statistics.paper_backbone import BACKBONE, BackboneStatistic
from patternmark.statistics.pattern_count import PatternStatistic
from patternmark.statistics.phases import LocalStatistic, PhaseStatistic, SlipStatistic
from patternmark.statistics.ratio import AutoStatistic, RatioStatistic, reads_all_tokens
from patternmark.statistics.texts import AnyTextStatistic, TextStatistic

__all__ = [
    "BACKBONE",
    "DETECTORS",
    "STATISTICS",
    "Measurement",
    "NullCurve",
    "PatternStatistic",
    "Statistic",
    "make_backbone",
    "make_statistic",
]

_CIRCLE_STATISTICS: dict[str, Callable[[Key, Excerpt | None], Statistic]] = {
    "auto": AutoStatistic,
    "phase": PhaseStatistic,
    "slip": SlipStatistic,
    "local": LocalStatistic,
    "lr": RatioStatistic,
}
_TEXT_STATISTICS: dict[str, Callable[[Key, Excerpt | None], Statistic]] = {
    "auto": TextStatistic,
    "lr": AnyTextStatistic,
}
_BLOCK_DETECTORS = ("auto", "lr")
STATISTICS = ("auto", "pattern", "phase", "slip", "local", "lr")
DETECTORS = {
    Paper.name: STATISTICS,
    Turns.name: tuple(_CIRCLE_STATISTICS),
    Blocks.name: _BLOCK_DETECTORS,
}


def make_statistic(
    name: str, key: Key, *, m: int | None = None, null: KeyChain | None = None
) -> Statistic:
    """Return the statistic `name` for a key; `m` and `null` apply to 'pattern' only."""
    if name not in STATISTICS:
        raise ParameterError(f"detector {name!r} is unknown: use {', '.join(STATISTICS)}")
    scheme = key.profile.scheme.name
    if name not in DETECTORS[scheme]:
        raise ParameterError(
            f"the detector {name!r} cannot judge keys of the scheme {scheme!r}: use "
            f"{' or '.join(DETECTORS[scheme])}"
        )
    if name == "pattern":
        return PatternStatistic(key, m, null)
    if m is not None or null is not None:
        raise ParameterError("m and null apply only to the detector 'pattern'")
    return _MAKERS[scheme](name, key)


def make_backbone(key: Key, source: str = "source:unknown") -> Statistic:
    """Return the statistic for readings that have rates of positions (see `expected_rates`).

    `source` says where the rates come from: it becomes part of the signature.
    """
    profile = key.profile
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            f"rates of positions exist only for proteins, but key {key.key_id} marks the alphabet "
            f"{profile.alphabet.name!r}"
        )
    return _WITH_RATES[profile.scheme.name](key, source)


def _make_for_circle(name: str, key: Key) -> Statistic:
    if name in _TEXT_STATISTICS and reads_all_tokens(key.profile):
        return PerBatchStatistic(_TEXT_STATISTICS[name], key)
    make = _CIRCLE_STATISTICS[name]
    return PerBatchStatistic(make, key) if needs_excerpts(key) else make(key, None)


def _make_for_blocks(name: str, key: Key) -> Statistic:
    return BlockStatistic.of(key, name=name)


_MAKERS: dict[str, Callable[[str, Key], Statistic]] = {
    Paper.name: _make_for_circle,
    Turns.name: _make_for_circle,
    Blocks.name: _make_for_blocks,
}


def _make_blocks_with_rates(key: Key, source: str) -> Statistic:
    return BlockStatistic.of(key, name=BACKBONE, source=source)


_WITH_RATES: dict[str, Callable[[Key, str], Statistic]] = {
    Paper.name: BackboneStatistic,
    Blocks.name: _make_blocks_with_rates,
}
