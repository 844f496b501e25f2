"""`patternmark bench paper` reruns the paper's tables; `bench page` remakes pages of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from patternmark.cli.output import STOPPED, Verbose, fail, progress, say, warn
from patternmark.errors import InputError, ParameterError
from patternmark.io.files import held, make_folder
from patternmark_lab.cli.bench import AsJson, Output, Workers, bench_app, show

_WORK, _FILE = "paper-work", "paper.json"


@bench_app.command()
def paper(
    data: Annotated[Path, typer.Option(help="Folder with structures/, proteins/ and parallel/.")],
    size: Annotated[str, typer.Option(help="smoke, small or full.")] = "small",
    task: Annotated[str | None, typer.Option(help="protein or translation; default: both.")] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")
    ] = "auto",
    workers: Workers = 1,
    work: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for finished work; a later run continues. Default: {_WORK} in -o."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys, designs and attacks.")] = 1,
    schemes: Annotated[
        str | None, typer.Option(help="Measure only these, separated by commas; needs --into.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="The paper.json in which only the rows of --schemes are replaced."),
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Rerun the paper's tables and figures, with later schemes, attacks and false positives."""
    from patternmark.models.device import pick_device
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.paper.figures import draw_all
    from patternmark_lab.bench.paper.page import to_markdown
    from patternmark_lab.bench.paper.plan import num_steps
    from patternmark_lab.bench.paper.run import TASKS, Setup, check_data, run_paper_benchmark

    if task is not None and task not in TASKS:
        raise ParameterError(f"--task must be one of {', '.join(TASKS)}, not {task!r}")
    tasks = TASKS if task is None else (task,)
    only = _chosen(schemes, into, output, tasks)
    folder = output if into is None else into.parent
    place = work or (folder or Path()) / _WORK
    setup = Setup(data, place, size, pick_device(device), workers, seed, schemes=only)
    total = num_steps(tasks, setup.amounts, only)
    before = None if folder is None else _result_before(folder, setup, into, tasks)
    check_data(setup, tasks)
    if "protein" in tasks:
        for name in (setup.model, *setup.other_models):
            weights_file(name, report=say)  # fetch them first, and say so
    make_folder(place.parent)
    try:
        with held(place), progress("steps") as bar:
            at = bar.add_task("reading", total=total)
            result = run_paper_benchmark(
                setup, tasks, lambda what: bar.update(at, advance=1, description=what)
            )
    except KeyboardInterrupt:
        say(f"stopped: finished work is in {place}; the same command continues from there")
        raise typer.Exit(STOPPED) from None
    if before is not None:
        result = _combine(before, result, only, into)
    show(result, to_markdown(result, folder), folder, as_json)
    if folder is not None and not draw_all(result, TASKS, folder):
        warn("no figures: pip install matplotlib")


def _chosen(
    schemes: str | None, into: Path | None, output: Path | None, tasks: Sequence[str]
) -> tuple[str, ...]:
    """Return the schemes to measure again (none: all); refuse options that exclude each other."""
    from patternmark_lab.bench.paper.plan import selectable

    if (schemes is None) != (into is None):
        raise ParameterError(
            "use --schemes and --into together: a page cannot be made of some rows alone"
        )
    if schemes is None or into is None:
        return ()
    if output is not None:
        raise ParameterError("--into already names the file to write: leave out -o")
    if into.name != _FILE:
        raise ParameterError(f"the file of --into must be named {_FILE}, not {into.name!r}")
    only = tuple(dict.fromkeys(name.strip() for name in schemes.split(",")))
    for task in tasks:
        if not set(only) <= set(selectable(task)):
            raise ParameterError(
                f"--schemes for {task} must be among {', '.join(selectable(task))}, not {schemes!r}"
            )
    return only


def _combine(
    before: dict[str, Any], result: dict[str, Any], only: tuple[str, ...], into: Path | None
) -> dict[str, Any]:
    """Add to a result what was measured before: other tasks, or other schemes."""
    from patternmark_lab.bench.paper.merge import merge
    from patternmark_lab.bench.paper.run import TASKS

    if into is None:
        return {name: before[name] for name in TASKS if name in before} | result
    try:
        return merge(before, result, only)
    except InputError as error:
        raise InputError(f"{into}: {error}") from None


def _result_before(
    folder: Path, setup: Any, into: Path | None, tasks: Sequence[str]
) -> dict[str, Any] | None:
    """Return the result in the folder; refuse to overwrite one with other settings."""
    from patternmark._version import __version__
    from patternmark_lab.bench.pages import read_result
    from patternmark_lab.bench.paper.merge import check_before
    from patternmark_lab.bench.paper.run import LAYOUT

    file = folder / _FILE
    if into is not None:
        found = read_result(file)
        try:
            check_before(found, setup, tasks)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
        return found
    if not file.exists():
        return None
    found = read_result(file)
    was = {name: found.get(name) for name in ("layout", "version", "size", "seed")}
    now = {"layout": LAYOUT, "version": __version__, "size": setup.size, "seed": setup.seed}
    if was != now:
        raise InputError(
            f"{file}: was measured by patternmark {was['version']} at size {was['size']}, seed "
            f"{was['seed']}; this run has {now['version']}, {now['size']}, {now['seed']}: remove "
            "it, or choose another -o"
        )
    return found


@bench_app.command()
def page(
    files: Annotated[list[Path], typer.Argument(metavar="JSON...", help="Results.")],
    output: Output = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a page differs.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Make pages again from results (and the figures of `paper`), beside them or in a folder."""
    from patternmark.io.files import write_text
    from patternmark_lab.bench.pages import PAPER, page_of, place_of
    from patternmark_lab.bench.paper.figures import draw_all
    from patternmark_lab.bench.paper.run import TASKS

    differ = 0
    for file in files:
        result, made = page_of(file)
        place = place_of(file, output)
        if check:
            if _text_of(place) != made:
                differ += 1
                fail(f"{place}: differs from the page of {file}: make it again with `bench page`")
            continue
        write_text(place, made)
        figures = draw_all(result, TASKS, place.parent) if result["benchmark"] == PAPER else []
        say(f"wrote {place}" + (f" and {len(figures)} figures" if figures else ""))
    if differ:
        raise typer.Exit(1)


def _text_of(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
