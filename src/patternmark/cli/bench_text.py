"""`patternmark bench` on texts: translation, its speed, and false positives on natural English."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.bench import AsJson, Output, Partial, Workers, bench_app, draw, show
from patternmark.cli.output import Verbose, progress, warn
from patternmark.errors import ParameterError

Pairs = Annotated[Path, typer.Argument(metavar="PAIRS", help="Source, tab, target; .xz too.")]
TranslationModel = Annotated[
    Path | None, typer.Option(help="A model's folder; default: the package's.")
]


@bench_app.command()
def translation(
    paragraphs: Pairs,
    texts: Annotated[int, typer.Option(min=1, help="How many to translate.")] = 1000,
    skip: Annotated[
        int, typer.Option(min=0, help="Texts left out first: the defaults were chosen on them.")
    ] = 100,
    sentences: Annotated[
        Path | None, typer.Option(help="Pairs to measure BLEU on without a mark, such as a test.")
    ] = None,
    keys: Annotated[int, typer.Option(min=1, help="Fresh keys that take turns.")] = 20,
    deltas: Annotated[str, typer.Option(help="Strengths, separated by commas.")] = "",
    model: TranslationModel = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the keys.")] = 1,
    name: Annotated[str, typer.Option(help="Of the result's files.")] = "translation",
    workers: Workers = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How often marks in translations are found, and what they cost in BLEU."""
    from patternmark.bench.translation import DELTAS, run_translation_benchmark
    from patternmark.bench.translation_page import plot, to_markdown
    from patternmark.models.device import pick_device

    chosen = _numbers(deltas) if deltas else DELTAS
    place = pick_device(device)
    with progress("parts") as bar:
        task = bar.add_task("translating", total=None)
        result = run_translation_benchmark(
            paragraphs,
            model=model,
            device=place,
            deltas=chosen,
            most=texts,
            skip=skip,
            sentences=sentences,
            num_keys=keys,
            at_once=1000 if place == "cuda" else 50,
            seed=seed,
            workers=workers,
            partial=partial,
            name=name,
            step=lambda what: bar.update(task, advance=1, description=what),
        )
    show(result, to_markdown(result), output, as_json)
    draw(plot, result, output)


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ParameterError(f"--deltas are numbers, such as 2,3,4, not {text!r}") from None


@bench_app.command(name="translation-speed")
def translation_speed(
    pairs: Pairs,
    sentences: Annotated[int, typer.Option(min=2, help="Sentences, or batches on a GPU.")] = 40,
    model: TranslationModel = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """CMLM against its autoregressive twin, and what the mark adds, timed in one run."""
    import torch

    from patternmark.bench.translation_speed import run_translation_speed, to_markdown
    from patternmark.models.device import pick_device

    torch.set_num_threads(1)
    with progress("parts") as bar:
        task = bar.add_task("translating", total=None)
        result = run_translation_speed(
            pairs,
            model=model,
            device=pick_device(device),
            sentences=sentences,
            step=lambda what: bar.update(task, advance=1, description=what),
        )
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def text_validity(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="NLTK's corpora and Europarl, as files.")
    ],
    tokenizer: Annotated[Path, typer.Option(help="The tokenizer.json that splits text.")],
    keys: Annotated[int, typer.Option(min=2, help="Number of fresh keys of each scheme.")] = 200,
    keys_r64: Annotated[
        int | None, typer.Option("--keys-r64", min=1, help="The same for R = 64.")
    ] = None,
    texts: Annotated[
        int, typer.Option(min=1, help="Texts of each corpus and length that a key judges.")
    ] = 1000,
    texts_r1: Annotated[
        int | None,
        typer.Option("--texts-r1", min=1, help="The same for keys of turns; default: a fifth."),
    ] = None,
    texts_r64: Annotated[
        int | None,
        typer.Option("--texts-r64", min=1, help="The same for R = 64; default: a fiftieth."),
    ] = None,
    workers: Workers = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys and choices.")] = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Are the p-values true for text? False positives on natural English, over many keys."""
    from patternmark.bench.corpora import read_corpora, tokens_of
    from patternmark.bench.text_validity import run_text_validity_benchmark
    from patternmark.bench.text_validity_page import to_markdown
    from patternmark.bench.validity_page import plot

    alphabet, encode = tokens_of(tokenizer)
    corpora, missing = read_corpora(folder)
    if missing:
        warn(f"{folder}: not here, and left out: {', '.join(missing)}")
    with progress("keys") as bar:
        task = bar.add_task("reading", total=2 * keys + (keys_r64 or keys))

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_text_validity_benchmark(
            corpora,
            alphabet,
            encode,
            num_keys=keys,
            num_r64_keys=keys_r64,
            per_key=texts,
            per_r1_key=texts_r1,
            per_r64_key=texts_r64,
            seed=seed,
            workers=workers,
            partial=partial,
            step=step,
        )
    show(result, to_markdown(result), output, as_json)
    draw(plot, result, output)
