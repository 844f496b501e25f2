"""`patternmark bench` on texts: translation, its speed, false positives, and secrecy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.cli.output import Verbose, progress, warn
from patternmark.errors import ParameterError
from patternmark_lab.cli.bench import AsJson, Output, Partial, Workers, bench_app, draw, show

Pairs = Annotated[Path, typer.Argument(metavar="PAIRS", help="Source, tab, target; .xz too.")]
TranslationModel = Annotated[
    Path | None, typer.Option(help="A model's folder; default: the package's.")
]


@bench_app.command()
def translation(
    paragraphs: Pairs,
    texts: Annotated[int, typer.Option(min=1, help="Number of texts to translate.")] = 1000,
    skip: Annotated[
        int, typer.Option(min=0, help="Skip the first texts: the defaults were chosen on them.")
    ] = 100,
    sentences: Annotated[
        Path | None, typer.Option(help="Pairs for BLEU without a mark, such as a test set.")
    ] = None,
    keys: Annotated[int, typer.Option(min=1, help="Fresh keys, used in turn.")] = 20,
    deltas: Annotated[str, typer.Option(help="Strengths, separated by commas.")] = "",
    model: TranslationModel = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the keys.")] = 1,
    name: Annotated[str, typer.Option(help="Name of the result's files.")] = "translation",
    workers: Workers = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How often marks in translations are found, and how much BLEU they cost."""
    from patternmark.models.device import pick_device
    from patternmark_lab.bench.translation import DELTAS, run_translation_benchmark
    from patternmark_lab.bench.translation_page import plot, to_markdown

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
        raise ParameterError(f"--deltas must be numbers, such as 2,3,4, not {text!r}") from None


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
    """Time of CMLM, of its autoregressive counterpart, and of the mark, all in one run."""
    import torch

    from patternmark.models.device import pick_device
    from patternmark_lab.bench.translation_speed import run_translation_speed, to_markdown

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


Corpora = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder with NLTK's corpora and Europarl.")
]
TokenizerJson = Annotated[Path, typer.Option(help="The tokenizer.json that splits text.")]


@bench_app.command()
def text_validity(
    folder: Corpora,
    tokenizer: TokenizerJson,
    keys: Annotated[int, typer.Option(min=2, help="Number of fresh keys of each scheme.")] = 200,
    texts: Annotated[
        int, typer.Option(min=1, help="Texts of each source that each key judges.")
    ] = 100,
    marked: Annotated[
        Path | None, typer.Option(help="Texts that another key marked, one per line.")
    ] = None,
    workers: Workers = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys and choices.")] = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """False positives of texts, to check the p-values: natural, hard and otherwise marked texts."""
    from patternmark.io.lines import read_lines
    from patternmark_lab.bench.corpora import read_corpora, read_sources, tokens_of
    from patternmark_lab.bench.text_validity import SCHEMES, run_text_validity_benchmark
    from patternmark_lab.bench.text_validity_page import to_markdown

    alphabet, encode = tokens_of(tokenizer)
    corpora, missing = read_corpora(folder)
    if missing:
        warn(f"{folder}: missing, and left out: {', '.join(missing)}")
    german = read_sources(folder)
    with progress("keys") as bar:
        task = bar.add_task("reading", total=len(SCHEMES) * keys)
        result = run_text_validity_benchmark(
            corpora,
            {"German": german} if german else {},
            [] if marked is None else read_lines(marked, "left out", warn),
            alphabet,
            encode,
            num_keys=keys,
            per_key=texts,
            seed=seed,
            workers=workers,
            partial=partial,
            step=lambda what: bar.update(task, description=what, advance=1),
        )
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def text_null(
    folder: Corpora,
    tokenizer: TokenizerJson,
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write.")],
    share: Annotated[float, typer.Option(help="Share of the usual number of pairs.")] = 1.0,
    workers: Workers = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys and choices.")] = 1,
    verbose: Verbose = False,
) -> None:
    """Count the likelihood ratios of natural texts without a mark: the null of `auto`."""
    from patternmark_lab.bench.corpora import read_corpora, tokens_of
    from patternmark_lab.bench.text_null import PAIRS, SCHEMES, table_of_corpora
    from patternmark_lab.cli.bench import write_data

    alphabet, encode = tokens_of(tokenizer)
    corpora, missing = read_corpora(folder)
    if missing:
        warn(f"{folder}: missing, and left out: {', '.join(missing)}")
    with progress("tables") as bar:
        task = bar.add_task("reading", total=len(PAIRS) * len(SCHEMES))
        table = table_of_corpora(
            corpora,
            alphabet,
            encode,
            share=share,
            seed=seed,
            workers=workers,
            step=lambda what: bar.update(task, description=what, advance=1),
        )
    write_data(table, output)


@bench_app.command()
def text_edits(
    paragraphs: Pairs,
    texts: Annotated[int, typer.Option(min=1, help="Texts of the default scheme.")] = 1000,
    paper_texts: Annotated[int, typer.Option(min=1, help="Texts of the paper's scheme.")] = 300,
    skip: Annotated[
        int, typer.Option(min=0, help="Skip the first texts: the defaults were chosen on them.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys and edits.")] = 7,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How often marks in text are found after edits, and in windows."""
    from patternmark_lab.bench.text_edits import run_text_edits_benchmark
    from patternmark_lab.bench.text_edits_page import to_markdown

    with progress("parts") as bar:
        task = bar.add_task("translating", total=None)
        result = run_text_edits_benchmark(
            paragraphs,
            texts=texts,
            paper_texts=paper_texts,
            skip=skip,
            seed=seed,
            partial=partial,
            step=lambda what: bar.update(task, advance=1, description=what),
        )
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def text_message(
    paragraphs: Pairs,
    texts: Annotated[int, typer.Option(min=1, help="Texts of each setting.")] = 100,
    skip: Annotated[
        int, typer.Option(min=0, help="Skip the first paragraphs: defaults were chosen on them.")
    ] = 100,
    keys: Annotated[int, typer.Option(min=2, help="Keys to identify the right one from.")] = 10_000,
    model: TranslationModel = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys, numbers and edits.")] = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How often numbers in texts are read, and how often the right key of many is identified."""
    import torch

    from patternmark_lab.bench.text_message import run_text_message_benchmark
    from patternmark_lab.bench.text_message_page import to_markdown

    torch.set_num_threads(1)
    with progress("parts") as bar:
        task = bar.add_task("translating", total=None)
        result = run_text_message_benchmark(
            paragraphs,
            texts=texts,
            skip=skip,
            keys=keys,
            model=model,
            seed=seed,
            partial=partial,
            step=lambda what: bar.update(task, advance=1, description=what),
        )
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def text_secrecy(
    paragraphs: Pairs,
    natural: Annotated[Path, typer.Option(help="Pairs; the attacker knows their targets.")],
    texts: Annotated[int, typer.Option(min=1, help="Marked texts of each key.")] = 300,
    keys: Annotated[int, typer.Option(min=1, help="Fresh keys of each scheme.")] = 2,
    forgeries: Annotated[
        int, typer.Option(min=1, help="Forged texts per key, attack and method.")
    ] = 50,
    translated: Annotated[
        int, typer.Option(min=0, max=50, help="Forged texts per key that the model writes.")
    ] = 20,
    skip: Annotated[int, typer.Option(min=0, help="Skip the first paragraphs.")] = 1200,
    delta: Annotated[float, typer.Option(min=0, help="Strength of the marks.")] = 3.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys and choices.")] = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How many marked texts of one key an attacker needs to forge its mark."""
    import torch

    from patternmark_lab.bench.text_secrecy import Size, run_text_secrecy_benchmark
    from patternmark_lab.bench.text_secrecy_page import to_markdown

    torch.set_num_threads(1)
    with progress("parts") as bar:
        task = bar.add_task("translating", total=None)
        result = run_text_secrecy_benchmark(
            paragraphs,
            natural,
            size=Size(texts, keys, forgeries, translated),
            skip=skip,
            delta=delta,
            seed=seed,
            partial=partial,
            step=lambda what: bar.update(task, advance=1, description=what),
        )
    show(result, to_markdown(result), output, as_json)
