"""Translate token ids during training, with CMLM or with its teacher."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from patternmark.models.cmlm import CMLM
from patternmark.translation.decode import Decoding, in_batches, translate_ids
from patternmark_lab.training.autoregressive import greedy

_SLACK = (1.5, 16)  # a teacher's translation has at most 1.5 times the source's tokens plus 16


def translate_with(
    model: CMLM, sources: Sequence[Sequence[int]], batch_tokens: int
) -> list[list[int]]:
    """Return the translation of every source, empty for an empty one."""
    if not model.config.causal:
        return translate_ids(model, sources, Decoding(batch_tokens=batch_tokens))

    def write(batch: Tensor, rows: list[int]) -> list[list[int]]:
        return greedy(model, batch, most_tokens(max(len(sources[i]) for i in rows)))

    # Batches are large rather than alike: a GPU's steps take the same time.
    return in_batches(model, sources, batch_tokens, write)


def most_tokens(source: int) -> int:
    """Return how many tokens a teacher may write for a source of this many tokens.

    A translation that reaches the limit would never end.
    """
    slack, more = _SLACK
    return int(slack * source) + more
