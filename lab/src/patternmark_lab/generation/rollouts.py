"""Write unit by unit, each token the best of several candidates, as DenMark does.

Each step settles one place of the unit. A candidate is a random open place with a token drawn
from the model. To compare candidates, the model fills the unit's other open places several times,
given each candidate (rollouts). The candidate whose filled units point furthest along the unit's
direction is kept, and the fillings are thrown away. The rollouts of all candidates of a step use
the same uniform numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from patternmark.models.cmlm import CMLM, Memory
from patternmark.models.head import Head
from patternmark.models.mask_predict import open_canvas, without_ends
from patternmark_lab.schemes.rivals import DenMarkLexical

CANDIDATE_TEMPERATURE, ROLLOUT_TEMPERATURE = 0.6, 0.5
AVERAGE_ROLLOUTS = 3


@torch.inference_mode()
def write_by_rollouts(
    model: CMLM,
    memory: Memory,
    lengths: Tensor,
    scheme: DenMarkLexical,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Translate encoded sentences one after the other, to lengths [B] that include the ends."""
    found = []
    for row in range(len(lengths)):
        one = Memory(*(part[row : row + 1] for part in memory))
        writer = _Writer(model, one, lengths[row : row + 1], scheme, generator)
        found.append(writer.write())
    return found


class _Writer:
    """Writes one sentence."""

    def __init__(
        self,
        model: CMLM,
        memory: Memory,
        length: Tensor,
        scheme: DenMarkLexical,
        generator: torch.Generator | None,
    ) -> None:
        self._model, self._memory, self._scheme = model, memory, scheme
        self._generator, self._length = generator, length
        tokens, _, is_open = open_canvas(model.config, length)
        self._tokens, self._open = tokens[0], is_open[0]  # [L]
        self._head = Head(model.embedding.weight, model.config.never, packed=model.table)
        self._attended = model.project(memory.states)
        self._weights = torch.tensor(scheme.weights, device=length.device)

    def write(self) -> list[int]:
        """Settle all places; return the tokens without the begin and end tokens."""
        every = self._open.nonzero()[:, 0]
        for number, places in enumerate(torch.split(every, self._scheme.unit)):
            for left in range(len(places), 0, -1):
                self._step(places, number, left)
        tokens, length = without_ends(
            self._model.config, self._tokens[None, None], self._length[None]
        )
        return list(tokens[0, 0, : int(length)].tolist())

    def _step(self, places: Tensor, number: int, left: int) -> None:
        """Settle one of the `left` open places of a unit."""
        is_open = self._open[places]
        law = self._law(self._tokens[None], places, CANDIDATE_TEMPERATURE)[0]  # [m, V]
        # Units after the last direction have nothing to choose by, so one candidate is enough.
        count = self._scheme.candidates if number < self._scheme.units else 1
        drawn = torch.multinomial(is_open.float(), count, True, generator=self._generator)
        tokens = _draw_tokens(law[drawn], self._uniform(len(drawn)))
        # Equal candidates have equal scores: try each once.
        drawn, tokens = torch.unique(torch.stack([drawn, tokens]), dim=1)
        best = 0
        if len(drawn) > 1:
            best = int(self._scores(places, number, left, drawn, tokens).argmax())
        self._tokens[places[drawn[best]]] = tokens[best]
        self._open[places[drawn[best]]] = False

    def _scores(
        self, places: Tensor, number: int, left: int, drawn: Tensor, tokens: Tensor
    ) -> Tensor:
        """Return the summed projections of the units that candidates lead to: [K].

        All candidates have equally many rollouts, so the sum ranks them like the mean.
        """
        row = torch.arange(len(drawn), device=drawn.device)
        canvas = self._tokens.repeat(len(drawn), 1)
        canvas[row, places[drawn]] = tokens
        still = self._open[places].repeat(len(drawn), 1)
        still[row, drawn] = False
        units, total = canvas[:, places], torch.zeros(len(drawn), device=drawn.device).double()
        if left == 1:
            return self._along(units, number)
        where = still.nonzero(as_tuple=True)
        law = self._law(canvas, places, ROLLOUT_TEMPERATURE)[where]  # [open, V]
        for _ in range(rollouts(left, len(places))):
            uniform = self._uniform(len(places))
            units[where] = _draw_tokens(law, uniform[where[1]])
            total += self._along(units, number)
        return total

    def _along(self, units: Tensor, number: int) -> Tensor:
        """Return the projections of units [K, m], scaled to length 1, on their direction: [K]."""
        scored = torch.as_tensor(self._scheme.alphabet.is_scored(units.cpu().numpy()))
        scored = scored.to(units.device)
        equal = (units[:, :, None] == units[:, None]) & scored[:, :, None]
        norm = equal.sum(dim=(1, 2)).double().sqrt().clamp(min=1.0)
        return self._weights[number][units].sum(dim=1) / norm

    def _law(self, canvas: Tensor, places: Tensor, temperature: float) -> Tensor:
        """Return the cumulative probabilities of places in canvases [K, L]: [K, m, V]."""
        count = len(canvas)
        attended = [(k.expand(count, *k.shape[1:]), v.expand(count, *v.shape[1:]))
                    for k, v in self._attended]  # fmt: skip
        seen = self._memory.visible.expand(count, *self._memory.visible.shape[1:])
        states = self._model.states(canvas, attended, seen, None)[:, places]
        logits = self._head.logits(states.flatten(0, 1)).float()
        return torch.softmax(logits / temperature, dim=1).cumsum(dim=1).view(count, len(places), -1)

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(count, generator=self._generator, device=self._tokens.device)


def _draw_tokens(law: Tensor, uniform: Tensor) -> Tensor:
    """Draw tokens from cumulative probabilities [n, V] by uniform numbers [n]: [n]."""
    # The last sum is 1 up to rounding.
    return torch.searchsorted(law, (uniform * law[:, -1])[:, None], right=True)[:, 0].clamp(
        max=law.shape[1] - 1
    )


def rollouts(left: int, unit: int) -> int:
    """Return the number of rollouts with `left` open places: 3 on average over a unit.

    >>> [rollouts(left, 25) for left in (25, 13, 1)]
    [5, 3, 1]
    """
    return max(1, round(1 + 2 * (AVERAGE_ROLLOUTS - 1) * (left - 1) / max(unit - 1, 1)))
