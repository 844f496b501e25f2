"""`patternmark bench`: measurements anyone can repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from patternmark.cli.output import Verbose, progress, results, say

bench_app = typer.Typer(help="Measure, in ratios of one run.", no_args_is_help=True)


@bench_app.callback()
def _benchmarks() -> None:
    """Measure, in ratios of one run."""


@bench_app.command()
def null(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for null.json and null.md.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    verbose: Verbose = False,
) -> None:
    """Speed, growth and accuracy of the null computation, against a literal Algorithm 3."""
    from patternmark.bench.null import run_null_benchmark, to_markdown
    from patternmark.bench.report import keep

    with progress("steps") as bar:
        task = bar.add_task("measuring", total=5)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_null_benchmark(step)
    page = to_markdown(result)
    if as_json:
        typer.echo(json.dumps(result))
    elif results.is_terminal:
        results.print(Markdown(page))
    else:
        typer.echo(page)
    if output is not None:
        keep(result, page, output)
        say(f"wrote {output / 'null.json'} and {output / 'null.md'}")
