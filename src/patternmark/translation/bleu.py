"""BLEU as sacrebleu counts it, with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from patternmark.errors import ParameterError


class Bleu(NamedTuple):
    """A score and the signature of all that shaped it."""

    score: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Return corpus BLEU."""
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise ParameterError("BLEU needs sacrebleu: pip install sacrebleu") from None
    metric = BLEU()
    score = metric.corpus_score(list(translations), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))
