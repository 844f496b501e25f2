"""A detector with the interface of transformers' own `WatermarkDetector`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from patternmark.adapters.needs_torch import Tensor
from patternmark.core.key import Key
from patternmark.detector import Detector
from patternmark.errors import PatternmarkError
from patternmark.evidence import DEFAULT_FPR
from patternmark.results import LN10, Verdict

try:
    from transformers.generation.watermarking import WatermarkDetectorOutput
except ImportError:
    raise PatternmarkError("this hook needs transformers: pip install transformers") from None

_SMALLEST_LOG = -700.0  # exp of a smaller number is not a normal float


@dataclass
class PatternMarkDetectorOutput(WatermarkDetectorOutput):
    """transformers' fields with one entry for each sequence, and the verdicts.

    `p_value` is not computed from a z-score. `z_score` is the value that a normal variable exceeds
    with this probability. There is no green list, so the fields about it are None.
    """

    verdicts: Sequence[Verdict] = ()


class PatternMarkDetector:
    """Judges batches of token ids, with the interface of transformers' `WatermarkDetector`.

    It needs no model and no device. Special tokens and ids outside the alphabet are not scored.
    """

    def __init__(self, key: Key, detector: str = "auto", *, fpr: float = DEFAULT_FPR) -> None:
        self.detector = Detector(key, detector, fpr=fpr)

    def __call__(
        self,
        input_ids: Tensor | Sequence[Sequence[int]],
        *,
        prompt_length: int = 0,
        return_dict: bool = False,
    ) -> PatternMarkDetectorOutput | NDArray[np.bool_]:
        """Judge sequences [B, n] from `prompt_length` on: predictions [B], or all results."""
        alphabet = self.detector.key.profile.alphabet
        filler = alphabet.unscored[0] if alphabet.unscored else 0
        rows, masks = [], []
        for row in input_ids:
            ids = np.asarray(row.tolist() if isinstance(row, Tensor) else row, dtype=np.int64)
            ids = ids[prompt_length:]
            masks.append((ids >= 0) & (ids < alphabet.size))
            rows.append(np.where(masks[-1], ids, filler))
        verdicts = self.detector.detect_many(rows, scored=masks)
        prediction = np.array([verdict.prediction for verdict in verdicts], dtype=bool)
        if not return_dict:
            return prediction
        p_values = np.array([verdict.p_value for verdict in verdicts])
        return PatternMarkDetectorOutput(
            num_tokens_scored=np.array([verdict.num_tokens_scored for verdict in verdicts]),
            z_score=np.array([z_of(verdict.log10_p * LN10) for verdict in verdicts]),
            p_value=p_values,
            prediction=prediction,
            confidence=1.0 - p_values,
            verdicts=verdicts,
        )


def z_of(log_p: float) -> float:
    """Return the z-score of a one-sided p-value of any size.

    >>> round(z_of(log(0.0013498980316301)), 6), round(z_of(-5000.0), 1)
    (3.0, 99.9)
    """
    if log_p in (0.0, -inf):
        return -inf if log_p == 0.0 else inf
    if log_p > _SMALLEST_LOG:
        return -NormalDist().inv_cdf(exp(log_p))
    z = sqrt(-2.0 * log_p)
    for _ in range(20):  # for large z, p is about the density divided by z
        z = sqrt(-2.0 * (log_p + log(z) + 0.5 * log(2.0 * pi)))
    return z
