"""Choose a translation: the likeliest candidate with a clear mark that also reads back.

The generator knows the key of every position and needs no search. It counts the tokens that agree
with their keys and computes how often fair coins would agree as often. A detector must search, so
its p-value is larger. A verifier has the text, not the tokens. If the tokenizer splits the text
into other tokens than those that were written, positions shift, and another candidate is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.core.marker import Marker
from patternmark.core.promote import Promotion
from patternmark.evidence import bonferroni
from patternmark.models.mask_predict import Candidates
from patternmark.null.walk import phase_log_tail

ReadsBack = Callable[[Sequence[Sequence[int]]], list[bool]]
# How many times larger the p-value of the default detector may be: it also searches for slips and
# marked stretches, and its null is measured on natural text. Measured on 227 translations (12 keys,
# delta 3) that read back: if each is cut so that this factor calls it just clear at 0.1 %, the
# detector finds 97 % (n = 209; 94 % with a factor of 8, 71 % with 2). It finds all 206 clear ones
# that are not cut.
_SEARCH_FACTOR = 10.0


class MarkedLines:
    """The keys of lines for one piece after the other, and how many tokens agree so far."""

    def __init__(
        self,
        marker: Marker,
        lines: Sequence[str],
        *,
        seed: int,
        temperature: float,
        like: Tensor,
        nonces: Sequence[int] | None = None,
    ) -> None:
        self._marker, self._temperature, self._like = marker, temperature, like
        self._seed, self._nonces = seed, nonces
        # The keys of a line depend on its text, not on its place.
        self._numbers = [line_number(line) for line in lines]
        self._begun = np.zeros(len(lines), dtype=np.int64)  # number of tokens in earlier pieces
        self._counts = np.zeros((len(lines), 2), dtype=np.int64)  # agreeing tokens, scored tokens

    def log_p(self) -> NDArray[np.float64]:
        """Return ln of an approximate p-value for each line.

        Near 0.1 %, the p-value of a detector is rarely larger.
        """
        return self._log_p(self._counts)

    def _log_p(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln of approximate p-values for counts [..., 2] of agreeing and scored tokens."""
        schedule = self._marker.key.circle
        chances = schedule.nonces * len(schedule.starts)  # keys with which a mark may begin
        tail = phase_log_tail(counts[..., 0], counts[..., 1]) - log(2.0)
        return bonferroni(tail, _SEARCH_FACTOR * chances)

    def promotion(self, lines: Sequence[int], longest: int) -> Promotion[Tensor]:
        """Return the bias of the next piece of some lines: [B, longest]."""
        begun = self._begun[lines]
        numbers = [self._numbers[line] for line in lines]
        lengths = [int(begun.max()) + longest] * len(lines)
        nonces = None if self._nonces is None else [self._nonces[line] for line in lines]
        keys = self._marker.key_sequences(lengths, self._seed, numbers, nonces=nonces)
        own = np.take_along_axis(keys, begun[:, None] + np.arange(longest), axis=1)
        return self._marker.prepare(own, self._temperature, like=self._like)

    def choose(
        self,
        lines: Sequence[int],
        promotion: Promotion[Tensor],
        candidates: Candidates,
        sure: float,
        reads_back: ReadsBack,
    ) -> list[list[int]]:
        """Return the tokens of the best candidate of each line, and count its agreeing tokens.

        Best is the likeliest candidate with a clear mark (p <= `sure`) that reads back. If no clear
        one reads back, it is the likeliest clear one. If no mark is clear, as in short lines, or if
        `sure` is 1, it is the likeliest of all, so that no quality is lost.
        """
        shown = _shown(promotion, candidates).cpu().numpy()
        counts = shown + self._counts[lines][:, None]  # [B, beam, 2]
        order = np.argsort(-candidates.log_p.cpu().numpy(), axis=1, kind="stable")
        clear = (self._log_p(counts) <= log(sure)) & (sure < 1.0)
        is_clear = np.take_along_axis(clear, order, axis=1)
        tokens, lengths = candidates.tokens.cpu().numpy(), candidates.lengths.cpu().numpy()
        taken = _first_that_reads_back(order, is_clear, tokens, lengths, reads_back)
        every = np.arange(len(taken))
        self._counts[lines] = counts[every, taken]
        self._begun[lines] += lengths[every, taken]
        rows = zip(tokens[every, taken], lengths[every, taken], strict=True)
        return [row[:length].tolist() for row, length in rows]


def _shown(promotion: Promotion[Tensor], candidates: Candidates) -> Tensor:
    """Count the tokens that agree with their keys, and all tokens with a key: [B, beam, 2]."""
    tokens = candidates.tokens
    longest = tokens.shape[2]
    rows = promotion.row_of[:, None, :longest].expand_as(tokens)
    agrees = promotion.promoted[rows, tokens]
    place = torch.arange(longest, device=tokens.device)
    # Special tokens, which are not scored, are never part of a translation.
    read = (place < candidates.lengths[..., None]) & (rows < len(promotion.promoted) - 1)
    return torch.stack([(agrees & read).sum(-1), read.sum(-1)], dim=-1)


def line_number(line: str) -> int:
    """Return the number from which the keys of a line are drawn."""
    return int.from_bytes(sha256(line.encode()).digest()[:7], "big")


def _first_that_reads_back(
    order: NDArray[np.int64],
    is_clear: NDArray[np.bool_],
    tokens: NDArray[np.int64],
    lengths: NDArray[np.int64],
    reads_back: ReadsBack,
) -> NDArray[np.int64]:
    """Return for each row the first clear candidate, in its order, that reads back.

    If there is none, return the first clear one, or else the first of all. `order` and `is_clear`
    are [B, beam].
    """
    rows = np.arange(len(order))
    taken: NDArray[np.int64] = order[rows, is_clear.argmax(axis=1)]
    waiting = rows[is_clear.any(axis=1)]
    for candidate, clear in zip(order.T, is_clear.T, strict=True):
        tried = waiting[clear[waiting]]
        if len(tried):
            texts = [tokens[i, candidate[i], : lengths[i, candidate[i]]].tolist() for i in tried]
            good = tried[np.array(reads_back(texts), dtype=bool)]
            taken[good] = candidate[good]
            waiting = np.setdiff1d(waiting, good)
    return taken
