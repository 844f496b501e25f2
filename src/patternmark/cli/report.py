"""`patternmark report`: one HTML page on the designs of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from patternmark.api.given import KeyOfFile
from patternmark.api.reporting import write_report
from patternmark.cli.options import (
    AllowOpenKey,
    Fpr,
    InputFormat,
    KeyFile,
    ManifestUsed,
    SequenceFiles,
    StatisticName,
    TokenizerFile,
    output_file,
)
from patternmark.cli.output import Verbose, progress, say, shown_in, warn
from patternmark.core.keyfile import load_key
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.manifest_use import VERIFY


def report(
    files: SequenceFiles,
    key: KeyFile,
    output: Annotated[Path, output_file("The HTML page to write.")],
    format: InputFormat = "auto",
    tokenizer: TokenizerFile = None,
    manifest: ManifestUsed = VERIFY,
    detector: StatisticName = "auto",
    fpr: Fpr = DEFAULT_FPR,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Write an HTML page of verdicts and coloured sequences.

    The page reveals which letters the key promotes: keep it as secret as the key.

    Example: patternmark report designs.fa --key lab.key -o report.html
    """
    loaded = load_key(key, allow_open=allow_open_key, with_secret=True)
    with progress("sequences") as bar:
        write_report(
            [Path(file) for file in files],
            KeyOfFile(loaded, key),
            output,
            detector=detector,
            fpr=fpr,
            format=format,
            tokenizer=tokenizer,
            manifest=manifest,
            warn=warn,
            progress=shown_in(bar),
        )
    takes_parts = loaded.profile.scheme.takes_parts
    shown = "the partition" if takes_parts else "symbols that keys promote"
    say(f"wrote {output} (it shows {shown}: keep it as secret as the key)")
