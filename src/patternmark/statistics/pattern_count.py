"""The paper's detector (Algorithm 2): the number of target patterns among the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.core.schemes import Paper
from patternmark.null import PatternNull
from patternmark.null.pattern import signature_of
from patternmark.statistics.base import Measurement, NullCurve
from patternmark.statistics.patterns import target_patterns
from patternmark.statistics.recover import recover


class PatternStatistic:
    """Counts target patterns; for keys of the paper's scheme."""

    name = "pattern"

    def __init__(self, key: Key, m: int | None = None, null: KeyChain | None = None) -> None:
        self.patterns = target_patterns(cast(Paper, key.profile.scheme), m)
        self.null = PatternNull(self.patterns, null)
        self.signature = f"m:{self.patterns.length}|null:{signature_of(self.null.null)}"
        self._partition = key.partition

    def measure(self, readings: Sequence[Reading]) -> list[Measurement]:
        """Count the patterns and look up the p-values of the counts."""
        recovered = recover(readings, self._partition)
        counts = recovered.count_marks(self.patterns.hits(recovered.keys)).tolist()
        return [
            self._judge(count, segments)
            for count, segments in zip(counts, recovered.segments, strict=True)
        ]

    def null_curve(self, reading: Reading, statistic: float) -> NullCurve:
        """Return the exact distribution of the count."""
        segments = recover([reading], self._partition).segments[0]
        return NullCurve.of_law(self.null.distribution(segments), statistic, "target patterns")

    def _judge(self, count: int, segments: tuple[int, ...]) -> Measurement:
        largest = self.null.largest_count(segments)
        return Measurement(
            statistic=count,
            expected=self.null.mean(segments),
            log_p=self.null.log_tail(count, segments),
            log_p_floor=self.null.log_tail(largest, segments),
        )
