"""Which candidate to take: the likeliest that shows its mark, and that reads back as it was made.

The generator knows the keys of every position, so that it needs no search: the evidence of a
candidate is the likelihood ratio along its own keys, a sum over tokens on whatever device they
are. A detector, which must search, finds some nats less. A verifier has the text, not the tokens;
where a text is split otherwise than it was made, positions shift, and another candidate is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patternmark.mark import Marker
from patternmark.models.cmlm import Candidates
from patternmark.promote import Promotion
from patternmark.rates import ANY_SYMBOL

ReadsBack = Callable[[Sequence[Sequence[int]]], list[bool]]


class MarkedLines:
    """The keys of lines, from piece to piece, and what their tokens show of them so far."""

    def __init__(
        self, marker: Marker, lines: Sequence[str], *, seed: int, temperature: float, like: Tensor
    ) -> None:
        self._marker, self._temperature, self._like = marker, temperature, like
        # What a line says, not where it stands, decides where its keys begin.
        self._seed, self._numbers = seed, [line_number(line) for line in lines]
        self._begun = np.zeros(len(lines), dtype=np.int64)  # tokens of earlier pieces
        self._counts = np.zeros((len(lines), 2), dtype=np.int64)  # that agree, that were read
        schedule = marker.key.schedule
        self._chances = log(schedule.nonces * len(schedule.starts))  # where a mark may begin

    def log_p(self) -> NDArray[np.float64]:
        """Return about ln of the p-value that a detector would find for every line."""
        counts = torch.from_numpy(self._counts)
        found = _log_ratio(counts[:, 0], counts[:, 1]).numpy()
        return np.asarray(np.minimum(self._chances - found, 0.0))

    def promotion(self, lines: Sequence[int], longest: int) -> Promotion:
        """Return the bias of the next piece of some lines: [B, longest]."""
        begun = self._begun[lines]
        lengths = (begun + longest).tolist()
        numbers = [self._numbers[line] for line in lines]
        whole = self._marker.key_sequences(lengths, self._seed, numbers)
        keys = np.take_along_axis(whole, begun[:, None] + np.arange(longest), axis=1)
        return self._marker.prepare(keys, self._temperature, like=self._like)

    def choose(
        self,
        lines: Sequence[int],
        promotion: Promotion,
        candidates: Candidates,
        sure: float,
        reads_back: ReadsBack,
    ) -> list[list[int]]:
        """Return the tokens of each line's best candidate, and count what they show.

        Best is the likeliest of those whose mark is clear at p <= `sure`, or the clearest; of
        these, the first whose text reads back.
        """
        counts = self._shown(promotion, candidates) + torch.from_numpy(
            self._counts[lines][:, None]
        ).to(candidates.tokens.device)
        clear = _log_ratio(counts[..., 0], counts[..., 1])  # [B, beam]
        wanted = log(1.0 / sure) + self._chances
        order = _preference(candidates.log_p, clear, wanted).cpu().numpy()
        tokens, lengths = candidates.tokens.cpu().numpy(), candidates.lengths.cpu().numpy()
        taken = _first_that_reads_back(order, tokens, lengths, reads_back)
        every = np.arange(len(taken))
        self._counts[lines] = counts.cpu().numpy()[every, taken]
        self._begun[lines] += lengths[every, taken]
        rows = zip(tokens[every, taken], lengths[every, taken], strict=True)
        return [row[:length].tolist() for row, length in rows]

    def _shown(self, promotion: Promotion, candidates: Candidates) -> Tensor:
        """Count the tokens that agree with their keys, and those that say something: [B, beam, 2].

        A token says nothing new where the same secret decided about it before.
        """
        tokens = candidates.tokens
        longest = tokens.shape[2]
        rows = promotion.row_of[:, None, :longest].expand_as(tokens)
        agrees = promotion.promoted[rows, tokens]
        place = torch.arange(longest, device=tokens.device)
        read = (place < candidates.lengths[..., None]) & (rows < len(promotion.promoted) - 1)
        again = torch.zeros_like(read)
        lags = np.arange(1, longest)
        for lag in lags[self._marker.key.schedule.reuses(lags)].tolist():
            again[..., lag:] |= tokens[..., lag:] == tokens[..., :-lag]
        read = read & ~again
        return torch.stack([(agrees & read).sum(-1), read.sum(-1)], dim=-1)


def line_number(line: str) -> int:
    """Return a number below 2^56 that stands for what a line says."""
    return int.from_bytes(sha256(line.encode()).digest()[:7], "big")


def _log_ratio(agreeing: Tensor, read: Tensor) -> Tensor:
    """Return ln of the likelihood ratio of a mark, mixed over its usual strengths."""
    rates = torch.tensor(ANY_SYMBOL, dtype=torch.float64, device=read.device)
    terms = (
        agreeing[..., None] * (2 * rates).log()
        + (read - agreeing)[..., None] * (2 * (1 - rates)).log()
    )
    return terms.logsumexp(dim=-1) - log(len(ANY_SYMBOL))


def _preference(log_p: Tensor, clear: Tensor, wanted: float) -> Tensor:
    """Order candidates [B, beam]: clear ones by likelihood, then the others by clearness."""
    is_clear = clear >= wanted
    # ln p is at most 0, and clearness below `wanted`: the two kinds cannot mix.
    rank = torch.where(is_clear, log_p.double() + 1e6, clear - wanted - 1e6)
    return rank.argsort(dim=1, descending=True, stable=True)


def _first_that_reads_back(
    order: NDArray[np.int64],
    tokens: NDArray[np.int64],
    lengths: NDArray[np.int64],
    reads_back: ReadsBack,
) -> NDArray[np.int64]:
    """Return for each row the first candidate of its order that reads back, or simply the first."""
    taken = order[:, 0].copy()
    waiting = np.arange(len(order))
    for candidate in order.T:
        texts = [tokens[i, candidate[i], : lengths[i, candidate[i]]].tolist() for i in waiting]
        good = np.array(reads_back(texts), dtype=bool)
        taken[waiting[good]] = candidate[waiting[good]]
        waiting = waiting[~good]
        if not len(waiting):
            break
    return taken
