"""Mask-Predict: decoding with CMLM.

At first all tokens are masks. Each iteration predicts the masked tokens and then masks those again
of which the model was least sure, fewer each time. Several lengths are tried in parallel.

The mark is added to the logits. So it affects the choice of the token and also its confidence,
which decides whether the token stays. Position j of a candidate has position key j, whenever it is
decoded. An online scheme uses the neighbouring tokens at the start of the iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from patternmark.core.promote import Promotion
from patternmark.models.canvas import EMPTY, OUTSIDE, Canvas, CanvasMarks, Likely
from patternmark.models.cmlm import CMLM, Config, Memory, attention_mask
from patternmark.models.head import Head, choose


class Candidates(NamedTuple):
    """Translations of different lengths: tokens [B, beam, L], padded, with their likelihoods."""

    tokens: Tensor
    lengths: Tensor  # [B, beam]
    log_p: Tensor  # [B, beam] the mean of ln p over the tokens; given ends count as 0

    def best(self) -> list[list[int]]:
        """Return the tokens of the likeliest candidate of each sentence."""
        return [row[0] for row in self.ranked(1)]

    def ranked(self, most: int | None = None) -> list[list[list[int]]]:
        """Return the tokens of the candidates of each sentence, the likeliest first."""
        order = self.log_p.argsort(dim=1, descending=True, stable=True)[:, :most]
        tokens = self.tokens.gather(1, order[..., None].expand(-1, -1, self.tokens.shape[2]))
        lengths = self.lengths.gather(1, order)
        rows = zip(tokens.tolist(), lengths.tolist(), strict=True)
        return [[t[:n] for t, n in zip(*row, strict=True)] for row in rows]


@torch.inference_mode()
def mask_predict(
    model: CMLM,
    memory: Memory,
    lengths: Tensor,
    *,
    iterations: int = 10,
    promotion: Promotion[Tensor] | None = None,
    online: CanvasMarks | None = None,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> Candidates:
    """Translate encoded sentences to `lengths` [B, beam]; temperature 0 takes the likeliest tokens.

    `promotion` has the keys of positions [B, L]: all candidates of a sentence share them. `online`
    has marks of candidates [B * beam] that depend on neighbouring tokens. Confidences are the
    probabilities from which tokens are chosen, and include the bias of both.
    """
    config, beam, flat = model.config, lengths.shape[1], lengths.flatten()
    first = 1 if config.ends == "given" else 0  # place of the first token, which has key 0
    tokens, inside, is_open = open_canvas(config, flat)
    longest = tokens.shape[1]
    head = Head(model.embedding.weight, config.never, promotion, model.table)
    at_once = _ROWS_AT_ONCE["cuda" if flat.is_cuda else "cpu"]
    states_of = _decoder(model, memory, inside)
    confidence = torch.where(is_open, 0.0, math.inf)  # [N, L] ln p; given ends are never masked
    rank = torch.arange(longest, device=flat.device)
    numbers = _numbers_masked(is_open.sum(dim=1).cpu(), iterations, 1 - first)
    sizes = zip(numbers.amax(dim=1).tolist(), numbers.sum(dim=1).tolist(), strict=True)
    for wanted, (most, total) in zip(numbers.to(flat.device)[..., None], sizes, strict=True):
        if not total:
            break  # later iterations mask no tokens either
        # The places with the lowest confidence, and which of them are masked: [N, most].
        order = confidence.argsort(dim=1, stable=True)[:, :most]
        chosen = rank[:most] < wanted
        masked = torch.zeros_like(is_open).scatter_(1, order, chosen)
        tokens = torch.where(masked, config.mask, tokens)
        states = states_of(tokens, only=order)
        if online is not None:
            seen = torch.where(masked, EMPTY, torch.where(is_open, tokens, OUTSIDE))[:, first:]
            spread = _spread(states, order, longest)[:, first:] if online.likely else None
            likely = None if spread is None else _likely(head, spread, seen, temperature)
        flat_states = states.flatten(0, 1)
        parts = (torch.split(part, at_once) for part in _sort_by_place(order, chosen, total))
        for place, row, of in zip(*parts, strict=True):
            logits = head.logits(flat_states[of], (row // beam, place - first))
            if online is not None:
                canvas = Canvas(seen, row, place - first, None, likely, logits, temperature or 1.0)
                logits += online.bias(canvas)
            at = row, place
            tokens[at], confidence[at] = choose(logits, temperature, generator)
    mean = confidence.where(is_open, 0.0).sum(dim=1) / flat.clamp(min=1)
    return Candidates(
        *without_ends(config, tokens.view(*lengths.shape, -1), lengths),
        mean.view(lengths.shape),
    )


def _sort_by_place(order: Tensor, chosen: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the chosen places of `order` [N, Q], their rows, and their flat indices: [total].

    They are sorted by place, because the same place of a sentence has the same key. `total` is
    given so that the CPU need not wait for the device.
    """
    count = len(order)
    numbers = order * count + torch.arange(count, device=order.device)[:, None]
    none = torch.iinfo(numbers.dtype).max
    found, of = torch.where(chosen, numbers, none).flatten().sort()
    return found[:total] // count, found[:total] % count, of[:total]


def _spread(states: Tensor, order: Tensor, longest: int) -> Tensor:
    """Return states [N, Q, D] at their places in the sequence: [N, longest, D], 0 elsewhere."""
    index = order[..., None].expand_as(states)
    everywhere = states.new_zeros(len(states), longest, states.shape[2])
    return everywhere.scatter_(1, index, states)


def _numbers_masked(number: Tensor, iterations: int, least: int) -> Tensor:
    """Return how many of `number` [N] tokens each iteration predicts: [iterations, N].

    Mask-Predict masks at least one. With given ends, as in fairseq, late iterations may mask none.
    """
    later = (
        torch.minimum((number * (1.0 - i / iterations)).long().clamp(min=least), number)
        for i in range(1, iterations)
    )
    return torch.stack([number, *later])


def _decoder(model: CMLM, memory: Memory, inside: Tensor) -> Callable[..., Tensor]:
    """Return `model.states` with all arguments that are the same in every iteration."""
    like = memory.states
    return partial(
        model.states,
        memory=model.project(like),
        memory_visible=attention_mask(memory.visible[:, 0, 0], like),
        visible=attention_mask(inside, like),
        positions=model.positions(inside.shape[1], "decoder"),
    )


def _likely(head: Head, states: Tensor, seen: Tensor, temperature: float) -> Likely:
    """Return a function that gives the likeliest tokens of open places, without the mark.

    Greedy decoding has temperature 0; the probabilities are then those at temperature 1.
    """

    def likely(rows: Tensor, places: Tensor, count: int) -> tuple[Tensor, Tensor]:
        ids = rows.new_zeros(len(rows), count)
        p = torch.zeros(ids.shape, device=ids.device)
        of = (seen[rows, places] == EMPTY).nonzero()[:, 0]
        logits = head.logits(states[rows[of], places[of]]).float()
        top = torch.softmax(logits / (temperature or 1.0), dim=1).topk(count)
        ids[of], p[of] = top.indices, top.values
        return ids, p

    return likely


# Rows of V logits: they bound the memory of a GPU, and fit into the cache of a CPU.
_ROWS_AT_ONCE = {"cuda": 2**15, "cpu": 128}


def open_canvas(config: Config, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return masked tokens for all lengths [N], which places are inside and open: [N, L] each."""
    place = torch.arange(int(lengths.max()), device=lengths.device)
    inside = place < lengths[:, None]
    tokens = torch.where(inside, config.mask, config.pad)
    if config.ends != "given":
        return tokens, inside, inside
    last = place == lengths[:, None] - 1
    tokens = tokens.masked_fill(last, config.end)
    tokens[:, 0] = config.begin
    return tokens, inside, inside & ~last & (place > 0)


def without_ends(config: Config, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Remove <s> and every </s> from candidates [B, beam, L]."""
    if config.ends == "given":
        return tokens[..., 1:], lengths - 2
    if config.ends == "predicted":
        is_end = tokens == config.end
        kept_first = is_end.int().argsort(dim=-1, stable=True)
        return tokens.gather(-1, kept_first), lengths - is_end.sum(-1)
    return tokens, lengths
