"""Many keys of the paper's scheme against the sequences of a batch, for alphabets of many symbols.

Schedules of a vocabulary are too large to be kept, or to be transformed as `letter_keys` does. So
each key in turn lays out the excerpt of its schedule that a batch needs, and scores every phase of
the whole and of its parts (`phase_sums.PartScreen`). Most of the time goes into the shuffles of the
keys' tokens: the larger the batch, the less of it for each sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from patternmark.core.key import Key
from patternmark.core.reading import Reading
from patternmark.fast.compiled import repeated
from patternmark.search.letter_keys import LEVEL, Progress, Stage
from patternmark.statistics.base import padded
from patternmark.statistics.excerpts import Excerpt, excerpt_of, in_parts
from patternmark.statistics.likelihood import symbol_factors
from patternmark.statistics.phase_sums import PartScreen, double_period, quantise
from patternmark.statistics.rates import agreement_rates, with_chance


@dataclass(frozen=True, eq=False)
class _Part:
    """Some records of a batch, in the numbers of the excerpt that they need."""

    symbols: NDArray[np.int64]  # [U] of the excerpt
    records: int
    chains: NDArray[np.int64]  # [chains, longest], padded with UNREAD
    record_of: NDArray[np.int64]  # [chains]

    @classmethod
    def of(cls, key: Key, readings: Sequence[Reading]) -> _Part:
        excerpt, numbered = excerpt_of(key, readings)
        assert excerpt is not None  # noqa: S101
        chains = [(record, part) for record, r in enumerate(numbered) for part in r.parts]
        record_of = np.array([record for record, _ in chains], dtype=np.int64)
        return cls(excerpt.symbols, len(readings), padded([part for _, part in chains]), record_of)


class TokenScreen:
    """Scores the sequences of a batch under keys of one schedule's shape."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        profile = self._keys[0].profile
        rates = agreement_rates(profile.alphabet, profile.scheme.name)[LEVEL]
        self._rates = with_chance(rates, profile.scheme.chance)
        self.stages = (Stage(self.scores),)

    def prepare(self) -> None:
        """Do nothing: nothing can be kept."""

    def scores(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key, each chain at its best phase: [B, K, 1]."""
        parts = [_Part.of(self._keys[0], some) for some in in_parts(self._keys[0], readings)]
        result = np.zeros((len(readings), len(self._keys)), dtype=np.float32)
        with repeated(len(self._keys)):
            for number, key in enumerate(self._keys):
                schedule = replace(key).circle  # of a copy, since a key keeps its shuffles
                found = [
                    self._score(Excerpt(schedule, part.symbols, np.ones_like(part.symbols)), part)
                    for part in parts
                ]
                result[:, number] = np.concatenate(found)
                if progress is not None:
                    progress(number + 1, len(self._keys))
        return result[..., None]

    def _score(self, excerpt: Excerpt, part: _Part) -> NDArray[np.int64]:
        """Return the score of every record of a part: [B]."""
        scores = np.zeros(part.records, dtype=np.int64)
        if len(part.chains):
            found = self._screen(excerpt).best_in_part(part.chains)[:, 0]
            np.add.at(scores, part.record_of, found)
        return scores

    def _screen(self, excerpt: Excerpt) -> PartScreen:
        promoted = excerpt.promoted(0)  # there is one nonce
        logs = symbol_factors(promoted, self._rates[excerpt.symbols], shares=excerpt.shares).logs()
        whole, scale = quantise(logs.for_keys(promoted))
        return PartScreen(double_period(whole)[None], scale, excerpt.starts)
