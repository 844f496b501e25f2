"""What detectors measure on a sequence, each with a p-value that holds."""

from collections.abc import Callable

from patternmark.core.alphabet import PROTEIN
from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.schemes import Blocks, Paper, Turns
from patternmark.errors import ParameterError
from patternmark.statistics.base import Measurement, NullCurve, Statistic
from patternmark.statistics.block_ratio import BlockStatistic
from patternmark.statistics.excerpts import Excerpt, OfExcerpts, needs_excerpts
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

_OF_PHASES: dict[str, Callable[[Key, Excerpt | None], Statistic]] = {
    "auto": AutoStatistic,
    "phase": PhaseStatistic,
    "slip": SlipStatistic,
    "local": LocalStatistic,
    "lr": RatioStatistic,
}
_OF_TEXTS: dict[str, Callable[[Key, Excerpt | None], Statistic]] = {
    "auto": TextStatistic,
    "lr": AnyTextStatistic,
}
_OF_BLOCKS = ("auto", "lr")
STATISTICS = ("auto", "pattern", "phase", "slip", "local", "lr")
DETECTORS = {Paper.name: STATISTICS, Turns.name: tuple(_OF_PHASES), Blocks.name: _OF_BLOCKS}


def make_statistic(
    name: str, key: Key, *, m: int | None = None, null: KeyChain | None = None
) -> Statistic:
    """Return the statistic of a name for a key; `m` and `null` are the pattern count's own."""
    if name not in STATISTICS:
        raise ParameterError(f"detector {name!r} is not known: take {', '.join(STATISTICS)}")
    scheme = key.profile.scheme.name
    if name not in DETECTORS[scheme]:
        raise ParameterError(
            f"the detector {name!r} does not judge keys of the scheme {scheme!r}: take "
            f"{' or '.join(DETECTORS[scheme])}"
        )
    if name == "pattern":
        return PatternStatistic(key, m, null)
    if m is not None or null is not None:
        raise ParameterError("a pattern length or a null of parts goes with the detector 'pattern'")
    return _MAKERS[scheme](name, key)


def make_backbone(key: Key, source: str = "source:unknown") -> Statistic:
    """Return what judges readings with rates of positions (see `expected_rates`) by a key.

    `source` says where the rates come from: it becomes part of the signature.
    """
    profile = key.profile
    if profile.alphabet != PROTEIN:
        raise ParameterError(
            f"rates of positions are known for proteins: key {key.key_id} marks alphabet "
            f"{profile.alphabet.name!r}"
        )
    return _WITH_RATES[profile.scheme.name](key, source)


def _of_phases(name: str, key: Key) -> Statistic:
    if name in _OF_TEXTS and reads_all_tokens(key.profile):
        return OfExcerpts(_OF_TEXTS[name], key)
    make = _OF_PHASES[name]
    return OfExcerpts(make, key) if needs_excerpts(key) else make(key, None)


def _of_blocks(name: str, key: Key) -> Statistic:
    return BlockStatistic.of(key, name=name)


_MAKERS: dict[str, Callable[[str, Key], Statistic]] = {
    Paper.name: _of_phases,
    Turns.name: _of_phases,
    Blocks.name: _of_blocks,
}


def _blocks_with_rates(key: Key, source: str) -> Statistic:
    return BlockStatistic.of(key, name=BACKBONE, source=source)


_WITH_RATES: dict[str, Callable[[Key, str], Statistic]] = {
    Paper.name: BackboneStatistic,
    Blocks.name: _blocks_with_rates,
}
