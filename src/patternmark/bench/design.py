"""`patternmark bench design`: the sampler against the published one, and what the mark costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from patternmark.bench.published import PublishedMPNN
from patternmark.bench.report import environment
from patternmark.design.plan import plan_design
from patternmark.design.run import Designer, DesignOptions
from patternmark.io.structures import Backbone
from patternmark.key import Key
from patternmark.mark import Marker
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.sampler import Task, decoding_steps, sample
from patternmark.profile import Profile

RESIDUES = 400
CPU_BATCHES = (1, 8, 32, 96)
GPU_BATCHES = (1, 32, 128, 1024, 4096, 8192, 16384)
PUBLISHED_CPU_BATCHES = (1, 32)
PUBLISHED_GPU_BATCHES = (1, 32, 128)
_OVERHEAD_BATCH, _OVERHEAD_PAIRS = 32, 15


def run_design_benchmark(
    weights: Path, backbone: Backbone, device: str, step: Callable[[str], None]
) -> dict[str, Any]:
    """Measure on one CPU thread or on a GPU; `step` hears what is being measured."""
    on_gpu = device == "cuda"
    threads = torch.get_num_threads()
    torch.set_num_threads(threads if on_gpu else 1)
    try:
        result: dict[str, Any] = {"benchmark": f"design-{device}", **environment()}
        result |= {
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if on_gpu else "one CPU thread",
            "residues": len(backbone.sequence),
            "structure": backbone.name,
        }
        step("the published sampler")
        result["published"] = [
            _published(weights, backbone, batch, device)
            for batch in (PUBLISHED_GPU_BATCHES if on_gpu else PUBLISHED_CPU_BATCHES)
        ]
        step("patternmark's sampler")
        designer = _designer(weights, device)
        result["ours"] = [
            _ours(designer, backbone, batch) for batch in (GPU_BATCHES if on_gpu else CPU_BATCHES)
        ]
        step("what the mark costs")
        result["mark_cost"] = _mark_cost(designer, backbone)
    finally:
        torch.set_num_threads(threads)
    return result


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page of one device."""
    published = {row["batch"]: row["residues_per_second"] for row in result["published"]}
    slowest = min(published)
    lines = [
        f"# Speed of design: {result['device']}",
        "",
        f"Made by `patternmark bench design -o docs/results` with patternmark {result['version']}, "
        f"torch {result['torch']}, Python {result['python']}, {result['machine']}; "
        f"{result['residues']} residues ({result['structure']}), T = 0.1. Ratios are of residues "
        "per second in one run; the published sampler is the package `proteinmpnn` 0.1.3.",
        "",
        "| batch | residues/s | published at the same batch | ratio | ratio to published at batch "
        f"{slowest} | peak memory (MiB) |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["ours"]:
        rate, same = row["residues_per_second"], published.get(row["batch"])
        beside = (f"{same:,.0f}", f"{rate / same:,.1f}") if same else ("", "")
        memory = f"{row['peak_mib']:,.0f}" if row["peak_mib"] else ""
        lines.append(
            f"| {row['batch']:,} | {rate:,.0f} | {beside[0]} | {beside[1]} "
            f"| {rate / published[slowest]:,.1f} | {memory} |"
        )
    cost = result["mark_cost"]
    lines += [
        "",
        f"**What the mark costs**: {cost['median']:+.2%} of the sampling time at batch "
        f"{cost['batch']} (median of {cost['pairs']} pairs of runs with and without a key; half of "
        f"them lie between {cost['low']:+.2%} and {cost['high']:+.2%}).",
    ]
    return "\n".join(lines) + "\n"


def _designer(weights: Path, device: str) -> Designer:
    return Designer(ProteinMPNN.load(weights, device), DesignOptions(seed=1))


def _task(designer: Designer, backbone: Backbone, batch: int, marker: Marker | None) -> Task:
    """Make a task; a large batch repeats the orders of 64 sequences, which costs the same."""
    plan = plan_design(backbone)
    few = [i % 64 for i in range(batch)]
    steps, uniforms = decoding_steps(plan.groups, 1, range(min(batch, 64)), plan.length)
    keys, key_bias = np.full((batch, plan.length), -1), np.zeros((1, 21))
    if marker is not None:
        keys = plan.keys(marker, 1, few)
        key_bias = marker.table(0.1)
    bias = np.tile(designer.options.letter_bias(), (plan.length, 1))
    return Task(backbone.sequence, steps[few], uniforms[few], keys, key_bias, bias, 0.1)


def _ours(designer: Designer, backbone: Backbone, batch: int) -> dict[str, float]:
    """Time sampling with a mark, graph capture included, encoder excluded as for the published."""
    marker = Marker(Key.generate(Profile()))
    prepared = designer.model.prepare(designer.model.encode(backbone))
    task = _task(designer, backbone, batch, marker)
    on_gpu = designer.model.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds = _seconds(lambda: sample(prepared, task), on_gpu, warm_up=on_gpu)
    peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else 0.0
    rate = batch * len(backbone.sequence) / seconds
    return {"batch": batch, "residues_per_second": rate, "peak_mib": peak}


def _published(weights: Path, backbone: Backbone, batch: int, device: str) -> dict[str, float]:
    published = PublishedMPNN(weights, backbone, batch, device)
    seconds = _seconds(published.sample, device == "cuda", repeats=1, warm_up=False)
    return {"batch": batch, "residues_per_second": batch * len(backbone.sequence) / seconds}


def _mark_cost(designer: Designer, backbone: Backbone) -> dict[str, float]:
    """Compare runs with and without a key in pairs, so that a noisy machine hits both alike."""
    on_gpu = designer.model.device.type == "cuda"
    short = _first_residues(backbone, 100)
    prepared = designer.model.prepare(designer.model.encode(short))
    marker = Marker(Key.generate(Profile()))
    costs = []
    for pair in range(_OVERHEAD_PAIRS):
        times = {}
        for marked in (True, False) if pair % 2 else (False, True):

            def work(marked: bool = marked) -> object:
                task = _task(designer, short, _OVERHEAD_BATCH, marker if marked else None)
                return sample(prepared, task)

            times[marked] = _seconds(work, on_gpu, repeats=1, warm_up=pair == 0)
        costs.append(times[True] / times[False] - 1.0)
    low, high = np.quantile(costs, [0.25, 0.75])
    return {
        "batch": _OVERHEAD_BATCH,
        "pairs": _OVERHEAD_PAIRS,
        "median": median(costs),
        "low": float(low),
        "high": float(high),
    }


def _seconds(
    work: Callable[[], object], on_gpu: bool, *, repeats: int = 3, warm_up: bool = True
) -> float:
    if warm_up:
        work()
    times = []
    for _ in range(repeats):
        started = perf_counter()
        work()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(perf_counter() - started)
    return median(times)


def cut_to_length(backbone: Backbone, residues: int = RESIDUES) -> Backbone:
    """Return the first chains of a structure, cut to a number of residues."""
    return _first_residues(backbone, min(residues, len(backbone.sequence)))


def _first_residues(backbone: Backbone, count: int) -> Backbone:
    rows: Sequence[int] = range(count)
    used = sorted({int(backbone.chain_index[r]) for r in rows})
    return replace(
        backbone,
        coordinates=backbone.coordinates[:count],
        sequence=backbone.sequence[:count],
        chain_index=np.searchsorted(used, backbone.chain_index[:count]),
        chain_ids=tuple(backbone.chain_ids[i] for i in used),
        residue_labels=backbone.residue_labels[:count],
        warnings=(),
    )
