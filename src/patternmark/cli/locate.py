"""`patternmark locate`: the marked segments of fusions, chains, and DNA in six frames."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from patternmark.api.searching import DNA, Locating, Location
from patternmark.cli.options import (
    DETECTION,
    INPUT,
    AllowOpenKey,
    InputFormat,
    JsonLines,
    KeyFile,
    ManifestUsed,
    TokenizerFile,
    option,
)
from patternmark.cli.output import (
    Verbose,
    cell,
    print_manifests,
    progress,
    results,
    shown_in,
    tell,
    warn,
)
from patternmark.core.keyfile import load_key
from patternmark.errors import InputError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.items import Item, RecordSource, read_items, signed_for_all
from patternmark.io.manifest_use import VERIFY, ManifestUse
from patternmark.results import LN10, Status, format_p
from patternmark.search.locate import Locator

Found = tuple[Item, Location]


def locate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="FASTA of proteins, DNA or RNA, or text; .gz too; - for stdin."
        ),
    ],
    key: KeyFile,
    dna: Annotated[
        bool | None,
        option(INPUT, "--dna/--protein", help="What the letters mean; default: guess."),
    ] = None,
    format: InputFormat = "auto",
    tokenizer: TokenizerFile = None,
    manifest: ManifestUsed = VERIFY,
    fpr: Annotated[
        float,
        option(
            DETECTION, metavar="P", help="Report segments at p <= P, corrected for all searches."
        ),
    ] = DEFAULT_FPR,
    as_json: JsonLines = False,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Find the marked segments of sequences.

    DNA and RNA are read in six frames, and positions are nucleotides. Positions count from 1 within
    a chain; in JSON they count from 0 and are half-open. The exit status is 0 whether or not a mark
    is found.

    Example: patternmark locate fusions.fa --key lab.key
    """
    loaded = load_key(key, allow_open=allow_open_key, with_secret=True)
    manifests = ManifestUse(manifest, [loaded])
    source = RecordSource(loaded.profile.alphabet, format, tokenizer, key.parent, manifests)
    locating = Locating(loaded, fpr, source, warn, dna)
    found: list[Found] = []
    with progress("sequences") as bar:
        items = read_items(files, source, warn)
        for item, one in locating.locations(items, shown_in(bar)):
            found.append((item, one))
            if as_json:
                typer.echo(json.dumps(one.to_dict() | item.facts))
    if all(one.status is Status.NOTHING_TO_SCORE for _, one in found):
        raise InputError("no sequence could be judged")
    if not as_json:
        _print_table(found, locating.search)


def _print_table(found: list[Found], search: Locator) -> None:
    table = Table(box=None, pad_edge=False)
    several = len({item.file for item, _ in found}) > 1
    for name in [*(["file"] if several else []), "sequence", "segment", "chain", "frame"]:
        table.add_column(name, overflow="fold")
    for name in ("statistic", "p-value"):
        table.add_column(name, justify="right")
    for item, one in found:
        names = [cell(item.file)] if several else []
        folded = f"({item.in_words})" if item.in_words else ""
        names.append(cell(" ".join(filter(None, [one.id, folded]))))
        for number, segment in enumerate(one.segments):
            frame = "" if segment.frame is None else f"{segment.frame:+d}"
            numbers = (f"{segment.statistic:g}", format_p(segment.log_p / LN10))
            table.add_row(*names, _place(one, number), str(segment.chain + 1), frame, *numbers)
        if not one.segments:
            table.add_row(*names, "no mark found", "", "", "", format_p(one.log10_p))
    results.print(table)
    print_manifests(item for item, _ in found)
    number = sum(len(one.segments) for _, one in found)
    results.print(
        f"\n{number} marked segments of key {search.key.key_id} at p <= {search.fpr:g}, corrected "
        "for the number of searches"
        + (" and for six frames" if any(one.kind == DNA for _, one in found) else ""),
        highlight=False,
        soft_wrap=True,
    )
    signature = signed_for_all(search.signature, (item for item, _ in found))
    tell(f"signature {signature}")


def _place(found: Location, number: int) -> str:
    segment = found.segments[number]
    place = f"{segment.start + 1}-{segment.end}{' nt' if found.kind == DNA else ''}"
    if found.characters is None:
        return place
    start, end = found.characters[number]
    return f"{place} (characters {start + 1}-{end})"
