"""BLEU as sacrebleu counts it, with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from patternmark.errors import PatternmarkError


class Bleu(NamedTuple):
    """A score, half of its 95 % interval over texts, and the signature of all that shaped it."""

    score: float
    half: float | None
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str], *, resamples: int = 0) -> Bleu:
    """Return corpus BLEU; its interval from so many resamples of the texts, if any."""
    metric = metric_of_sacrebleu()
    found = metric.corpus_score(
        list(translations), [list(references)], n_bootstrap=max(1, resamples)
    )
    half = float(found._ci) if resamples > 1 else None
    return Bleu(float(found.score), half, str(metric.get_signature()))


def metric_of_sacrebleu() -> Any:
    """Return sacrebleu's metric, or say what to install: before an hour is spent, not after it."""
    try:
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  # needed by whoever measures
    except ImportError:
        raise PatternmarkError("BLEU needs sacrebleu: pip install sacrebleu") from None
    return BLEU()
