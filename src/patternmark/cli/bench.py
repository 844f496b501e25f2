"""`patternmark bench`: measurements anyone can repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markdown import Markdown

from patternmark.cli.output import Verbose, progress, results, say
from patternmark.errors import PatternmarkError

bench_app = typer.Typer(help="Measure, in ratios of one run.", no_args_is_help=True)


@bench_app.callback()
def _benchmarks() -> None:
    """Measure, in ratios of one run."""


Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the JSON and the page.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@bench_app.command()
def null(
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed, growth and accuracy of the null computation, against a literal Algorithm 3."""
    from patternmark.bench.null import run_null_benchmark, to_markdown

    with progress("steps") as bar:
        task = bar.add_task("measuring", total=5)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_null_benchmark(step)
    _show(result, to_markdown(result), output, as_json)


@bench_app.command()
def design(
    structure: Annotated[
        Path | None, typer.Option(help="A structure; default: 2GTL as shipped by tmtools.")
    ] = None,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed of the sampler against the published one, and what the mark costs."""
    from patternmark.bench.design import cut_to_length, run_design_benchmark, to_markdown
    from patternmark.io.structures import read_backbone
    from patternmark.models.weights import weights_file

    backbone = cut_to_length(read_backbone(structure or _shipped_structure()))
    weights = weights_file(model, report=say)
    with progress("steps") as bar:
        task = bar.add_task("measuring", total=3)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_design_benchmark(weights, backbone, device, step)
    _show(result, to_markdown(result), output, as_json)


@bench_app.command()
def protein(
    structures: Annotated[
        list[Path], typer.Argument(metavar="STRUCTURE...", help="PDB or mmCIF files, or folders.")
    ],
    keys: Annotated[int, typer.Option(min=1, help="Number of fresh keys.")] = 6,
    most: Annotated[int | None, typer.Option(help="Stop after so many backbones.")] = None,
    published: Annotated[
        int, typer.Option(help="Samples per backbone by the published code, to compare quality.")
    ] = 0,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of keys, orders and letters.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The paper's Table 1 for PATTERN-MARK: detection and quality on real backbones."""
    from patternmark.bench.protein import run_protein_benchmark, suitable_chains, to_markdown
    from patternmark.io.structures import find_structures
    from patternmark.models.weights import weights_file

    weights = weights_file(model, report=say)
    with progress("backbones") as bar:
        task = bar.add_task("reading structures", total=None)
        backbones = suitable_chains(find_structures(structures), most)
        bar.update(task, total=len(backbones))

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_protein_benchmark(
            weights,
            backbones,
            num_keys=keys,
            seed=seed,
            device=device,
            published_samples=published,
            step=step,
        )
    _show(result, to_markdown(result), output, as_json)


def _shipped_structure() -> Path:
    from importlib.util import find_spec

    spec = find_spec("tmtools")
    if spec is None or spec.origin is None:
        raise PatternmarkError("name a --structure, or: pip install tmtools")
    return Path(spec.origin).parent / "data" / "2gtl.pdb"


def _show(result: dict[str, Any], page: str, output: Path | None, as_json: bool) -> None:
    from patternmark.bench.report import keep

    if as_json:
        typer.echo(json.dumps(result))
    elif results.is_terminal:
        results.print(Markdown(page))
    else:
        typer.echo(page)
    if output is not None:
        keep(result, page, output)
        name = result["benchmark"]
        say(f"wrote {output / name}.json and {name}.md")
