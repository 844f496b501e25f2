"""`patternmark calibrate`: count the false positives on unmarked sequences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from patternmark.api.given import KeyOfFile
from patternmark.api.planning import calibrate as count_false_positives
from patternmark.cli.options import (
    DETECTION,
    AllowOpenKey,
    InputFormat,
    Json,
    KeyFile,
    StatisticName,
    TokenizerFile,
    Workers,
    option,
    output_file,
    plot_file,
)
from patternmark.cli.output import Verbose, progress, results, say, shown_in, warn
from patternmark.core.keyfile import load_key
from patternmark.errors import InputError
from patternmark.plan.calibrate import Calibration, Rate


def calibrate(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Sequences without the mark; - for stdin."),
    ],
    key: KeyFile,
    format: InputFormat = "auto",
    tokenizer: TokenizerFile = None,
    detector: StatisticName = "auto",
    null_keys: Annotated[
        int,
        option(DETECTION, metavar="N", min=0, help="Number of fresh keys to compare with."),
    ] = 200,
    output: Annotated[
        Path | None,
        output_file("Write the JSON here; `detect` reads KEY.calibration.json for a warning."),
    ] = None,
    as_json: Json = False,
    plot: Annotated[Path | None, plot_file("the rates")] = None,
    workers: Workers = 1,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Count the false positives of a key, and of fresh keys, on sequences without a mark.

    Example: patternmark calibrate natural.fa --key lab.key --workers 8
    """
    loaded = load_key(key, allow_open=allow_open_key, with_secret=True)
    if plot is not None:
        from patternmark.report.plot import require_matplotlib

        require_matplotlib()
    with progress("keys") as bar:
        found = count_false_positives(
            [Path(file) for file in files],
            KeyOfFile(loaded, key),
            detector=detector,
            null_keys=null_keys,
            workers=workers,
            format=format,
            tokenizer=tokenizer,
            warn=warn,
            progress=shown_in(bar),
        )
    text = json.dumps(found.to_dict())
    if as_json:
        typer.echo(text)
    else:
        _print_tables(found)
    if output is not None:
        try:
            output.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{output}: cannot be written: {error.strerror}") from None
        say(f"wrote {output}")
    if plot is not None:
        from patternmark.report.charts import plot_calibration

        plot_calibration(found, str(plot))
        say(f"wrote {plot}")


def _print_tables(found: Calibration) -> None:
    rows: list[tuple[str, tuple[Rate, ...]]] = [
        (f"all {found.num_keys} keys", found.levels),
        ("this key", found.own_key),
        ("the worst key", found.worst_key),
    ]
    table = Table(box=None, pad_edge=False)
    table.add_column("key")
    for name in ("nominal", "false positives", "of", "rate", "95 % interval"):
        table.add_column(name, justify="right")
    for who, rates in rows:
        for rate in rates:
            interval = f"{rate.low:.2g} - {rate.high:.2g}"
            numbers = (f"{rate.nominal:g}", str(rate.hits), str(rate.trials), f"{rate.fpr:.3g}")
            table.add_row(who, *numbers, interval)
    results.print(table)
    results.print(
        f"\n{found.num_sequences} sequences, {found.num_keys} keys; the worst of many keys has "
        f"a higher rate than the others by chance alone\nsignature {found.signature}",
        highlight=False,
        soft_wrap=True,
    )
