"""Translate token ids in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from patternmark.errors import SequenceError
from patternmark.models.canvas import CanvasMarks
from patternmark.models.cmlm import CMLM, Memory
from patternmark.models.device import attention_of_many_shapes
from patternmark.models.mask_predict import Candidates, mask_predict
from patternmark.translation.choice import MarkedLines, ReadsBack

__all__ = ["Decoding", "translate_ids"]

# Source tokens of padding that cost as much time as one more batch. (The number for GPUs is not
# measured: it is estimated from the thousand operations that ten iterations start.)
_MOST_PADDING = {"cpu": 16, "cuda": 600}
MULTIPLE = 8  # on a GPU lengths are padded to a multiple of this, which is faster

# From sources [B, L] and their numbers to their translations.
TranslateBatch = Callable[[Tensor, list[int]], list[list[int]]]


@dataclass(frozen=True)
class Decoding:
    """The settings of decoding with CMLM."""

    iterations: int = 10
    length_beam: int = 5
    temperature: float = 0.0
    batch_tokens: int = 4096  # source tokens of a batch, padding included


@dataclass(frozen=True, eq=False)
class LinePiece:
    """The marks of the next piece of some lines."""

    marked: MarkedLines
    lines: Sequence[int]  # the line of each source
    sure: float
    reads_back: ReadsBack


class PieceMarks(Protocol):
    """Marks of the sources of a piece by another scheme, without a key of this package."""

    def online(self, rows: Sequence[int], lengths: Tensor) -> CanvasMarks | None:
        """Return the marks of the candidates, of lengths [B, beam], of some sources."""

    def choose(
        self,
        model: CMLM,
        memory: Memory,
        lengths: Tensor,
        candidates: Candidates,
        generator: torch.Generator | None,
    ) -> list[list[int]]:
        """Return the translation of each source: a candidate, or a new one."""


class LineMarks(Protocol):
    """Marks of lines by another scheme, without a key of this package, for comparisons."""

    def piece(self, seed: str, lines: Sequence[int]) -> PieceMarks:
        """Return the marks of the next piece of the lines with these numbers."""


def translate_ids(
    model: CMLM,
    sources: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    marked: LinePiece | None = None,
    other: PieceMarks | None = None,
    generator: torch.Generator | None = None,
    step: Callable[[int], None] = lambda done: None,
) -> list[list[int]]:
    """Return the translation of every source; that of an empty source is empty.

    It is the likeliest candidate, or with `marked` the likeliest with a clear mark, or with `other`
    what it chooses. Sources and translations have no <s> and </s>, even if the network uses them.
    """

    def best(batch: Tensor, rows: list[int]) -> list[list[int]]:
        return _best(model, batch, rows, decoding, marked, other, generator)

    padding = _MOST_PADDING["cuda" if model.embedding.weight.is_cuda else "cpu"]
    return in_batches(model, sources, decoding.batch_tokens, best, padding=padding, step=step)


def in_batches(
    model: CMLM,
    sources: Sequence[Sequence[int]],
    tokens: int,
    translate: TranslateBatch,
    *,
    padding: int | None = None,
    step: Callable[[int], None] = lambda done: None,
) -> list[list[int]]:
    """Translate sources of similar length together, in the batches of `like_lengths`."""
    found: list[list[int]] = [[] for _ in sources]
    ending = [] if model.config.ends == "none" else [model.config.end]
    _check_lengths(model, sources, len(ending))
    for rows in like_lengths(sources, tokens, padding):
        ids = [[*sources[i], *ending] for i in rows]
        batch = padded(ids, model.config.pad, model.embedding.weight.device)
        with attention_of_many_shapes():
            best = translate(batch, rows)
        for row, translation in zip(rows, best, strict=True):
            found[row] = translation
        step(len(rows))
    return found


def _check_lengths(model: CMLM, sources: Sequence[Sequence[int]], num_ends: int) -> None:
    rows = model.config.learned_positions
    most = rows - 2 - num_ends
    for number, source in enumerate(sources, start=1):
        if rows and len(source) > most:
            raise SequenceError(
                f"source {number} has {len(source)} tokens, but this model reads {most} at most: "
                "translate it in parts"
            )


def _best(
    model: CMLM,
    batch: Tensor,
    rows: Sequence[int],
    decoding: Decoding,
    marked: LinePiece | None,
    other: PieceMarks | None,
    generator: torch.Generator | None,
) -> list[list[int]]:
    with torch.inference_mode():
        memory: Memory = model.encode(batch)
        lengths = model.likeliest_lengths(memory, decoding.length_beam)
    promotion = None
    if marked is not None:
        lines = [marked.lines[row] for row in rows]
        promotion = marked.marked.promotion(lines, int(lengths.max()))
    candidates = mask_predict(
        model,
        memory,
        lengths,
        iterations=decoding.iterations,
        promotion=promotion,
        online=None if other is None else other.online(rows, lengths),
        temperature=decoding.temperature,
        generator=generator,
    )
    if other is not None:
        return other.choose(model, memory, lengths, candidates, generator)
    if marked is None or promotion is None:
        return candidates.best()
    return marked.marked.choose(lines, promotion, candidates, marked.sure, marked.reads_back)


def like_lengths(
    sources: Sequence[Sequence[int]], tokens: int, padding: int | None = None
) -> Iterator[list[int]]:
    """Yield batches: the numbers of sources that are not empty, the longest first.

    A batch has at most `tokens` tokens, and at most `padding` tokens of padding.
    """
    lengths = np.array([len(source) for source in sources], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        some = order[start : start + max(1, tokens // longest)]
        if padding is not None:
            some = some[np.cumsum(longest - lengths[some]) <= padding]
        yield some.tolist()
        start += len(some)


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> Tensor:
    """Return ids padded on the right, on a GPU to a multiple of MULTIPLE: [B, L]."""
    multiple = MULTIPLE if device.type == "cuda" else 1
    longest = -(-max(len(row) for row in rows) // multiple) * multiple
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(ids).to(device)


def for_use(model: CMLM) -> CMLM:
    """Return a network prepared for translation; on a GPU in half precision, which is faster."""
    model = model.eval()
    return (model.half() if model.embedding.weight.is_cuda else model).pack()
