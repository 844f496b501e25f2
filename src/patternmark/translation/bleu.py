"""BLEU and chrF as sacrebleu counts them, with their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def resampled_scores(
    name: Literal["BLEU", "chrF"],
    translations: Sequence[str],
    references: Sequence[str],
    resamples: int,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the score of all texts, then those of resamples of them: [1 + resamples].

    The same seed draws the same texts, so that two systems can be compared draw by draw.
    """
    metric = metric_of_sacrebleu(name)
    # What corpus_score adds up itself; there is no public way to it.
    counts = np.array(
        metric._extract_corpus_statistics(list(translations), [list(references)]), dtype=np.float64
    )
    texts = len(counts)
    drawn = np.random.default_rng(seed).multinomial(texts, [1.0 / texts] * texts, size=resamples)
    sums = np.concatenate([counts.sum(axis=0, keepdims=True), drawn @ counts])
    return np.array([metric._compute_score_from_stats(row.tolist()).score for row in sums])


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
