"""`patternmark bench scan` and `bench scan-gpu`: how fast scans are."""

from __future__ import annotations

from typing import Annotated

import typer

from patternmark.cli.output import Verbose, progress
from patternmark_lab.cli.bench import AsJson, Output, bench_app, show


@bench_app.command(name="scan")
def bench_scan(
    sequences: Annotated[int, typer.Option(min=10, help="Sequences to make.")] = 150_000,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of every comparison.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sequences.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed and memory of scans, compared with plain passes over the same bytes."""
    from patternmark_lab.bench.scan import STEPS, run_scan_benchmark
    from patternmark_lab.bench.scan_page import to_markdown

    with progress("steps") as bar:
        task = bar.add_task("starting", total=STEPS)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_scan_benchmark(sequences, repeats, seed, step)
    show(result, to_markdown(result), output, as_json)


@bench_app.command(name="scan-gpu")
def bench_scan_gpu(
    keys: Annotated[int, typer.Option(min=1, help="Keys of the paper's scheme.")] = 100_000,
    sequences: Annotated[int, typer.Option(min=10, help="Sequences to make.")] = 1_000_000,
    block_keys: Annotated[int, typer.Option(min=1, help="Block keys.")] = 10_000,
    device: Annotated[str, typer.Option(help="cuda, or cpu to try it out.")] = "cuda",
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of every comparison.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sequences.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed of scans for very many keys on a GPU, compared with one CPU thread."""
    from patternmark_lab.bench.scan_gpu import STEPS, run_gpu_benchmark
    from patternmark_lab.bench.scan_gpu_page import to_markdown

    with progress("steps") as bar:
        task = bar.add_task("starting", total=STEPS)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_gpu_benchmark(keys, sequences, block_keys, device, repeats, seed, step)
    show(result, to_markdown(result), output, as_json)
