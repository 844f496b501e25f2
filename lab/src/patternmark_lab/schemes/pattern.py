"""PATTERN-MARK as published and this package's default, with the interface of all schemes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patternmark.core.chain import KeyChain
from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.core.schemes import Paper, default_scheme
from patternmark.detector import Detector
from patternmark.evidence import DEFAULT_FPR
from patternmark_lab.schemes.base import Judgements, Scheme

TEXT_PATTERN_LENGTH = 4  # the best of the paper's ablation for text; proteins have 5


@dataclass(frozen=True, eq=False)
class ByKey(Scheme):
    """A scheme of a `Key`: its marker draws the position keys, its detector judges."""

    # Takes the likeliest candidate translation whose mark has at most this p-value.
    sure: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """The public parameters."""

    @cached_property
    def key(self) -> Key:
        return Key.of(self.secret, self.profile)

    @cached_property
    def marker(self) -> Marker:
        return Marker(self.key)

    @cached_property
    def detector(self) -> Detector:
        return Detector(self.key)

    def promoted(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the symbols that these keys promote: [len(keys), V]."""
        return self.key.schedule.promoted_rows(keys)

    def keys(self, length: int, seed: int | str, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Draw the keys of every sequence: [N, length]."""
        return self.marker.key_sequences([length] * len(numbers), seed, numbers)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judgements:
        """Judge by the key's detector; the score is -log10 p."""
        verdicts = self.detector.detect_many(sequences)
        log_p = np.array([verdict.log10_p for verdict in verdicts]) * np.log(10.0)
        return Judgements.of_p(
            log_p, np.array([v.num_tokens_scored for v in verdicts], dtype=np.int64)
        )


@dataclass(frozen=True, eq=False)
class PatternMark(ByKey):
    """The paper's scheme and detector: two alternating parts; counts patterns of m keys.

    m = 5 for proteins, 4 for text. Every symbol counts, also in repeats. `stay` is a11 and a22 of
    the transition matrix, 0 in the paper.
    """

    pattern_length: int | None = None
    stay: float = 0.0

    name: ClassVar[str] = "pattern-mark"

    @property
    def profile(self) -> Profile:
        """The paper's parameters."""
        leave = 1.0 - self.stay
        chain = KeyChain.of([[self.stay, leave], [leave, self.stay]], [0.5, 0.5])
        return Profile(self.alphabet, scheme=Paper(chain=chain), delta=self.delta)

    @cached_property
    def detector(self) -> Detector:
        usual = TEXT_PATTERN_LENGTH if self.alphabet.has_many_symbols else None
        m = usual if self.pattern_length is None else self.pattern_length
        return Detector(self.key, "pattern", m=m, mask_repeats=False)


@dataclass(frozen=True, eq=False)
class PatternAuto(PatternMark):
    """The paper's marks with this package's default detector."""

    name: ClassVar[str] = "pattern-auto"

    @cached_property
    def detector(self) -> Detector:
        return Detector(self.key)


@dataclass(frozen=True, eq=False)
class Default(ByKey):
    """The default of `patternmark`: the default scheme of the alphabet and the `auto` detector.

    It takes the likeliest of those candidate translations whose mark is clear.
    """

    name: ClassVar[str] = "default"
    sure: ClassVar[float] = DEFAULT_FPR

    @property
    def profile(self) -> Profile:
        """The parameters of a new key for the alphabet: proteins or text."""
        return Profile(self.alphabet, default_scheme(self.alphabet), self.delta)


@dataclass(frozen=True, eq=False)
class DefaultLikeliest(Default):
    """The default without its choice among candidates: takes the likeliest, as other schemes do."""

    name: ClassVar[str] = "default-likeliest"
    sure: ClassVar[float] = 1.0
