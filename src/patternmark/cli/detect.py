"""`patternmark detect`: verdicts on the sequences of one or more files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from patternmark.chain import KeyChain
from patternmark.cli.output import AllowOpenKey, Verbose, errors, progress, results, warn
from patternmark.detect import DEFAULT_FPR, Detector
from patternmark.errors import InputError, ParameterError, SequenceError
from patternmark.io.keyfile import load_key
from patternmark.io.records import FORMATS, Format, Problem, Record, read_records
from patternmark.verdict import Verdict, format_p

_BATCH_RECORDS = 2048
_BATCH_SYMBOLS = 2**22
_PICTURES = 4

Judged = tuple[Verdict, NDArray[np.int64]]


def detect(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="FASTA, one sequence per line, or JSON lines; .gz; - for stdin."
        ),
    ],
    key: Annotated[Path, typer.Option(help="The key file.")],
    detector: Annotated[str, typer.Option(help="The statistic to test.")] = "pattern",
    m: Annotated[int | None, typer.Option(help="Pattern length; default: the key's.")] = None,
    fpr: Annotated[float, typer.Option(help="Call a sequence marked at p <= FPR.")] = DEFAULT_FPR,
    null: Annotated[
        str, typer.Option(help='"uniform", or the probability of each part: "0.45,0.55".')
    ] = "uniform",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per sequence.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the strongest verdicts (png, svg, pdf).")
    ] = None,
    format: Annotated[str, typer.Option(help=f"Input format: {', '.join(FORMATS)}.")] = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Test each sequence for the mark of a key. The status is 0 whatever is found."""
    if format not in FORMATS:
        raise ParameterError(f"--format is one of {', '.join(FORMATS)}, not {format!r}")
    loaded = load_key(key, allow_open=allow_open_key)
    judge = Detector(loaded, detector, m=m, fpr=fpr, null=_parse_null(null))
    if plot is not None:
        from patternmark.plot import require_matplotlib

        require_matplotlib()
    verdicts: list[Verdict] = []
    strongest: list[Judged] = []
    with progress("sequences") as bar:
        task = bar.add_task("detecting", total=None)
        for batch in _batches(files, cast(Format, format), judge):
            judged = _judge(judge, batch)
            strongest = sorted(strongest + judged, key=lambda pair: pair[0].log10_p)[:_PICTURES]
            for verdict, _ in judged:
                if as_json:
                    typer.echo(verdict.to_json())
                else:
                    verdicts.append(verdict)
            bar.advance(task, len(judged))
    if not strongest:
        raise InputError("no sequence could be judged")
    if not as_json:
        _print_table(verdicts, judge)
    if plot is not None:
        from patternmark.plot import plot_verdicts

        plot_verdicts(judge, [v for v, _ in strongest], [s for _, s in strongest], str(plot))
        if not as_json:
            errors.print(f"picture: {escape(str(plot))}", highlight=False)


Batch = list[tuple[Record, NDArray[np.int64]]]


def _batches(files: list[str], format: Format, judge: Detector) -> Iterator[Batch]:
    """Group readable records for the detector; say what is wrong with the others."""
    batch: Batch = []
    symbols = 0
    for record, encoded in _encoded(files, format, judge):
        batch.append((record, encoded))
        symbols += len(encoded)
        if len(batch) >= _BATCH_RECORDS or symbols >= _BATCH_SYMBOLS:
            yield batch
            batch, symbols = [], 0
    if batch:
        yield batch


def _encoded(
    files: list[str], format: Format, judge: Detector
) -> Iterator[tuple[Record, NDArray[np.int64]]]:
    for file in files:
        try:
            for item in read_records(file, format):
                if isinstance(item, Problem):
                    warn(item)
                    continue
                try:
                    yield item, judge.key.profile.alphabet.encode(item.sequence)
                except SequenceError as error:
                    warn(Problem(file, f"{item.place} ({item.id})", f"{error}; not scored"))
        except InputError as error:
            warn(error)


def _judge(judge: Detector, batch: Batch) -> list[Judged]:
    sequences = [encoded for _, encoded in batch]
    verdicts = judge.detect_many(sequences, [record.id for record, _ in batch])
    return list(zip(verdicts, sequences, strict=True))


def _print_table(verdicts: list[Verdict], judge: Detector) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("sequence", overflow="fold")
    for name in ("length", "scored", "count", "expected", "p-value"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for v in verdicts:
        numbers = (v.length, v.num_tokens_scored, f"{v.statistic:g}", f"{v.expected_statistic:.1f}")
        call = "[green]marked[/green]" if v.prediction else escape(v.note or "no mark found")
        table.add_row(escape(v.id), *map(str, numbers), format_p(v.log10_p), call)
    results.print(table)
    marked = sum(v.prediction for v in verdicts)
    results.print(
        f"\n{marked} of {len(verdicts)} sequences carry the mark of key {judge.key.key_id} "
        f"at p <= {judge.fpr:g} ({judge.fpr * len(verdicts):.2g} expected by chance)",
        highlight=False,
        soft_wrap=True,
    )
    results.print(f"signature {judge.signature}", highlight=False, soft_wrap=True)


def _parse_null(text: str) -> KeyChain | None:
    if text == "uniform":
        return None
    try:
        return KeyChain.independent([float(p) for p in text.split(",")])
    except ValueError:
        raise ParameterError(
            f"--null is 'uniform' or probabilities that sum to 1 such as 0.45,0.55, not {text!r}"
        ) from None
