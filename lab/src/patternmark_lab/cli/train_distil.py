"""`patternmark train distil`: make a teacher's translations, from which CMLM learns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.output import STOPPED, Verbose, progress, say
from patternmark_lab.cli.group import hold
from patternmark_lab.cli.train import Device, read_data, say_what_is_missing, train_app


@train_app.command()
def distil(
    teacher: Annotated[Path, typer.Argument(help="The teacher's folder.")],
    data: Annotated[Path, typer.Argument(help="Pairs whose sources the teacher translates.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file of new pairs; .xz too.", callback=hold),
    ],
    batch_tokens: Annotated[
        int | None, typer.Option(min=64, help="Default: 131,072 on a GPU, 4,096 on a CPU.")
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start a new file.")] = False,
    verbose: Verbose = False,
) -> None:
    """Translate the sources with a teacher, long ones by sentence, to get easier targets.

    To continue a stopped run, give the same command again.
    """
    say_what_is_missing()
    from patternmark.models.device import pick_device
    from patternmark.models.weights import file_sha256
    from patternmark.translation.checkpoint import load_both, weights_sha256
    from patternmark.translation.decode import for_use
    from patternmark_lab.training.distil import Distilled, DistilledFile
    from patternmark_lab.training.distil import distil as translate_all

    place = pick_device(device)
    model, codec = load_both(teacher, place)
    pairs = read_data(data)
    wanted = Distilled(weights_sha256(teacher), file_sha256(data), len(pairs))
    file = DistilledFile(output, wanted, overwrite=overwrite)
    size = batch_tokens or (131_072 if place == "cuda" else 4096)
    try:
        with progress("sources") as bar:
            task = bar.add_task("translating", total=len(pairs))
            step = lambda done: bar.advance(task, done)  # noqa: E731
            translate_all(for_use(model), codec, pairs, file, size, step)
    except KeyboardInterrupt:
        say(f"stopped: {output}: {file.facts.done:,} of {len(pairs):,} sources are done")
        raise typer.Exit(STOPPED) from None
    kept = file.facts.done - file.facts.dropped
    say(
        f"wrote {kept:,} pairs to {output}; {file.facts.dropped:,} sources were dropped: they had "
        "no translation, or were in the target's language already"
    )
