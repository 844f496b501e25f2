"""Translate token ids in batches of like length, with CMLM or with its teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patternmark.errors import SequenceError
from patternmark.models.autoregressive import greedy
from patternmark.models.cmlm import CMLM, Memory
from patternmark.models.device import attention_of_many_shapes
from patternmark.models.mask_predict import mask_predict
from patternmark.models.rollouts import write_by_rollouts
from patternmark.schemes import Marks, Scheme, Stack
from patternmark.schemes.rivals import DenMarkLexical
from patternmark.translation.choice import MarkedLines, ReadsBack
from patternmark.translation.corpus import MULTIPLE

# Source tokens of padding that take as long as another batch does, on a CPU and on a GPU. (On a GPU
# it is reckoned: ten iterations start a thousand operations, and a token is five times the work.)
_PADDING = {"cpu": 16, "cuda": 600}
_TEACHER_SLACK = (1.5, 16)  # a teacher's translation ends at so many times the source, and more


@dataclass(frozen=True)
class Decoding:
    """How CMLM decodes."""

    iterations: int = 10
    length_beam: int = 5
    temperature: float = 0.0
    batch_tokens: int = 4096  # source tokens of a batch, padding included


@dataclass(frozen=True, eq=False)
class Piece:
    """The marks of the lines whose next piece is translated."""

    marked: MarkedLines
    lines: Sequence[int]  # which line each source is of
    sure: float
    reads_back: ReadsBack


class OnlinePiece:
    """The scheme that marks the sources as they are decoded, each by its number."""

    def __init__(self, scheme: Scheme, stack: Stack, seed: str, numbers: Sequence[int]) -> None:
        self._scheme, self._stack = scheme, stack
        self._seed, self._numbers = seed, numbers

    def marks(self, rows: Sequence[int], lengths: Tensor) -> Marks:
        """Return the marks of the candidates of some sources, of lengths [B, beam]."""
        beam = lengths.shape[1]
        numbers = [self._numbers[row] for row in rows]
        keys = self._scheme.keys(int(lengths.max()), self._seed, numbers)
        if keys is not None:
            keys = keys.repeat(beam, axis=0)
        return self._stack.marks([0] * lengths.numel(), keys)


def translate_ids(
    model: CMLM,
    sources: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    marked: Piece | None = None,
    online: OnlinePiece | None = None,
    chooser: DenMarkLexical | None = None,
    generator: torch.Generator | None = None,
    step: Callable[[int], None] = lambda done: None,
) -> list[list[int]]:
    """Return the translation of every source, empty for an empty one.

    It is the likeliest candidate, or the likeliest that shows its mark; a `chooser` writes anew, as
    long as the likeliest. Sources and translations are without <s> and </s>, whatever the network
    sees.
    """
    found: list[list[int]] = [[] for _ in sources]
    device = model.embedding.weight.device
    ending = [] if model.config.ends == "none" else [model.config.end]
    _check_lengths(model, sources, len(ending))
    # A teacher's batches are large rather than alike: a GPU's steps take the same time.
    padding = None if model.config.causal else _PADDING["cuda" if device.type == "cuda" else "cpu"]
    for rows in like_lengths(sources, decoding.batch_tokens, padding):
        batch = padded([[*sources[i], *ending] for i in rows], model.config.pad, device)
        with attention_of_many_shapes():
            if model.config.causal:
                best = greedy(model, batch, most_tokens(max(len(sources[i]) for i in rows)))
            else:
                best = _best(model, batch, rows, decoding, marked, online, chooser, generator)
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


def _best(
    model: CMLM,
    batch: Tensor,
    rows: Sequence[int],
    decoding: Decoding,
    marked: Piece | None,
    online: OnlinePiece | None,
    chooser: DenMarkLexical | None,
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
        online=None if online is None else online.marks(rows, lengths),
        temperature=decoding.temperature,
        generator=generator,
    )
    if chooser is not None:
        best = candidates.log_p.argmax(dim=1, keepdim=True)
        return write_by_rollouts(model, memory, lengths.gather(1, best)[:, 0], chooser, generator)
    if marked is None or promotion is None:
        return candidates.best()
    return marked.marked.choose(lines, promotion, candidates, marked.sure, marked.reads_back)


def like_lengths(
    sources: Sequence[Sequence[int]], tokens: int, padding: int | None = None
) -> Iterator[list[int]]:
    """Yield numbers of sources that are not empty, the longest first, so many tokens at a time.

    A batch ends earlier where it would have more than so many tokens of `padding`.
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
    return (model.half() if model.embedding.weight.is_cuda else model).pack()
