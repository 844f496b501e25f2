"""`patternmark bench validity` and `block-null`: check the p-values of proteins, and their null."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.output import Verbose, progress, say, warn
from patternmark_lab.cli.bench import (
    AsJson,
    Output,
    Partial,
    Workers,
    bench_app,
    draw,
    show,
    write_data,
)

Unmarked = Annotated[
    list[str], typer.Argument(metavar="NULL...", help="Files of sequences without a mark.")
]


@bench_app.command()
def validity(
    files: Unmarked,
    structures: Annotated[
        list[Path] | None,
        typer.Option(help="Structures or folders to design on, unmarked and for other keys."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Designs on each structure.")] = 4,
    draws: Annotated[
        int, typer.Option(min=2, help="Likely keys for each class of sequences made on purpose.")
    ] = 512,
    record_keys: Annotated[
        int, typer.Option(min=4, help="Fresh keys that judge records of many chains.")
    ] = 400,
    keys: Annotated[int, typer.Option(min=2, help="Number of fresh keys of each scheme.")] = 200,
    sequences: Annotated[int, typer.Option(min=1, help="Sequences each key judges.")] = 25_000,
    sequences_default: Annotated[
        int | None,
        typer.Option(
            min=1, help="Sequences for each key with many nonces (slower); default: a fifth."
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda, for the designs.")] = "cpu",
    workers: Workers = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys, choices and designs.")] = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """False positives of all detectors over many keys and sequences, to check the p-values."""
    from patternmark.io.structure_files import find_structures
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.detector_designs import SCHEMES
    from patternmark_lab.bench.protein import suitable_chains
    from patternmark_lab.bench.validity import SHORTEST, read_unmarked, run_validity_benchmark
    from patternmark_lab.bench.validity_page import plot, to_markdown
    from patternmark_lab.bench.validity_written import num_steps

    natural, skipped = read_unmarked(files)
    if skipped:
        warn(f"{skipped} records are not proteins and are left out")
    weights = weights_file(model, report=say) if structures else None
    with progress("keys and structures") as bar:
        task = bar.add_task("reading", total=None)
        found = find_structures(structures) if structures else []
        backbones = suitable_chains(found, None, SHORTEST, float("inf"))
        steps = num_steps(record_keys) + len(backbones) + keys * len(SCHEMES)
        bar.update(task, total=steps)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_validity_benchmark(
            natural,
            num_keys=keys,
            per_key=sequences,
            per_default_key=sequences_default,
            weights=weights,
            backbones=backbones,
            samples=samples,
            draws=draws,
            record_keys=record_keys,
            seed=seed,
            device=device,
            workers=workers,
            partial=partial,
            step=step,
        )
    show(result, to_markdown(result), output, as_json)
    draw(plot, result, output)


@bench_app.command()
def block_null(
    files: Unmarked,
    draws: Annotated[
        int, typer.Option(min=4, help="Sequences of each class and length, each with its own key.")
    ] = 2048,
    workers: Workers = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of sequences and keys.")] = 1,
    data: Annotated[
        Path | None, typer.Option(help="Write the package's block_null.json to this file.")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How far the p-values of block keys stay below Markov's bound, by class of sequences."""
    from patternmark_lab.bench.block_null import LENGTHS, measure_c, num_classes
    from patternmark_lab.bench.block_null_page import plot, to_markdown
    from patternmark_lab.bench.validity import read_unmarked

    natural, skipped = read_unmarked(files)
    if skipped:
        warn(f"{skipped} records are not proteins and are left out")
    with progress("classes and lengths") as bar:
        task = bar.add_task("drawing keys", total=num_classes() * len(LENGTHS))

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = measure_c(natural, draws=draws, seed=seed, workers=workers, step=step)
    show(result, to_markdown(result), output, as_json)
    draw(plot, result, output)
    if data is not None:
        write_data(result["table"], data)
