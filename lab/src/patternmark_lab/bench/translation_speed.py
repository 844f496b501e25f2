"""`patternmark bench translation-speed`: time of CMLM, of an autoregressive model, and of marking.

The autoregressive model has the same layers with a causal decoder and caches its earlier states.
Its weights are random, because time does not depend on them, and it must write as many tokens as
CMLM did. All are timed in turn, in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from patternmark.core.marker import Marker
from patternmark.core.schemes import Turns
from patternmark.intervals import mean_interval
from patternmark.models.cmlm import CMLM
from patternmark.models.device import attention_of_many_shapes
from patternmark.translation.decode import Decoding, for_use, padded
from patternmark.translation.translator import Translator
from patternmark_lab.bench.report import environment
from patternmark_lab.bench.translation import fresh_keys
from patternmark_lab.training.autoregressive import greedy
from patternmark_lab.training.corpus import read_pairs

# Goals: speed relative to the autoregressive model, relative cost of the mark, and marked tokens
# per second on a GPU.
GOAL_FASTER, GOAL_COST, GOAL_RATE = 1.5, 0.02, 60_000
_GPU_BATCH = 256  # sentences
_GPU_ROUNDS = 3


def run_translation_speed(
    pairs: Path,
    *,
    model: Path | None = None,
    device: str = "cpu",
    sentences: int = 40,
    step: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Time sentences one by one on a CPU, or in batches of 256 on a GPU."""
    translator = Translator.open(model, device)
    place = translator.model.embedding.weight.device
    twin = for_use(CMLM(replace(translator.model.config, causal=True)).to(place))
    marker = Marker(fresh_keys(translator.vocabulary.alphabet(), 1, seed=1)[Turns.name][0])
    at_once = _GPU_BATCH if device.startswith("cuda") else 1
    sources = [source for source, _ in read_pairs(pairs)][: sentences * at_once]
    batches = [sources[i : i + at_once] for i in range(0, len(sources), at_once)]
    # The warm-up is the first round on a GPU, which prepares each shape, or one sentence on a CPU.
    rounds, unused = (_GPU_ROUNDS, len(batches)) if at_once > 1 else (1, 1)
    rows = []
    for lines in batches * rounds:
        rows.append(_times(translator, twin, marker, lines, device))
        step(f"{len(rows)} of {rounds * len(batches)} batches")
    return {
        "benchmark": f"translation-speed-{device.split(':', maxsplit=1)[0]}",
        **environment(),
        "torch": torch.__version__,
        "device": translator.device_name + ("" if device.startswith("cuda") else ", one thread"),
        "batch": at_once,
        "rows": rows[unused:],
    }


def _times(
    translator: Translator, twin: CMLM, marker: Marker, lines: list[str], device: str
) -> dict[str, float]:
    """Return the seconds of each way to translate, and the tokens of marked translations."""
    one_length = Decoding(length_beam=1)
    plain, _ = _timed(lambda: _tokens(translator, lines, Decoding()), device)
    marked, tokens = _timed(lambda: _tokens(translator, lines, Decoding(), marker), device)
    single, _ = _timed(lambda: _tokens(translator, lines, one_length), device)
    length = -(-tokens // len(lines))
    writing, _ = _timed(partial(_write, translator, twin, lines, length), device)
    return {
        "mask-predict": plain,
        "tokens": tokens,
        "mask-predict, marked": marked,
        "mask-predict, one length": single,
        "autoregressive": writing,
    }


def _tokens(
    translator: Translator, lines: Sequence[str], decoding: Decoding, marker: Marker | None = None
) -> int:
    found = translator.translate(lines, replace(decoding, batch_tokens=2**20), marker, seed=0)
    return sum(len(translation.tokens) for translation in found)


def _write(translator: Translator, twin: CMLM, lines: Sequence[str], length: int) -> int:
    device = twin.embedding.weight.device
    ids = padded(translator.codec.encode_batch(lines), twin.config.pad, device)
    with attention_of_many_shapes():  # as for all other translations
        greedy(twin, ids, length)
    return length * len(lines)


def _timed(run: Callable[[], int], device: str) -> tuple[float, int]:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    began = perf_counter()
    tokens = run()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return perf_counter() - began, tokens


def ratios(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return speeds relative to the autoregressive model and the mark's cost, with intervals."""
    times = {name: np.array([row[name] for row in result["rows"]]) for name in result["rows"][0]}
    plain, twin = times["mask-predict"], times["autoregressive"]
    return {
        "times faster than autoregressive": mean_interval(twin / plain),
        "one length: times faster": mean_interval(twin / times["mask-predict, one length"]),
        "time that the mark adds": mean_interval(times["mask-predict, marked"] / plain - 1.0),
    }


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page."""
    found = ratios(result)
    tokens = sum(row["tokens"] for row in result["rows"])
    seconds = sum(row["mask-predict, marked"] for row in result["rows"])
    name = result["benchmark"]
    lines = [
        "# Translation: speed",
        "",
        f"Made by `patternmark bench translation-speed PAIRS --device {name.split('-')[-1]}` with "
        f"patternmark {result['version']}, torch {result['torch']}, on {result['device']} "
        f"({result['machine']}), {result['batch']} sentence(s) at a time, 10 iterations, and 5 "
        f"lengths unless the table says otherwise. Each of {len(result['rows'])} batches is timed "
        "in all ways in turn. The autoregressive model has the same sizes, caches its earlier "
        "states, and takes the likeliest token.",
        "",
        "| | mean | 95 % interval | goal |",
        "|---|---:|---|---|",
    ]
    goals = ("", f"{GOAL_FASTER:g}", f"at most {GOAL_COST:.0%}")
    for (what, value), goal in zip(found.items(), goals, strict=True):
        lines.append(
            f"| {what} | {value['mean']:.3f} | {value['low']:.3f} to {value['high']:.3f} | {goal} |"
        )
    lines += ["", f"Marked translation: {tokens / seconds:,.0f} target tokens per second."]
    if result["batch"] > 1:
        lines[-1] += f" The goal is {GOAL_RATE:,}."
    else:
        lines += [
            "",
            "Why it is not faster on a CPU: a step of the autoregressive model reads all weights "
            "for one token, and memory limits its speed. An iteration of mask-predict computes all "
            "tokens of all lengths, and arithmetic limits its speed. Ten iterations of five "
            "lengths take fifty times the arithmetic of writing a sentence once.",
        ]
    return "\n".join(lines) + "\n"
