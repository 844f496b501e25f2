"""`patternmark bench design`: speed of our sampler and the published one, and of marking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from patternmark.core.key import Key
from patternmark.core.marker import Marker
from patternmark.core.profile import Profile
from patternmark.designing.plan import DesignPlan, plan_design
from patternmark.designing.run import Designer, DesignOptions
from patternmark.io.structures import Backbone
from patternmark.models.mpnn import ProteinMPNN
from patternmark.models.sampler import decoding_steps, sample
from patternmark.models.state import Task
from patternmark_lab.bench.published import features_of, published_network, published_samples
from patternmark_lab.bench.report import environment

RESIDUES = 400
CPU_BATCHES = (1, 8, 32, 96)
GPU_BATCHES = (1, 32, 128, 1024, 4096, 8192, 16384)
PUBLISHED_CPU_BATCHES = (1, 32)
PUBLISHED_GPU_BATCHES = (1, 32, 128)
REPEATS = 3
_OVERHEAD_BATCH, _OVERHEAD_REPEATS = 32, 15


def run_design_benchmark(
    weights: Path, backbone: Backbone, device: str, step: Callable[[str], None]
) -> dict[str, Any]:
    """Measure on one CPU thread or on a GPU; `step` is called with the name of each part."""
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
        designer = _designer(weights, device)
        step("both samplers in turn")
        pairs = PUBLISHED_GPU_BATCHES if on_gpu else PUBLISHED_CPU_BATCHES
        result["both"] = [_both(weights, designer, backbone, batch) for batch in pairs]
        step("patternmark's sampler")
        batches = GPU_BATCHES if on_gpu else CPU_BATCHES
        result["ours"] = [_ours(designer, backbone, batch) for batch in batches]
        step("what the mark costs")
        result["mark_cost"] = _mark_cost(designer, backbone)
    finally:
        torch.set_num_threads(threads)
    return result


def to_markdown(result: dict[str, Any]) -> str:
    """Return the results page of one device."""
    lines = [
        f"# Speed of design: {result['device']}",
        "",
        f"Made by `patternmark bench design -o docs/results` with patternmark {result['version']}, "
        f"torch {result['torch']}, Python {result['python']}, {result['machine']}; "
        f"{result['residues']} residues ({result['structure']}), T = 0.1, marked designs. Times do "
        "not include encoding the backbone, for either sampler; they do include recording the CUDA "
        "graph.",
        "",
        "## Compared with the published sampler",
        "",
        f"The package `proteinmpnn` 0.1.3 and patternmark run in turn, {REPEATS} times each. The "
        "table has the median of residues per second, and the median and range of the ratio.",
        "",
        "| batch | published | patternmark | ratio | range |",
        "|---:|---:|---:|---:|---|",
    ]
    for row in result["both"]:
        lines.append(
            f"| {row['batch']:,} | {row['published']:,.0f} | {row['ours']:,.0f} "
            f"| {row['ratio']:,.1f} | {row['low']:,.1f} to {row['high']:,.1f} |"
        )
    lines += [
        "",
        "## By batch size",
        "",
        "| batch | residues/s | peak memory (MiB) |",
        "|---:|---:|---:|",
    ]
    for row in result["ours"]:
        memory = f"{row['peak_mib']:,.0f}" if row["peak_mib"] else ""
        lines.append(f"| {row['batch']:,} | {row['residues_per_second']:,.0f} | {memory} |")
    cost = result["mark_cost"]
    lines += [
        "",
        f"**Cost of the mark**: drawing the position keys and the letters that they promote takes "
        f"{cost['share']:.2%} of the sampling time for a batch of {cost['batch']} "
        f"({cost['drawing_seconds'] * 1e3:.2f} of {cost['sampling_seconds'] * 1e3:,.0f} ms). The "
        "steps themselves take the same time with and without a mark.",
    ]
    return "\n".join(lines) + "\n"


def _designer(weights: Path, device: str) -> Designer:
    return Designer(ProteinMPNN.load(weights, device), DesignOptions(seed=1))


def _task(designer: Designer, plan: DesignPlan, batch: int, marker: Marker | None) -> Task:
    """Make a task; a large batch repeats the orders of 64 sequences, which takes the same time."""
    repeated = [i % 64 for i in range(batch)]
    steps, uniforms = decoding_steps(plan.groups, 1, range(min(batch, 64)), plan.length)
    bias = np.tile(designer.options.letter_bias(), (plan.length, 1))
    task = Task(plan.backbone.sequence, steps[repeated], uniforms[repeated], bias, 0.1)
    if marker is None:
        return task
    return replace(task, promotions=(marker.prepare(plan.keys(marker, 1, repeated), 0.1),))


def _both(weights: Path, designer: Designer, backbone: Backbone, batch: int) -> dict[str, float]:
    """Time both samplers in turn, so that noise of the machine affects both."""
    device = designer.model.device.type
    model, features = published_network(weights, device), features_of(backbone, batch, device)
    ours = _sampling(designer, backbone, batch)

    def published() -> object:
        return published_samples(model, features, temperature=0.1)

    if device == "cuda":
        ours(), published()  # compile and set up
    times = [(_seconds(published, device), _seconds(ours, device)) for _ in range(REPEATS)]
    ratios = [theirs / mine for theirs, mine in times]
    residues = batch * len(backbone.sequence)
    return {
        "batch": batch,
        "published": residues / median(theirs for theirs, _ in times),
        "ours": residues / median(mine for _, mine in times),
        "ratio": median(ratios),
        "low": min(ratios),
        "high": max(ratios),
    }


def _ours(designer: Designer, backbone: Backbone, batch: int) -> dict[str, float]:
    device = designer.model.device.type
    work = _sampling(designer, backbone, batch)
    if device == "cuda":
        work()
        torch.cuda.reset_peak_memory_stats()
    seconds = median(_seconds(work, device) for _ in range(REPEATS))
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0
    rate = batch * len(backbone.sequence) / seconds
    return {"batch": batch, "residues_per_second": rate, "peak_mib": peak}


def _sampling(designer: Designer, backbone: Backbone, batch: int) -> Callable[[], object]:
    prepared = designer.model.prepare(designer.model.encode(backbone))
    marker = Marker(Key.generate(Profile()))
    task = _task(designer, plan_design(backbone), batch, marker)
    return lambda: sample(prepared, task)


def _mark_cost(designer: Designer, backbone: Backbone) -> dict[str, float]:
    """Time what a mark adds: drawing the keys. The steps are the same as without a mark."""
    device = designer.model.device.type
    plan, marker = plan_design(backbone), Marker(Key.generate(Profile()))
    prepared = designer.model.prepare(designer.model.encode(backbone))
    task = _task(designer, plan, _OVERHEAD_BATCH, None)

    def draw_keys() -> object:
        return marker.prepare(plan.keys(marker, 1, range(_OVERHEAD_BATCH)), 0.1)

    drawing = median(_seconds(draw_keys, "cpu") for _ in range(_OVERHEAD_REPEATS))
    sampling = median(_seconds(lambda: sample(prepared, task), device) for _ in range(REPEATS))
    return {
        "batch": _OVERHEAD_BATCH,
        "share": drawing / sampling,
        "drawing_seconds": drawing,
        "sampling_seconds": sampling,
    }


def _seconds(work: Callable[[], object], device: str) -> float:
    started = perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - started


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
