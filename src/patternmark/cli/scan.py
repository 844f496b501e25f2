"""`patternmark scan`: which of millions of sequences carry the mark of one of many keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patternmark.cli.options import (
    DETECTION,
    EXPERT,
    INPUT,
    AllowOpenKey,
    Json,
    KeyFolder,
    Resume,
    Workers,
    option,
    output_file,
)
from patternmark.cli.output import (
    STOPPED,
    Verbose,
    progress,
    progress_of_bytes,
    say,
    warn,
)
from patternmark.errors import KeyFileError, ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.search.candidates import keys_of_folder

if TYPE_CHECKING:
    from patternmark.scanning.file_scan import Scan

SKIPPED = 3  # the status of a scan that had to leave something out
_SHOWN = 20


def scan(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="FASTA or FASTQ (.gz and .zst too), Parquet or Arrow, or folders; - for stdin.",
        ),
    ],
    keys: KeyFolder,
    output: Annotated[Path, output_file("The Parquet file to write: the hits.")],
    sequence_column: Annotated[
        str, option(INPUT, metavar="NAME", help="The column of Parquet and Arrow to scan.")
    ] = "sequence",
    fpr: Annotated[
        float | None,
        option(
            DETECTION,
            metavar="P",
            help=f"Chance of any false hit in the whole scan; default: {DEFAULT_FPR:g}.",
        ),
    ] = None,
    fdr: Annotated[
        float | None,
        option(
            DETECTION, metavar="P", help="Expected share of false hits; takes the place of --fpr."
        ),
    ] = None,
    resume: Resume = False,
    as_json: Json = False,
    workers: Workers = 1,
    device: Annotated[
        str,
        option(
            EXPERT,
            metavar="NAME",
            help="cpu, cuda, or auto: where the first stage runs. A GPU pays with very many keys.",
        ),
    ] = "cpu",
    engine: Annotated[str, option(EXPERT, metavar="NAME", help="local or ray.")] = "local",
    ray_address: Annotated[
        str | None,
        option(
            EXPERT,
            metavar="ADDRESS",
            help="The Ray cluster to use; default: Ray on this machine.",
        ),
    ] = None,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Search many sequences for the marks of many keys.

    A manifest is written next to the hits, as OUTPUT.json: what was scanned, what was skipped and
    why, and the distribution of all p-values. The exit status is 3 if anything was skipped.

    Example: patternmark scan uniref/ --keys keys/ -o hits.parquet --workers 8
    """
    from patternmark.io.files import held, write_json
    from patternmark.scanning.file_scan import Scan, expand, needs
    from patternmark.scanning.keyset import KeySet
    from patternmark.scanning.result import corrected, manifest, signatures, write_hits

    _check(fpr, fdr)
    if engine not in ("local", "ray"):
        raise ParameterError(f"--engine must be local or ray, not {engine!r}")
    for module in ("numba", "pyarrow", "xxhash"):
        needs(module)
    level = {"fpr": None if fdr is not None else fpr or DEFAULT_FPR, "fdr": fdr}
    if output.is_dir():
        raise ParameterError(f"{output}: is a folder: give --output the name of a file")
    files = expand(inputs, output)
    refused: list[str] = []

    def hear(message: object) -> None:
        warn(message)
        if isinstance(message, KeyFileError):
            refused.append(str(message))

    with progress("keys") as bar:
        task = bar.add_task("loading keys", total=None)
        place = _device(device)
        candidates = keys_of_folder(keys, hear, allow_open=allow_open_key)
        screen = KeySet([candidate.key for candidate in candidates], place)
        bar.advance(task, len(screen.keys))
    work = output.with_name(f"{output.name}.scan")
    plan = Scan(files, screen, work, workers, sequence_column)
    with held(work):  # a run that is still alive must not be continued
        plan.begin(resume)
        try:
            found = _run(plan, engine, ray_address)
        except KeyboardInterrupt:
            say(
                f"stopped: finished work is in {work}; repeat the command with --resume to continue"
            )
            raise typer.Exit(STOPPED) from None
        written = write_hits(corrected(found, **level), output, signatures(found, **level))
        content = manifest(found, written, **level) | {"keys_left_out": refused}
        write_json(output.with_name(f"{output.name}.json"), content)
        plan.end()
    _tell(content, output, as_json)
    if content["num_skipped"] or refused:
        raise typer.Exit(SKIPPED)


def _device(name: str) -> str:
    if name == "cpu":  # the usual one takes no torch
        return name
    from patternmark.models.device import pick_device

    return pick_device(name)


def _check(fpr: float | None, fdr: float | None) -> None:
    if fpr is not None and fdr is not None:
        raise ParameterError("give --fpr or --fdr, not both")
    for value in (fpr, fdr):
        if value is not None and not 0.0 < value < 1.0:
            raise ParameterError(f"--fpr and --fdr must lie between 0 and 1, not {value}")


def _run(plan: Scan, engine: str, address: str | None) -> Any:
    from patternmark.scanning.cluster import run_on_ray

    # Of a pipe nobody knows how much is to come.
    known = not any(file == "-" or Path(file).is_fifo() for file in plan.files)
    sizes = [Path(file).stat().st_size for file in plan.files if Path(file).is_file()]
    with progress_of_bytes() as bar:
        task = bar.add_task("scanning", total=sum(sizes) if known else None)
        seen = 0

        def step(size: int, records: int) -> None:
            nonlocal seen
            seen += records
            bar.update(task, advance=size, description=f"{seen:,} sequences")

        return run_on_ray(plan, step, address) if engine == "ray" else plan.run(step)


def _tell(content: dict[str, Any], output: Path, as_json: bool) -> None:
    """Say what was found and what was left out."""
    skipped, every = content["skipped"], content["num_skipped"]
    for problem in skipped[:_SHOWN]:
        name = "".join(c if c.isprintable() else "?" for c in problem["id"])  # no terminal's orders
        name = f" ({name})" if name else ""
        warn(f"{problem['file']}: at {problem['offset']}{name}: {problem['why']}")
    if every > _SHOWN:
        warn(f"and {every - _SHOWN:,} more: see the manifest")
    if as_json:
        print(json.dumps(content, ensure_ascii=False))
        return
    (kind, level) = next(iter(content["correction"].items()))
    say(
        f"{content['records']:,} sequences, {len(content['keys']):,} keys: "
        f"{content['hits']:,} hits in {content['records_with_hits']:,} sequences at "
        f"{kind.upper()} {level:g} over {content['tests']:,} tests; "
        f"{content['screen']['passed']:,} pairs were judged in full. Wrote {output}"
    )
