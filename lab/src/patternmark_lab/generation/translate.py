"""Translate lines of text under any scheme, for comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from patternmark.errors import ParameterError
from patternmark.models.cmlm import CMLM, Memory
from patternmark.models.mask_predict import Candidates
from patternmark.translation.decode import Decoding, PieceMarks
from patternmark.translation.translator import Translation, Translator
from patternmark_lab.generation.rollouts import write_by_rollouts
from patternmark_lab.schemes import ByKey, Marks, Scheme, Stack
from patternmark_lab.schemes.rivals import DenMarkLexical


class SchemeTranslator:
    """A translator that can mark its lines by any scheme."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._last: tuple[Scheme, Stack] | None = None  # the lists used last

    def translate(
        self, lines: Sequence[str], decoding: Decoding, scheme: Scheme | None, seed: int
    ) -> list[Translation]:
        """Translate lines under a scheme (None: without a mark).

        A scheme marks by a bias while tokens are decoded, or by choosing what is written. A scheme
        with a key marks as `Translator` does with its marker.
        """
        if scheme is None:
            return self.translator.translate(lines, decoding, seed=seed)
        if isinstance(scheme, ByKey):
            return self.translator.translate(
                lines, decoding, scheme.marker, seed=seed, sure=scheme.sure
            )
        if not self.translator.vocabulary.fits(scheme.alphabet):
            raise ParameterError(
                f"the scheme's alphabet {scheme.alphabet.name} is not the model's vocabulary"
            )
        other = _Lines(scheme, self._lists(scheme) if scheme.by_bias else None)
        return self.translator.translate(lines, decoding, other=other, seed=seed)

    def _lists(self, scheme: Scheme) -> Stack:
        """Return the lists of a scheme; the last ones are cached, as making them takes a second."""
        if self._last is not None and scheme.differs_in_delta_alone(self._last[0]):
            return self._last[1].at_strength_of([scheme])
        self._last = None  # free the old lists first: both may not fit into memory
        self._last = scheme, Stack([scheme], self.translator.model.embedding.weight)
        return self._last[1]


class _Lines:
    """The marks of lines, piece by piece."""

    def __init__(self, scheme: Scheme, stack: Stack | None) -> None:
        self._scheme, self._stack = scheme, stack

    def piece(self, seed: str, lines: Sequence[int]) -> PieceMarks:
        """Return the marks of the lines whose next piece is translated."""
        if self._stack is not None:
            return _Online(self._scheme, self._stack, seed, lines)
        if isinstance(self._scheme, DenMarkLexical):
            return _Rewriter(self._scheme)
        raise ParameterError(f"{self._scheme.name} cannot mark text decoded with Mask-Predict")


class _Online:
    """Marks sources by a bias while they are decoded."""

    def __init__(self, scheme: Scheme, stack: Stack, seed: str, numbers: Sequence[int]) -> None:
        self._scheme, self._stack = scheme, stack
        self._seed, self._numbers = seed, numbers

    def online(self, rows: Sequence[int], lengths: Tensor) -> Marks:
        """Return the marks of the candidates of some sources; candidates have lengths [B, beam]."""
        beam = lengths.shape[1]
        numbers = [self._numbers[row] for row in rows]
        keys = self._scheme.keys(int(lengths.max()), self._seed, numbers)
        if keys is not None:
            keys = keys.repeat(beam, axis=0)
        return self._stack.marks([0] * lengths.numel(), keys)

    def choose(
        self,
        model: CMLM,
        memory: Memory,
        lengths: Tensor,
        candidates: Candidates,
        generator: torch.Generator | None,
    ) -> list[list[int]]:
        """Take the likeliest candidate."""
        del model, memory, lengths, generator
        return candidates.best()


class _Rewriter:
    """Marks sources by writing them again by rollouts, as long as the likeliest candidate."""

    def __init__(self, scheme: DenMarkLexical) -> None:
        self._scheme = scheme

    def online(self, rows: Sequence[int], lengths: Tensor) -> None:
        """Leave the candidates unmarked."""
        del rows, lengths

    def choose(
        self,
        model: CMLM,
        memory: Memory,
        lengths: Tensor,
        candidates: Candidates,
        generator: torch.Generator | None,
    ) -> list[list[int]]:
        """Write the translations by rollouts."""
        best = candidates.log_p.argmax(dim=1, keepdim=True)
        longest = lengths.gather(1, best)[:, 0]
        return write_by_rollouts(model, memory, longest, self._scheme, generator)
