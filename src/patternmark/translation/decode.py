"""Translate token ids in batches of like length, with CMLM or with its teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patternmark.errors import SequenceError
from patternmark.models.autoregressive import greedy
from patternmark.models.cmlm import CMLM, Candidates, Memory, mask_predict
from patternmark.promote import Promotion
from patternmark.translation.corpus import MULTIPLE

_TEACHER_SLACK = (1.5, 16)  # a teacher's translation ends at so many times the source, and more


@dataclass(frozen=True)
class Decoding:
    """How CMLM decodes."""

    iterations: int = 10
    length_beam: int = 5
    temperature: float = 0.0
    batch_tokens: int = 4096  # source tokens of a batch, padding included


# Given the sentences of a batch and the longest candidate: what to promote.
Promotes = Callable[[Sequence[int], int], Promotion]
# Given the sentences of a batch and their candidates: the tokens of the ones to take.
Chooses = Callable[[Sequence[int], Candidates], list[list[int]]]


def translate_ids(
    model: CMLM,
    sources: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    promotes: Promotes | None = None,
    chooses: Chooses | None = None,
    generator: torch.Generator | None = None,
    step: Callable[[int], None] = lambda done: None,
) -> list[list[int]]:
    """Return the translation of every source, empty for an empty one.

    Unless something else `chooses`, it is the likeliest candidate. Sources and translations are
    without <s> and </s>, whatever the network sees.
    """
    found: list[list[int]] = [[] for _ in sources]
    device = model.embedding.weight.device
    ending = [] if model.config.ends == "none" else [model.config.end]
    _check_lengths(model, sources, len(ending))
    for rows in like_lengths(sources, decoding.batch_tokens):
        batch = padded([[*sources[i], *ending] for i in rows], model.config.pad, device)
        if model.config.causal:
            best = greedy(model, batch, most_tokens(max(len(sources[i]) for i in rows)))
        else:
            found_here = _candidates(model, batch, rows, decoding, promotes, generator)
            best = found_here.best() if chooses is None else chooses(rows, found_here)
        for row, tokens in zip(rows, best, strict=True):
            found[row] = tokens
        step(len(rows))
    return found


def _check_lengths(model: CMLM, sources: Sequence[Sequence[int]], num_ends: int) -> None:
    rows = model.config.learned_positions
    most = rows - 2 - num_ends
    for number, source in enumerate(sources, start=1):
        if rows and len(source) > most:
            raise SequenceError(
                f"source {number} has {len(source)} tokens, this model reads {most} at most: "
                "translate it in parts"
            )


def most_tokens(source: int) -> int:
    """Return how many tokens a teacher may write for so many; who gets there writes on and on."""
    slack, more = _TEACHER_SLACK
    return int(slack * source) + more


def _candidates(
    model: CMLM,
    batch: Tensor,
    rows: Sequence[int],
    decoding: Decoding,
    promotes: Promotes | None,
    generator: torch.Generator | None,
) -> Candidates:
    with torch.inference_mode():
        memory: Memory = model.encode(batch)
        lengths = model.likeliest_lengths(memory, decoding.length_beam)
    return mask_predict(
        model,
        memory,
        lengths,
        iterations=decoding.iterations,
        promotion=None if promotes is None else promotes(rows, int(lengths.max())),
        temperature=decoding.temperature,
        generator=generator,
    )


def like_lengths(sources: Sequence[Sequence[int]], tokens: int) -> Iterator[list[int]]:
    """Yield numbers of sources that are not empty, the longest first, so many tokens at a time."""
    lengths = np.array([len(source) for source in sources], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        stop = start + max(1, tokens // int(lengths[order[start]]))
        yield order[start:stop].tolist()
        start = stop


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> Tensor:
    """Return ids padded on the right, on a GPU to a length it likes: [B, L]."""
    multiple = MULTIPLE if device.type == "cuda" else 1
    longest = -(-max(len(row) for row in rows) // multiple) * multiple
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(ids).to(device)


def for_use(model: CMLM) -> CMLM:
    """Return a network ready to translate: on a GPU in half precision, which is faster there."""
    model = model.eval()
    return model.half() if model.embedding.weight.is_cuda else model
