"""`patternmark bench backbone`: how much `detect --backbone` gains."""

from __future__ import annotations

from typing import Annotated

import typer

from patternmark.cli.output import Verbose, say
from patternmark_lab.cli.bench import (
    AsJson,
    Output,
    Structures,
    backbone_progress,
    bench_app,
    show,
)


@bench_app.command()
def backbone(
    structures: Structures,
    keys: Annotated[int, typer.Option(min=1, help="Number of keys that mark designs.")] = 2,
    null_keys: Annotated[int, typer.Option(min=1, help="Keys that judge unmarked designs.")] = 100,
    most: Annotated[int | None, typer.Option(help="Stop after this number of backbones.")] = None,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of keys and designs.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How much weaker marks are found with the backbone (detect --backbone) than without it."""
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.backbone import run_backbone_benchmark, to_markdown

    weights = weights_file(model, report=say)
    with backbone_progress(structures, most) as (backbones, step):
        result = run_backbone_benchmark(
            weights,
            backbones,
            num_keys=keys,
            null_keys=null_keys,
            seed=seed,
            device=device,
            step=step,
        )
    show(result, to_markdown(result), output, as_json)
