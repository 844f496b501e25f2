"""`patternmark scan`: find which of millions of sequences carry the mark of one of many keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from patternmark.api.scanning import Scanning, ScanRequest, ScanResult, files_to_scan
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
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.shown import json_line
from patternmark.search.candidates import collect_key_errors, keys_of_folder

SKIPPED = 3  # exit status of a scan that skipped a record or a key


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
    request = ScanRequest(sequence_column, fpr, fdr, resume, workers, device, engine, ray_address)
    files = files_to_scan(inputs, output)
    left_out: list[str] = []
    with progress("keys") as bar:
        task = bar.add_task("loading keys", total=None)
        candidates = keys_of_folder(
            keys, collect_key_errors(warn, left_out), allow_open=allow_open_key
        )
        job = Scanning(files, candidates, output, request, left_out)
        bar.advance(task, len(candidates))
    try:
        with progress_of_bytes() as bytes_bar:
            found = job.run(warn, _progress_function(bytes_bar))
    except KeyboardInterrupt:
        say(
            f"stopped: finished work is in {job.work}; repeat the command with resume=True to "
            "continue"
        )
        raise typer.Exit(STOPPED) from None
    _print_summary(found, as_json)
    if not found.is_complete:
        raise typer.Exit(SKIPPED)


def _progress_function(bar: Progress) -> Callable[[str, int, int | None], None]:
    """Return a progress function that shows bytes and sequences in one line."""
    task = bar.add_task("scanning", total=None)

    def show(what: str, done: int, total: int | None) -> None:
        if what == "sequences":
            bar.update(task, description=f"{done:,} sequences")
        else:
            bar.update(task, completed=done, total=total)

    return show


def _print_summary(found: ScanResult, as_json: bool) -> None:
    """Print the summary of a scan."""
    content = found.manifest
    if as_json:
        print(json_line(content))
        return
    (kind, level) = next(iter(content["correction"].items()))
    say(
        f"{content['records']:,} sequences, {len(content['keys']):,} keys: "
        f"{content['hits']:,} hits in {content['records_with_hits']:,} sequences at "
        f"{kind.upper()} {level:g} over {content['tests']:,} tests; "
        f"{content['screen']['passed']:,} pairs were judged in full. Wrote {found.output}"
    )
