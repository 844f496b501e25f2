"""`patternmark translate`: German to English with CMLM; each line carries the mark of a key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patternmark.api.translating import (
    MAX_PASSES,
    MAX_TEMPERATURE,
    TranslateRequest,
    Translating,
    lines_to_translate,
)
from patternmark.cli.options import (
    EXPERT,
    MARK,
    MODEL,
    AllowOpenKey,
    Delta,
    Device,
    FreshSeed,
    KeyFileIfMarked,
    NoWatermark,
    Overwrite,
    Payload,
    Resume,
    option,
    output_file,
)
from patternmark.cli.output import STOPPED, Verbose, progress, say, shown_in, warn
from patternmark.core.keyfile import load_key
from patternmark.core.marker import Marker
from patternmark.errors import ParameterError
from patternmark.io.files import held


def translate(
    input: Annotated[
        Path, typer.Argument(metavar="FILE", help="German, one text per line; - for stdin.")
    ],
    output: Annotated[Path, output_file("The translations, line by line; - for stdout.")],
    key: KeyFileIfMarked = None,
    delta: Delta = None,
    payload: Payload = None,
    passes: Annotated[
        int,
        option(
            MARK,
            metavar="N",
            min=1,
            max=MAX_PASSES,
            help="Translate up to N times, from a weak mark to --delta, until the mark is clear.",
        ),
    ] = 5,
    no_watermark: NoWatermark = False,
    temperature: Annotated[
        float,
        option(
            MODEL,
            metavar="T",
            min=0.0,
            max=MAX_TEMPERATURE,
            help="Sampling temperature; 0 takes the likeliest tokens.",
        ),
    ] = 0.0,
    weights: Annotated[
        Path | None,
        option(MODEL, metavar="FOLDER", help="Your own model instead of the built-in one (de-en)."),
    ] = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    iterations: Annotated[
        int, option(EXPERT, metavar="N", min=1, help="Rounds of masking and predicting.")
    ] = 10,
    length_beam: Annotated[
        int, option(EXPERT, metavar="N", min=1, help="Number of lengths tried for each line.")
    ] = 5,
    seed: FreshSeed = None,
    device: Device = "auto",
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Translate German into marked English, line by line.

    Example: patternmark translate german.txt --key text.key -o english.txt
    """
    import patternmark.translation  # noqa: F401  # an error that names the extra to install

    if payload is not None and no_watermark:
        raise ParameterError("--payload needs a mark: leave out --no-watermark")
    if (key is None) != no_watermark:
        raise ParameterError("give either --key FILE or --no-watermark")
    request = TranslateRequest(passes, temperature, iterations, length_beam, seed, weights, device)
    lines = lines_to_translate(input, output, warn)
    marker = None
    if key is not None:
        loaded = load_key(key, allow_open=allow_open_key, with_secret=True)
        marker = Marker(loaded, delta=delta, payload=payload)
    name = "standard output" if str(output) == "-" else output
    with held(output):
        job = Translating(
            lines,
            marker,
            request,
            file=input,
            key_file=key,
            output=output,
            overwrite=overwrite,
            resume=resume,
            warn=warn,
        )
        try:
            with progress("lines") as bar:
                job.run(shown_in(bar))
        except KeyboardInterrupt:
            done = f"{len(job.texts)} of {len(lines)} lines"
            say(f"stopped: {name} has {done}; continue with resume=True")
            raise typer.Exit(STOPPED) from None
    count = len(lines) - job.num_kept
    wrote = f"wrote {count} line{'' if count == 1 else 's'} to {name}"
    say(f"{wrote}, {job.summary(job.verdicts())}")
