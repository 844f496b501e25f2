"""BLEU and chrF as sacrebleu counts them, with their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patternmark.errors import PatternmarkError


class TextScore(NamedTuple):
    """A score, half of its 95 % interval over texts, and the signature of sacrebleu."""

    score: float
    half: float | None
    signature: str


def bleu(
    translations: Sequence[str], references: Sequence[str], *, resamples: int = 0
) -> TextScore:
    """Return corpus BLEU, with an interval from `resamples` resamples of the texts, if not 0."""
    return _corpus_score(metric_of_sacrebleu(), translations, references, resamples)


def chrf(
    translations: Sequence[str], references: Sequence[str], *, resamples: int = 0
) -> TextScore:
    """Return corpus chrF2, which counts shared n-grams of letters as BLEU does for words."""
    return _corpus_score(metric_of_sacrebleu("chrF"), translations, references, resamples)


def resampled_scores(
    name: Literal["BLEU", "chrF"],
    translations: Sequence[str],
    references: Sequence[str],
    resamples: int,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the score of all texts, then the scores of resamples: [1 + resamples].

    The same seed draws the same texts, so two systems can be compared on each resample.
    """
    metric = metric_of_sacrebleu(name)
    # The counts that corpus_score adds up; there is no public function for them.
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
    """Return a metric of sacrebleu; if it is missing, say what to install.

    Long commands call this first, so that they do not fail after an hour.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  # optional
        from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415
    except ImportError:
        raise PatternmarkError(f"{name} needs sacrebleu: pip install sacrebleu") from None
    return BLEU() if name == "BLEU" else CHRF()
