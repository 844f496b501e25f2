"""BLEU as sacrebleu counts it, with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from patternmark.errors import PatternmarkError


class Bleu(NamedTuple):
    """A score and the signature of all that shaped it."""

    score: float
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Return corpus BLEU."""
    metric = metric_of_sacrebleu()
    score = metric.corpus_score(list(translations), [list(references)]).score
    return Bleu(float(score), str(metric.get_signature()))


def metric_of_sacrebleu() -> Any:
    """Return sacrebleu's metric, or say what to install: before an hour is spent, not after it."""
    try:
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  # needed by whoever measures
    except ImportError:
        raise PatternmarkError("BLEU needs sacrebleu: pip install sacrebleu") from None
    return BLEU()
