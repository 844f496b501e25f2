"""Fill masked positions in any order: the common loop of all samplers of masked models.

Each step runs the model, excludes forbidden tokens, adds the bias, draws a token for every open
position and keeps some of them. Samplers differ in which ones they keep: see `most_confident`,
`at_random` and `each_with_probability`. The bias is added before the token is drawn *and* before
its confidence is computed, so the order follows the distribution that is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patternmark.adapters.logit_bias import LogitBias, batch_keys
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.alphabet import NO_KEY
from patternmark.core.marker import Marker

# From confidences [B, L] (-inf at positions that are not open) to the positions to keep: [B, L].
Choice = Callable[[Tensor], Tensor]
_LATE_PENALTY = 100.0  # larger than the difference of any two confidences


def most_confident(count: int) -> Choice:
    """Keep the tokens of the `count` open positions of each row with the highest confidence."""

    def choose(confidence: Tensor) -> Tensor:
        best = confidence.topk(min(count, confidence.shape[1]), dim=1).indices
        return torch.zeros_like(confidence, dtype=torch.bool).scatter(1, best, True)

    return choose


def at_random(count: int, generator: torch.Generator | None = None) -> Choice:
    """Keep the tokens of `count` random open positions of each row."""
    choose = most_confident(count)

    def draw(confidence: Tensor) -> Tensor:
        noise = _uniform(confidence.shape, confidence.device, generator)
        return choose(torch.where(confidence == -torch.inf, confidence, noise))

    return draw


def each_with_probability(probability: float, generator: torch.Generator | None = None) -> Choice:
    """Keep the token of each open position independently, with the same probability."""

    def draw(confidence: Tensor) -> Tensor:
        return _uniform(confidence.shape, confidence.device, generator) < probability

    return draw


@dataclass(frozen=True)
class MaskedSampler:
    """A model, the tokens that it may write, and the bias of the mark.

    `model` takes tokens [B, L] and returns logits [B, L, C]. It never writes the mask, a column in
    `forbidden`, or a column that is not a token. Tokens in `late` (such as the end of a text) are
    kept only when no other token can be. The confidence of a position is the probability of the
    drawn token. With `by_entropy` it is the negative entropy of the distribution, which does not
    depend on the drawn token.
    """

    model: Callable[[Tensor], Tensor]
    mask_id: int
    bias: LogitBias  # for the keys [B, L] of all positions
    temperature: float = 1.0
    forbidden: Sequence[int] = ()
    late: Sequence[int] = ()
    by_entropy: bool = False
    generator: torch.Generator | None = None

    def fill(
        self, tokens: Tensor, choices: Iterable[Choice], within: Tensor | None = None
    ) -> Tensor:
        """Take one step for each choice; only masks `within` [B, L] are open. Return [B, L]."""
        for choose in choices:
            is_open = tokens == self.mask_id
            if within is not None:
                is_open = is_open & within
            if not bool(is_open.any()):
                break
            drawn, certainty = self._draw(self.model(tokens)[is_open], is_open)
            confidence = certainty.new_full(tokens.shape, -torch.inf)
            confidence[is_open] = certainty
            proposed = tokens.clone()
            proposed[is_open] = drawn
            tokens = torch.where(choose(confidence) & is_open, proposed, tokens)
        return tokens

    def _draw(self, logits: Tensor, is_open: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a token for each open position; return it and its confidence: [n, C] -> [n] each."""
        allowed = self.bias.writable(logits.shape[-1])
        allowed[[self.mask_id, *self.forbidden]] = False
        # Double precision: in single precision, Gumbel noise favours likely tokens too much.
        marked = self.bias.add_to(logits.double().masked_fill(~allowed, -torch.inf), is_open)
        noisy = marked
        if self.temperature > 0:
            uniform = _uniform(marked.shape, marked.device, self.generator)
            noisy = marked / self.temperature - torch.log(-torch.log(uniform))
        drawn = noisy.argmax(dim=-1)
        shares = marked.softmax(dim=-1)
        if self.by_entropy:
            certainty = torch.xlogy(shares, shares).sum(dim=-1)
        else:
            certainty = shares.gather(-1, drawn[:, None])[:, 0]
        held_back = torch.isin(drawn, torch.as_tensor(self.late, device=drawn.device).long())
        return drawn, torch.where(held_back, certainty - _LATE_PENALTY, certainty)


def answer_keys(
    marker: Marker, tokens: Tensor, prompt_length: int, seed: int | str | None, first_index: int
) -> Tensor:
    """Return the keys of rows that begin with a prompt: [B, L]. The prompt has no keys."""
    rows, length = tokens.shape
    drawn = batch_keys(marker, rows, length - prompt_length, seed, first_index)
    prompt = np.full((rows, prompt_length), NO_KEY)
    return torch.as_tensor(np.hstack([prompt, drawn]), device=tokens.device)


def logits_of(output: Any) -> Tensor:
    """Return the logits of a model's output, which is a tensor or has a field `logits`."""
    logits: Tensor = getattr(output, "logits", output)
    return logits


def _uniform(
    shape: Sequence[int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    return torch.rand(tuple(shape), dtype=torch.float64, device=device, generator=generator)
