"""`patternmark bench oracle`: how many questions to a detector strip or forge a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.output import Verbose, progress
from patternmark.errors import ParameterError
from patternmark_lab.cli.bench import AsJson, Output, bench_app, show


@bench_app.command()
def oracle(
    paragraphs: Annotated[
        Path | None,
        typer.Option(help="Pairs of which the sources are translated: adds keys for text."),
    ] = None,
    natural: Annotated[
        Path | None, typer.Option(help="Pairs; the targets are the attacker's own texts.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys, sequences and attacks.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How many questions to a detector strip or forge a mark, by what it answers."""
    from patternmark_lab.bench.oracle import SIZE, TEXT_SIZE, run_oracle_benchmark
    from patternmark_lab.bench.oracle_page import to_markdown

    if (paragraphs is None) != (natural is None):
        raise ParameterError("--paragraphs and --natural belong together: give both or neither")
    if paragraphs is not None:
        import torch

        torch.set_num_threads(1)
    keys = SIZE.keys + (TEXT_SIZE.keys if paragraphs is not None else 0)
    with progress("keys") as bar:
        task = bar.add_task("asking", total=keys)
        result = run_oracle_benchmark(
            paragraphs,
            natural,
            size=SIZE,
            text_size=TEXT_SIZE,
            seed=seed,
            step=lambda what: bar.update(task, advance=1, description=what),
        )
    show(result, to_markdown(result), output, as_json)
