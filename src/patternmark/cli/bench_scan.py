"""`patternmark bench scan`: how fast scans are."""

from __future__ import annotations

from typing import Annotated

import typer

from patternmark.cli.bench import AsJson, Output, bench_app, show
from patternmark.cli.output import Verbose, progress


@bench_app.command(name="scan")
def bench_scan(
    sequences: Annotated[int, typer.Option(min=10, help="Sequences to make.")] = 150_000,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of every comparison.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sequences.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed and memory of scans, against bare passes over the same bytes."""
    from patternmark.bench.scan import STEPS, run_scan_benchmark
    from patternmark.bench.scan_page import to_markdown

    with progress("steps") as bar:
        task = bar.add_task("starting", total=STEPS)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_scan_benchmark(sequences, repeats, seed, step)
    show(result, to_markdown(result), output, as_json)
