"""`patternmark train distil`: a teacher's translations, which CMLM learns from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.output import STOPPED, Verbose, progress, say
from patternmark_lab.cli.train import Device, read_data, say_what_is_missing, train_app


@train_app.command()
def distil(
    teacher: Annotated[Path, typer.Argument(help="The teacher's folder.")],
    data: Annotated[Path, typer.Argument(help="Pairs whose sources it is to translate.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new pairs; .xz too.")],
    batch_tokens: Annotated[
        int | None, typer.Option(min=64, help="Default: 131,072 on a GPU, 4,096 on a CPU.")
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin a new file.")] = False,
    verbose: Verbose = False,
) -> None:
    """Let a teacher translate the sources, long ones by sentence: easier targets to learn from.

    A run that was stopped goes on where it was when the same command is given again.
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
    at_once = batch_tokens or (131_072 if place == "cuda" else 4096)
    try:
        with progress("sources") as bar:
            task = bar.add_task("translating", total=len(pairs))
            step = lambda done: bar.advance(task, done)  # noqa: E731
            translate_all(for_use(model), codec, pairs, file, at_once, step)
    except KeyboardInterrupt:
        say(f"stopped: {output}: {file.facts.done:,} of {len(pairs):,} sources are kept")
        raise typer.Exit(STOPPED) from None
    kept = file.facts.done - file.facts.dropped
    say(
        f"wrote {kept:,} pairs to {output}; {file.facts.dropped:,} had no translation, or a source "
        "in the language of its target"
    )
