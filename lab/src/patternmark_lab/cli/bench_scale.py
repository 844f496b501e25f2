"""`patternmark bench scale`: the computed time and cost of a scan of billions of proteins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from patternmark.cli.output import Verbose, progress, say, warn
from patternmark_lab.bench.scale_setting import SAMPLE, Setting
from patternmark_lab.cli.bench import AsJson, Output, bench_app, show

_DEFAULT = Setting()
_RESULTS = "results"  # folder of the JSON, inside the folder of the pages

Step = Callable[[str], None]


@bench_app.command(name="scale")
def bench_scale(
    proteins: Annotated[int, typer.Option(help="Proteins to scan.")] = _DEFAULT.proteins,
    segments: Annotated[
        float, typer.Option(help="Segments of a protein, on average.")
    ] = _DEFAULT.segments,
    mean_length: Annotated[int, typer.Option(help="Residues in a segment.")] = _DEFAULT.mean_length,
    keys: Annotated[int, typer.Option(help="Keys to look for.")] = _DEFAULT.keys,
    fpr: Annotated[float, typer.Option(help="As in `patternmark scan`.")] = _DEFAULT.fpr,
    fdr: Annotated[float, typer.Option(help="As in `patternmark scan`.")] = _DEFAULT.fdr,
    cores: Annotated[int, typer.Option(help="Cores of a machine.")] = _DEFAULT.cores,
    files: Annotated[int, typer.Option(help="Files of the database.")] = _DEFAULT.files,
    disk: Annotated[float, typer.Option(help="MB/s that a machine reads.")] = _DEFAULT.disk,
    core_hour: Annotated[float, typer.Option(help="Dollars.")] = _DEFAULT.core_hour,
    gpu_hour: Annotated[float, typer.Option(help="Dollars.")] = _DEFAULT.gpu_hour,
    sample: Annotated[
        int, typer.Option(min=1, help="Sequences for timing all keys together.")
    ] = SAMPLE,
    natural: Annotated[
        list[str] | None,
        typer.Option(help="Unmarked proteins, to measure again how many pass the first stage."),
    ] = None,
    structures: Annotated[
        list[Path] | None,
        typer.Option(help="Structures to design on, to measure agreement again."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda, for the designs.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of keys and designs.")] = 1,
    results: Annotated[
        Path, typer.Option(help="The folder with scan.json (and scan-gpu.json).")
    ] = Path("docs/results"),
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Time, cost, p-value and length for a scan of all known proteins, from measured rates.

    With -o docs it writes docs/scale.md and docs/results/scale.json. Earlier measurements of
    --natural and --structures in that file are kept unless you give these options again.
    """
    from patternmark.io.files import make_folder, write_json, write_text
    from patternmark_lab.bench.pages import place_of
    from patternmark_lab.bench.scale import NAME, read_measured, read_source, run_scale
    from patternmark_lab.bench.scale_page import to_markdown

    setting = Setting(
        proteins, segments, mean_length, keys, fpr, fdr, cores, files, disk, core_hour, gpu_hour
    )
    own = (results if output is None else output / _RESULTS) / f"{NAME}.json"
    read_source(results)  # a missing file is reported before anything is measured
    with progress("steps") as bar:
        task = bar.add_task("starting", total=None)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        pairs = _pairs(setting, sample, seed, step)
        measured = read_measured(own) | _natural(natural, setting, step)
        measured |= _designs(structures, setting, device, seed, step)
    result = run_scale(setting, results, pairs, sample, measured)
    page = to_markdown(result)
    show(result, page, None, as_json)
    if output is not None:
        make_folder(own.parent)
        write_json(own, result)
        write_text(place_of(own), page)
        say(f"wrote {place_of(own)} and {own}")


def _pairs(setting: Setting, sample: int, seed: int, step: Step) -> dict[str, Any]:
    """Time both stages."""
    from patternmark_lab.bench.scale_measured import first_stage, second_stage

    step("the second stage")
    second = second_stage(setting.mean_length, seed)
    first = first_stage(setting.mean_length, setting.keys, sample, seed, step)
    return {"first": first, "second": second}


def _natural(files: list[str] | None, setting: Setting, step: Step) -> dict[str, Any]:
    """Measure how many sequences pass the first stage, if there are files."""
    if not files:
        return {}
    from patternmark_lab.bench.scale import passing_level
    from patternmark_lab.bench.scale_measured import natural_pairs
    from patternmark_lab.bench.validity import read_unmarked

    sequences, skipped = read_unmarked(files)
    if skipped:
        warn(f"{skipped} records are not proteins and are left out")
    level = passing_level(setting.keys)
    return {"natural": natural_pairs(sequences, setting.keys, level, step)}


def _designs(
    structures: list[Path] | None, setting: Setting, device: str, seed: int, step: Step
) -> dict[str, Any]:
    """Design and measure, if there are structures."""
    if not structures:
        return {}
    from patternmark.io.structure_files import find_structures
    from patternmark.models.weights import weights_file
    from patternmark_lab.bench.protein import suitable_chains
    from patternmark_lab.bench.scale import needed_p_values, passing_level
    from patternmark_lab.bench.scale_designs import LONGEST, SHORTEST, measure_designs

    backbones = suitable_chains(find_structures(structures), None, SHORTEST, LONGEST)
    weights = weights_file("v_48_020", report=say)
    level = passing_level(setting.keys)
    log10_p = needed_p_values(setting, level)[0]["log10_p"]
    found = measure_designs(weights, backbones, log10_p, level, seed=seed, device=device, step=step)
    return {"designs": found}
