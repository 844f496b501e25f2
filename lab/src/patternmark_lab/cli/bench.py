"""`patternmark bench`: measurements that anyone can repeat."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markdown import Markdown

from patternmark.cli.output import Verbose, progress, results, say
from patternmark.errors import InputError, ParameterError, PatternmarkError
from patternmark_lab.cli.group import Group

if TYPE_CHECKING:
    from patternmark.io.structures import Backbone

bench_app = typer.Typer(
    cls=Group, help="Run benchmarks; speeds are ratios within one run.", no_args_is_help=True
)


@bench_app.callback()
def _benchmarks() -> None:
    """Run benchmarks; speeds are ratios within one run."""


def _make_folder(folder: Path | None) -> Path | None:
    """Make the folder for results now, so that a long run does not fail at its end."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made: {error.strerror}") from None
        if not os.access(folder, os.W_OK):
            raise InputError(f"{folder}: cannot be written to")
    return folder


Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for the JSON and the page.", callback=_make_folder),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Structures = Annotated[
    list[Path], typer.Argument(metavar="STRUCTURE...", help="PDB or mmCIF files, or folders.")
]
Workers = Annotated[int, typer.Option(min=1, help="Processes to run at once.")]
Partial = Annotated[
    Path | None, typer.Option(help="Save finished work in this file; a later run continues.")
]


@bench_app.command()
def null(
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed, growth and accuracy of the null, compared with the paper's Algorithm 3 as printed."""
    from patternmark_lab.bench.null import run_null_benchmark, to_markdown

    with progress("steps") as bar:
        task = bar.add_task("measuring", total=5)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_null_benchmark(step)
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def speed(
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Time of the default detector per sequence, with and without compiled loops."""
    from patternmark_lab.bench.detector_designs import SCHEMES
    from patternmark_lab.bench.speed import LENGTHS, run_speed_benchmark, to_markdown

    with progress("lengths") as bar:
        task = bar.add_task("measuring", total=len(SCHEMES) * len(LENGTHS))

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_speed_benchmark(step)
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def design(
    structure: Annotated[
        Path | None, typer.Option(help="A structure; default: 2GTL from the package tmtools.")
    ] = None,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Speed of the sampler compared with the published one, and the time that the mark takes."""
    from patternmark.io.structures import read_backbone
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.design import cut_to_length, run_design_benchmark, to_markdown

    backbone = cut_to_length(read_backbone(structure or _shipped_structure()))
    weights = weights_file(model, report=say)
    with progress("steps") as bar:
        task = bar.add_task("measuring", total=3)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_design_benchmark(weights, backbone, device, step)
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def protein(
    structures: Structures,
    keys: Annotated[int, typer.Option(min=1, help="Number of fresh keys.")] = 6,
    most: Annotated[int | None, typer.Option(help="Stop after this number of backbones.")] = None,
    published: Annotated[
        int, typer.Option(help="Samples of the published code per backbone, to compare quality.")
    ] = 0,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of keys, orders and letters.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The paper's Table 1 for PATTERN-MARK: detection and quality on real backbones."""
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.protein import run_protein_benchmark, to_markdown

    weights = weights_file(model, report=say)
    with backbone_progress(structures, most) as (backbones, step):
        result = run_protein_benchmark(
            weights,
            backbones,
            num_keys=keys,
            seed=seed,
            device=device,
            published_samples=published,
            step=step,
        )
    show(result, to_markdown(result), output, as_json)


@bench_app.command()
def detectors(
    structures: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[STRUCTURE...]", help="PDB or mmCIF files, or folders."),
    ] = None,
    designs: Annotated[
        Path | None,
        typer.Option(help="Save the designs in this file, or judge its designs if it exists."),
    ] = None,
    design_only: Annotated[
        bool, typer.Option("--design-only", help="Write --designs without judging them.")
    ] = False,
    keys: Annotated[int, typer.Option(min=1, help="Number of fresh keys.")] = 6,
    most: Annotated[int | None, typer.Option(help="Stop after this number of backbones.")] = None,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    workers: Workers = 1,
    seed: Annotated[int, typer.Option(help="Seed of keys, designs and attacks.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The weakest marks that each detector finds, intact and attacked, for each scheme."""
    from patternmark_lab.bench.detector_designs import (
        SCHEMES,
        make_designs,
        read_designs,
        write_designs,
    )
    from patternmark_lab.bench.detectors import DELTAS, reported_backbones, run_detector_benchmark
    from patternmark_lab.bench.detectors_page import plot, to_markdown

    if design_only and designs is None:
        raise ParameterError("--design-only needs a file to write: --designs FILE")
    if designs is not None and designs.exists():
        if structures or design_only:
            raise ParameterError(
                f"{designs}: exists already, so its designs are judged: leave out the structures "
                "and --design-only, or name another file"
            )
        made = read_designs(designs)
    else:
        if not structures:
            raise ParameterError("give structures to design on, or an existing file of --designs")
        from patternmark.models.weights import weights_file

        weights = weights_file(model, report=say)
        with backbone_progress(structures, most) as (backbones, step):
            made = make_designs(
                weights,
                reported_backbones(backbones),
                DELTAS,
                num_keys=keys,
                seed=seed,
                device=device,
                step=step,
            )
        if designs is not None:
            write_designs(made, designs)
            say(f"wrote {designs}")
    if design_only:
        return
    with progress("backbones and schemes") as bar:
        task = bar.add_task("detecting", total=len(SCHEMES) * len(made["backbones"]))

        def judged(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_detector_benchmark(made, workers=workers, step=judged)
    show(result, to_markdown(result), output, as_json)
    draw(plot, result, output)


@bench_app.command()
def agreement(
    structures: Structures,
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write.")],
    keys: Annotated[int, typer.Option(min=1, help="Number of fresh keys.")] = 16,
    model: Annotated[str, typer.Option(help="Published weights.")] = "v_48_020",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of keys and designs.")] = 1,
    verbose: Verbose = False,
) -> None:
    """Measure the agreement rates that detectors expect (the package's agreement.json)."""
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.agreement import measure_agreement

    weights = weights_file(model, report=say)
    with backbone_progress(structures, None) as (backbones, step):
        result = measure_agreement(
            weights, backbones, num_keys=keys, seed=seed, device=device, step=step
        )
    write_data(result, output)


@bench_app.command()
def mixture_null(
    output: Annotated[Path, typer.Option("--output", "-o", help="The JSON file to write.")],
    share: Annotated[float, typer.Option(help="Share of the usual number of draws.")] = 1.0,
    workers: Workers = 1,
    verbose: Verbose = False,
) -> None:
    """Simulate the null of the detector `auto` for proteins and keys of the paper's scheme."""
    from patternmark_lab.bench.mixture import jobs_of, simulate_tables

    jobs = jobs_of(share)
    with progress("tables") as bar:
        task = bar.add_task("simulating", total=len(jobs))

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = simulate_tables(jobs, workers=workers, step=step)
    write_data(result, output)


def write_data(result: dict[str, Any], output: Path) -> None:
    """Write a measurement to a file as JSON."""
    try:
        output.write_text(json.dumps(result, separators=(",", ":")) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None
    say(f"wrote {output}")


@contextmanager
def backbone_progress(
    structures: list[Path], most: int | None
) -> Iterator[tuple[list[Backbone], Callable[[str], None]]]:
    """Read chains of 300 to 500 residues; yield them with the step of a progress bar."""
    from patternmark.io.structure_files import find_structures
    from patternmark_lab.bench.protein import suitable_chains

    with progress("backbones") as bar:
        task = bar.add_task("reading structures", total=None)
        backbones = suitable_chains(find_structures(structures), most)
        bar.update(task, total=len(backbones))

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        yield backbones, step


@bench_app.command()
def secrecy(
    structures: Annotated[
        list[Path] | None,
        typer.Option(help="Structures or folders to design on, for an attacker with the model."),
    ] = None,
    size: Annotated[str, typer.Option(help="smoke or full (up to 10,000 sequences).")] = "smoke",
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys, sequences and attacks.")] = 1,
    workers: Workers = 1,
    partial: Partial = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How well an attacker forges and strips marks after seeing marked sequences of one key."""
    from patternmark_lab.bench.secrecy import SIZES, num_trials, plot, run_secrecy_benchmark
    from patternmark_lab.bench.secrecy import to_markdown as page_of

    found = _find_structures(structures)
    steps = num_trials(SIZES[size]) if size in SIZES else None
    with progress("keys and structures" if found else "keys") as bar:
        # The number of suitable chains is unknown before the structures are read.
        task = bar.add_task("attacking", total=None if found else steps)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        result = run_secrecy_benchmark(size, seed, workers, step, partial, found)
    show(result, page_of(result), output, as_json)
    draw(plot, result, output)


def _find_structures(paths: list[Path] | None) -> list[Path]:
    """Return the structures in files and folders, and fetch the weights if there are any."""
    if not paths:
        return []
    from patternmark.io.structure_files import find_structures
    from patternmark.models.weights import weights_file

    weights_file(report=say)  # fetch them now, so that a long run does not fail at its end
    return find_structures(paths)


def draw(
    plot: Callable[[dict[str, Any], Path], None], result: dict[str, Any], output: Path | None
) -> None:
    """Write the picture beside the page, if matplotlib is installed."""
    from importlib.util import find_spec

    if output is not None and find_spec("matplotlib") is not None:
        plot(result, output / f"{result['benchmark']}.png")


def _shipped_structure() -> Path:
    from importlib.util import find_spec

    spec = find_spec("tmtools")
    if spec is None or spec.origin is None:
        raise PatternmarkError("give a --structure, or install the default: pip install tmtools")
    return Path(spec.origin).parent / "data" / "2gtl.pdb"


def show(result: dict[str, Any], page: str, output: Path | None, as_json: bool) -> None:
    from patternmark_lab.bench.report import keep

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
