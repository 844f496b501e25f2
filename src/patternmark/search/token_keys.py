"""Many keys of the paper's scheme against the sequences of a batch, for alphabets of many symbols.

Schedules of a vocabulary are too large to be kept, or to be transformed as `letter_keys` does. So
one key after the other derives the excerpt of its schedule that a batch needs, and scores every
phase of the whole text and of its parts (`phase_sums.PartScreen`). Most of the time goes into the
shuffles of the keys' tokens: the larger the batch, the less time each sequence takes.
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
class _RecordGroup:
    """Records of a batch that share one excerpt; their symbols are numbers in that excerpt."""

    symbols: NDArray[np.int64]  # [U] the tokens of the excerpt
    records: int
    chains: NDArray[np.int64]  # [chains, longest], padded with UNREAD
    record_of: NDArray[np.int64]  # [chains]

    @classmethod
    def of(cls, key: Key, readings: Sequence[Reading]) -> _RecordGroup:
        excerpt, numbered = excerpt_of(key, readings)
        assert excerpt is not None  # noqa: S101
        chains = [(record, part) for record, r in enumerate(numbered) for part in r.parts]
        record_of = np.array([record for record, _ in chains], dtype=np.int64)
        return cls(excerpt.symbols, len(readings), padded([part for _, part in chains]), record_of)


class TokenScreen:
    """Scores the sequences of a batch under keys whose schedules have one shape."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = list(keys)
        profile = self._keys[0].profile
        rates = agreement_rates(profile.alphabet, profile.scheme.name)[LEVEL]
        self._rates = with_chance(rates, profile.scheme.chance)
        self.stages = (Stage(self.scores),)

    def prepare(self) -> None:
        """Do nothing: schedules are too large to be kept."""

    def scores(
        self, readings: Sequence[Reading], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Score every record and key with each chain at its best phase: [B, K, 1]."""
        parts = [_RecordGroup.of(self._keys[0], some) for some in in_parts(self._keys[0], readings)]
        result = np.zeros((len(readings), len(self._keys)), dtype=np.float32)
        with repeated(len(self._keys)):
            for number, key in enumerate(self._keys):
                schedule = replace(key).circle  # of a copy: a key would keep its shuffles
                found = [
                    self._score(Excerpt(schedule, part.symbols, np.ones_like(part.symbols)), part)
                    for part in parts
                ]
                result[:, number] = np.concatenate(found)
                if progress is not None:
                    progress(number + 1, len(self._keys))
        return result[..., None]

    def _score(self, excerpt: Excerpt, part: _RecordGroup) -> NDArray[np.int64]:
        """Return the score of every record of a group: [B]."""
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
