"""BLEU and chrF as sacrebleu counts them, with their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from patternmark.errors import PatternmarkError


class TextScore(NamedTuple):
    """A score, half of its 95 % interval over texts, and the signature of all that shaped it."""

    score: float
    half: float | None
    signature: str


def bleu(
    translations: Sequence[str], references: Sequence[str], *, resamples: int = 0
) -> TextScore:
    """Return corpus BLEU; its interval from so many resamples of the texts, if any."""
    return _corpus_score(metric_of_sacrebleu(), translations, references, resamples)


def chrf(
    translations: Sequence[str], references: Sequence[str], *, resamples: int = 0
) -> TextScore:
    """Return corpus chrF2: shared stretches of letters, where BLEU counts those of words."""
    return _corpus_score(metric_of_sacrebleu("chrF"), translations, references, resamples)


def _corpus_score(
    metric: Any, translations: Sequence[str], references: Sequence[str], resamples: int
) -> TextScore:
    found = metric.corpus_score(
        list(translations), [list(references)], n_bootstrap=max(1, resamples)
    )
    half = float(found._ci) if resamples > 1 else None
    return TextScore(float(found.score), half, str(metric.get_signature()))


def metric_of_sacrebleu(name: Literal["BLEU", "chrF"] = "BLEU") -> Any:
    """Return sacrebleu's metric, or say what to install: before an hour is spent, not after it."""
    try:
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  # needed by whoever measures
        from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415
    except ImportError:
        raise PatternmarkError(f"{name} needs sacrebleu: pip install sacrebleu") from None
    return BLEU() if name == "BLEU" else CHRF()
