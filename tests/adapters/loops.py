"""The loops that models are run in, written small: what calls a hook, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from patternmark.adapters.transformers import DiffusionTemperatures  # noqa: E402
from tests.adapters.tiny_models import MASK, NEVER, PAD  # noqa: E402

SCHEDULE = DiffusionTemperatures(t_min=0.4, t_max=0.8, max_denoising_steps=6)


def generate_words(model: Any, prompt: Any, length: int = 128, **arguments: Any) -> Any:
    torch.manual_seed(21)
    return model.generate(
        prompt,
        attention_mask=(prompt != PAD).long(),
        max_new_tokens=length,
        suppress_tokens=NEVER,
        **{"do_sample": True, "top_k": 0, **arguments},
    )


def generate_canvases(model: Any, prompt: Any, processor: Any, length: int = 128) -> Any:
    torch.manual_seed(31)
    never = transformers.SuppressTokensLogitsProcessor(NEVER, prompt.device)
    return model.generate(
        prompt,
        max_new_tokens=length,
        logits_processor=transformers.LogitsProcessorList([never, processor]),
        **SCHEDULE._asdict(),
    ).sequences


def dream_generate(
    model: Any,
    prompt: Any,
    length: int,
    steps: int,
    temperature: float,
    generation_logits_hook_func: Callable[..., Any],
) -> Any:
    """Dream's order of events: shift, hook, temperature, sample, confidence, most confident first.

    t falls from 1 to 1e-3; int(masks * (1 - s/t)) tokens settle in a step, all in the last.
    """
    generator = torch.Generator(prompt.device).manual_seed(3)
    tokens = torch.nn.functional.pad(prompt, (0, length), value=MASK)
    times = torch.linspace(1.0, 1e-3, steps + 1, dtype=torch.float64).tolist()
    for step in range(steps):
        is_open = tokens == MASK
        with torch.no_grad():
            logits = model(tokens).logits
        logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        logits = generation_logits_hook_func(step, tokens, logits)
        logits[..., NEVER] = -torch.inf
        shares = (logits / (temperature or 1.0)).softmax(dim=-1)
        drawn = shares.argmax(dim=-1)
        if temperature > 0:
            drawn = torch.multinomial(shares.flatten(0, 1), 1, generator=generator)
            drawn = drawn.view(tokens.shape)
        confidence = shares.gather(-1, drawn[..., None])[..., 0]
        confidence = confidence.masked_fill(~is_open, -torch.inf)
        masks = int(is_open.sum()) // len(tokens)
        is_last = step == steps - 1
        count = masks if is_last else int(masks * (1 - times[step + 1] / times[step]))
        if count:
            best = confidence.topk(count, dim=1).indices
            settled = torch.zeros_like(is_open).scatter(1, best, True)
            tokens = torch.where(settled, drawn, tokens)
    return tokens


@torch.no_grad()
def llada2_generate(
    model: Any,
    prompt: Any,
    length: int,
    *,
    block: int = 32,
    threshold: float = 0.5,
    edit_above: float = 0.0,
    edits: list[Any] | None = None,
) -> Any:
    """What LLaDA 2.1 does, greedily; `edits` are told how many positions were edited in each step.

    Blocks come from left to right; masks above a threshold settle, or else the surest; written
    tokens give way to others above a second threshold.
    """
    rows, prompt_length = prompt.shape
    total = -(-(prompt_length + length) // block) * block
    text = torch.nn.functional.pad(prompt, (0, total - prompt_length), value=MASK)
    places = torch.arange(total, device=prompt.device)[None].expand(rows, -1)
    for start in range(prompt_length // block * block, total, block):
        end = start + block
        writable = places[:, start:end] >= prompt_length
        for _ in range(3 * block):
            logits = model.forward(text[:, :end], position_ids=places[:, :end]).logits
            shares, best = logits[:, start:].softmax(dim=-1).max(dim=-1)
            current = text[:, start:end]
            is_open = current == MASK
            fill = is_open & (shares > threshold)
            surest = shares.masked_fill(~is_open, -1.0).argmax(dim=1)
            idle = is_open.any(dim=1) & ~fill.any(dim=1)
            fill[idle, surest[idle]] = True
            edit = ~is_open & writable & (best != current) & (shares > edit_above)
            if not (fill | edit).any():
                break
            if edits is not None:
                edits.append(int(edit.sum()))
            text[:, start:end] = torch.where(fill | edit, best, current)
    return text[:, : prompt_length + length]
