"""`patternmark bench exchanges`: which pairs of amino acids carry a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.output import Verbose, say
from patternmark_lab.cli.bench import Structures, backbone_progress, bench_app, write_data


@bench_app.command()
def exchanges(
    structures: Structures,
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write.")],
    designs: Annotated[int, typer.Option(min=1, help="Designs on each structure.")] = 8,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of designs and choices.")] = 1,
    verbose: Verbose = False,
) -> None:
    """Weigh pairs of amino acids, and choose sets of matchings that share few pairs."""
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.exchanges import measure_exchanges

    weights = weights_file(model, report=say)
    with backbone_progress(structures, None) as (backbones, step):
        result = measure_exchanges(
            weights, backbones, designs=designs, seed=seed, device=device, step=step
        )
    write_data(result, output)
