"""BLEU as sacrebleu counts it, with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from patternmark.errors import ParameterError


class Bleu(NamedTuple):
    """A score, half of its 95 % interval over texts, and the signature of all that shaped it."""

    score: float
    half: float | None
    signature: str


def bleu(translations: Sequence[str], references: Sequence[str], *, resamples: int = 0) -> Bleu:
    """Return corpus BLEU; its interval from so many resamples of the texts, if any."""
    try:
        metrics = import_module("sacrebleu.metrics")
    except ImportError:
        raise ParameterError("BLEU needs sacrebleu: pip install sacrebleu") from None
    metric = metrics.BLEU()
    found = metric.corpus_score(
        list(translations), [list(references)], n_bootstrap=max(1, resamples)
    )
    half = float(found._ci) if resamples > 1 else None
    return Bleu(float(found.score), half, str(metric.get_signature()))
