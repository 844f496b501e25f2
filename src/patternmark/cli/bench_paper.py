"""`patternmark bench paper`: the paper's tables and figures; `bench page` makes pages anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from patternmark.cli.bench import AsJson, Output, Workers, bench_app, show
from patternmark.cli.output import STOPPED, Verbose, fail, progress, say, warn
from patternmark.errors import InputError, ParameterError

_WORK = "paper-work"


@bench_app.command()
def paper(
    data: Annotated[
        Path, typer.Option(help="The folder with structures/, proteins/ and parallel/.")
    ],
    size: Annotated[str, typer.Option(help="smoke, small or full.")] = "small",
    task: Annotated[str | None, typer.Option(help="protein or translation; default: both.")] = None,
    device: Annotated[
        str, typer.Option(help="cpu or cuda; auto takes a GPU where there is one.")
    ] = "auto",
    workers: Workers = 1,
    work: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for finished work, to go on from; default: {_WORK} in that of -o."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys, designs and attacks.")] = 1,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Rerun the paper's tables and figures, with peers, attacks and measured false positives."""
    from patternmark.bench.paper.figures import draw_all
    from patternmark.bench.paper.page import to_markdown
    from patternmark.bench.paper.plan import num_steps
    from patternmark.bench.paper.run import TASKS, Setup, check_data, run_paper_benchmark
    from patternmark.models.device import pick_device
    from patternmark.models.weights import weights_file

    if task is not None and task not in TASKS:
        raise ParameterError(f"--task is one of {', '.join(TASKS)}, not {task!r}")
    tasks = TASKS if task is None else (task,)
    place = work or (output or Path()) / _WORK
    setup = Setup(data, place, size, pick_device(device), workers, seed)
    total = num_steps(tasks, setup.amounts)
    before = None if output is None else _result_before(output, setup)
    check_data(setup, tasks)
    if "protein" in tasks:
        for name in (setup.model, *setup.other_models):
            weights_file(name, report=say)  # fetched with a word, before all else
    try:
        with progress("steps") as bar:
            at = bar.add_task("reading", total=total)
            result = run_paper_benchmark(
                setup, tasks, lambda what: bar.update(at, advance=1, description=what)
            )
    except KeyboardInterrupt:
        say(f"stopped: what is finished is in {place}; the same command goes on from there")
        raise typer.Exit(STOPPED) from None
    for name in TASKS:
        if before is not None and name in before:
            result.setdefault(name, before[name])
    show(result, to_markdown(result, output), output, as_json)
    if output is not None and not draw_all(result, TASKS, output):
        warn("no figures: pip install matplotlib")


def _result_before(output: Path, setup: Any) -> dict[str, Any] | None:
    """Return the result that stands in the output folder; one made otherwise is not overwritten."""
    from patternmark._version import __version__
    from patternmark.bench.pages import read_result
    from patternmark.bench.paper.run import LAYOUT

    file = output / "paper.json"
    if not file.exists():
        return None
    found = read_result(file)
    was = {name: found.get(name) for name in ("layout", "version", "size", "seed")}
    now = {"layout": LAYOUT, "version": __version__, "size": setup.size, "seed": setup.seed}
    if was != now:
        raise InputError(
            f"{file}: was measured by patternmark {was['version']} at size {was['size']}, seed "
            f"{was['seed']}; this is {now['version']}, {now['size']}, {now['seed']}: remove it, or "
            "choose another -o"
        )
    return found


@bench_app.command()
def page(
    files: Annotated[list[Path], typer.Argument(metavar="JSON...", help="Results.")],
    output: Output = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: fail where a page differs.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Make the pages of results anew, and the figures of `paper`, beside them or in a folder."""
    from patternmark.bench.pages import PAPER, page_of, place_of
    from patternmark.bench.paper.figures import draw_all
    from patternmark.bench.paper.run import TASKS
    from patternmark.io.files import write_text

    differ = 0
    for file in files:
        result, made = page_of(file)
        place = place_of(file, output)
        if check:
            if _text_of(place) != made:
                differ += 1
                fail(f"{place}: differs from what {file} gives: make it anew with `bench page`")
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
