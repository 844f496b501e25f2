"""Marked proteins from masked protein language models: ESM, and EvoDiff's order-agnostic models.

Each of them has its own vocabulary of letters. The mark is added to letters, so one protein key
works for all of them, and `patternmark detect` finds it in the finished sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patternmark.adapters.logit_bias import LogitBias, letter_columns
from patternmark.adapters.masked import (
    MaskedSampler,
    answer_keys,
    at_random,
    logits_of,
    most_confident,
)
from patternmark.adapters.needs_torch import Tensor, torch
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError, SequenceError

__all__ = ["esm_generate", "order_agnostic_generate"]

OPEN = "_"  # in a template: a residue that the model writes
RANDOM, CONFIDENCE = "random", "confidence"

ESM_TOKENS = (
    "<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>",
)  # fmt: skip
EVODIFF_TOKENS = tuple("ACDEFGHIKLMNPQRSTVWYBZXJOU-*#@!")


@dataclass(frozen=True)
class Layout:
    """How a model represents a protein: its tokens, and those before and after the letters."""

    id_of: Mapping[str, int]
    mask: str
    pad: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def write(self, templates: Sequence[str]) -> Tensor:
        """Return the tokens of sequences whose open residues are masked: [B, L]."""
        rows = [
            [*self.before, *(self.mask if c == OPEN else c for c in text), *self.after]
            for text in templates
        ]
        longest = max(map(len, rows), default=0)
        tokens = torch.full((len(rows), longest), self.id_of[self.pad])
        for number, (row, text) in enumerate(zip(rows, templates, strict=True)):
            for place, token in enumerate(row):
                if token not in self.id_of:
                    raise SequenceError(
                        f"template {number + 1}: {text[place - len(self.before)]!r} is not a "
                        f"letter of this model: write its letters, and {OPEN!r} for open residues"
                    )
                tokens[number, place] = self.id_of[token]
        return tokens

    def read(self, tokens: Tensor, templates: Sequence[str]) -> list[str]:
        """Return the sequences of tokens [B, L]."""
        token_of = {index: token for token, index in self.id_of.items()}
        start = len(self.before)
        return [
            "".join(token_of[index] for index in row[start : start + len(text)])
            for row, text in zip(tokens.tolist(), templates, strict=True)
        ]


ESM = Layout(
    {token: i for i, token in enumerate(ESM_TOKENS)}, "<mask>", "<pad>", ("<cls>",), ("<eos>",)
)
EVODIFF = Layout({token: i for i, token in enumerate(EVODIFF_TOKENS)}, "#", "!")


def esm_generate(
    model: Any, templates: Sequence[str], marker: Marker, *, layout: Layout = ESM, **how: Any
) -> list[str]:
    """Fill the open residues of templates such as `"MK____"` with `EsmForMaskedLM`.

    `how` are further arguments of `order_agnostic_generate`.
    """

    def predict(tokens: Tensor) -> Any:
        return model(tokens, attention_mask=(tokens != layout.id_of[layout.pad]).long())

    device = next(model.parameters()).device
    return order_agnostic_generate(
        predict, templates, marker, layout=layout, **{"device": device, **how}
    )


@torch.no_grad()
def order_agnostic_generate(
    model: Callable[[Tensor], Any],
    templates: Sequence[str],
    marker: Marker,
    *,
    layout: Layout = EVODIFF,
    order: str = RANDOM,
    per_step: int = 1,
    temperature: float = 1.0,
    device: torch.device | str = "cpu",
    seed: int | str | None = None,
    first_index: int = 0,
    generator: torch.Generator | None = None,
) -> list[str]:
    """Fill open residues one at a time in a random order, as EvoDiff's OADM does.

    `model` is any function from tokens [B, L] to logits [B, L, C], or to an output that has them.
    EvoDiff's models also need a time step: wrap them, `lambda x: model(x, torch.zeros(len(x)))`.
    `order` is `random` or `confidence`; in the latter, the residues whose distribution with the
    bias has the least entropy come first. `per_step` residues of each sequence are fixed in one
    pass. Given letters do not change and are not marked.
    """
    if order not in (RANDOM, CONFIDENCE):
        raise ParameterError(f"order must be {RANDOM} or {CONFIDENCE}, not {order!r}")
    if per_step < 1:
        raise ParameterError(f"per_step must be at least 1, not {per_step}")
    columns = letter_columns(marker.key.profile.alphabet, layout.id_of)
    tokens = layout.write(templates).to(device)
    # Keys begin with the first residue: tokens before it count as a prompt.
    keys = answer_keys(marker, tokens, len(layout.before), seed, first_index)
    sampler = MaskedSampler(
        lambda tokens: logits_of(model(tokens)),
        layout.id_of[layout.mask],
        LogitBias(marker, keys, columns, temperature=temperature, device=device),
        temperature=temperature,
        by_entropy=True,
        generator=generator,
    )
    choice = at_random(per_step, generator) if order == RANDOM else most_confident(per_step)
    steps = max((-(-text.count(OPEN) // per_step) for text in templates), default=0)
    return layout.read(sampler.fill(tokens, [choice] * steps), templates)
