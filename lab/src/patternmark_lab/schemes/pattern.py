"""PATTERN-MARK as published, and this package's default, as schemes like the others."""

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
from patternmark_lab.schemes.base import Judged, Scheme

TEXT_PATTERN_LENGTH = 4  # the best of the paper's ablation, where proteins have 5


@dataclass(frozen=True, eq=False)
class ByKey(Scheme):
    """A scheme of a `Key`: its marker draws the keys of positions, its detector judges."""

    # Of candidate translations the likeliest is taken whose mark is clear at this p.
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
        """Return what some keys promote: [len(keys), V]."""
        return self.key.schedule.promoted_rows(keys)

    def keys(self, length: int, seed: int | str, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Draw the keys of every sequence: [N, length]."""
        return self.marker.key_sequences([length] * len(numbers), seed, numbers)

    def judge(self, sequences: Iterable[str | ArrayLike]) -> Judged:
        """Let the key's detector judge; the score is -log10 p."""
        verdicts = self.detector.detect_many(sequences)
        log_p = np.array([verdict.log10_p for verdict in verdicts]) * np.log(10.0)
        return Judged.of_p(log_p, np.array([v.num_tokens_scored for v in verdicts], dtype=np.int64))


@dataclass(frozen=True, eq=False)
class PatternMark(ByKey):
    """The paper's scheme and detector: two alternating parts, patterns of m keys counted.

    m = 5 for proteins, 4 for text; every symbol counts, repeats too. `stay` is a11 and a22 of the
    transition matrix, 0 in the paper.
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
    """The paper's marks, found by this package's default detector."""

    name: ClassVar[str] = "pattern-auto"

    @cached_property
    def detector(self) -> Detector:
        return Detector(self.key)


@dataclass(frozen=True, eq=False)
class Default(ByKey):
    """What `patternmark` does by default: the safe scheme of the alphabet, the `auto` detector.

    Of several candidate translations it takes the likeliest whose mark is clear.
    """

    name: ClassVar[str] = "default"
    sure: ClassVar[float] = DEFAULT_FPR

    @property
    def profile(self) -> Profile:
        """The parameters of a new key for proteins, or for texts."""
        return Profile(self.alphabet, default_scheme(self.alphabet), self.delta)


@dataclass(frozen=True, eq=False)
class DefaultLikeliest(Default):
    """The default without its choice among candidates: the likeliest is taken, as by others."""

    name: ClassVar[str] = "default-likeliest"
    sure: ClassVar[float] = 1.0
