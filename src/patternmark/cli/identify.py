"""`patternmark identify`: which of many keys marked each sequence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from patternmark.api.searching import identify_items
from patternmark.cli.options import (
    DETECTION,
    INPUT,
    AllowOpenKey,
    InputFormat,
    JsonLines,
    KeyFolderIfAny,
    ManifestUsed,
    SequenceFiles,
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
from patternmark.errors import InputError, ParameterError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.bounded import read_text
from patternmark.io.items import Item, RecordSource, read_items, signed_for_all
from patternmark.io.manifest_use import VERIFY, ManifestUse
from patternmark.results import LN10, format_p
from patternmark.search.candidates import Candidate, keys_of_folder, sub_keys
from patternmark.search.identify import Identification, Identifier

_DIGITS_OF_IDS = 7  # of a number of sub-keys: ten million take hours and gigabytes


def identify(
    files: SequenceFiles,
    keys: KeyFolderIfAny = None,
    master: Annotated[
        Path | None,
        option(INPUT, metavar="FILE", help="A key whose sub-keys are tried (see key derive)."),
    ] = None,
    ids: Annotated[
        str | None,
        option(
            INPUT, metavar="FILE", help="The names of its sub-keys, one per line; or N for 1 to N."
        ),
    ] = None,
    format: InputFormat = "auto",
    tokenizer: TokenizerFile = None,
    manifest: ManifestUsed = VERIFY,
    fpr: Annotated[
        float,
        option(
            DETECTION, metavar="P", help="Name a key at p <= P, corrected for the number of keys."
        ),
    ] = DEFAULT_FPR,
    as_json: JsonLines = False,
    allow_open_key: AllowOpenKey = False,
    verbose: Verbose = False,
) -> None:
    """Find out which of many keys marked each sequence.

    P-values are multiplied by the number of keys (Bonferroni). The exit status is 0 whether or not
    a key is found.

    Example: patternmark identify designs.fa --keys keys/
    """
    with progress("keys") as bar:
        task = bar.add_task("loading keys", total=None)
        candidates = _candidates(keys, master, ids, allow_open_key)
        bar.advance(task, len(candidates))
        search = Identifier(candidates, fpr=fpr)
        beside = keys if keys is not None else master.parent if master else None
        manifests = ManifestUse(manifest, (candidate.key for candidate in candidates))
        source = RecordSource(search.alphabet, format, tokenizer, beside, manifests)
        bar.update(task, description="deriving schedules")
        search.prepare()
    if search.caution:
        warn(f"{search.caution}. Confirm a key with 'patternmark detect --null keys'")
    items = list(read_items(files, source, warn))
    if not items:
        raise InputError("no sequence could be judged")
    found: list[tuple[Item, Identification]] = []
    with progress("done") as bar:
        for item, one in identify_items(search, items, shown_in(bar)):
            found.append((item, one))
            if as_json:
                typer.echo(json.dumps(one.to_dict() | item.facts))
    if not as_json:
        _print_table(found, search)


def _candidates(
    folder: Path | None, master: Path | None, ids: str | None, allow_open: bool
) -> list[Candidate]:
    if (folder is None) == (master is None):
        raise ParameterError("give either --keys FOLDER, or --master FILE with --ids")
    if folder is not None:
        if ids is not None:
            raise ParameterError("--ids needs --master")
        return keys_of_folder(folder, warn, allow_open=allow_open)
    assert master is not None  # noqa: S101
    if ids is None:
        raise ParameterError("--master needs --ids: a file of names, or their number")
    key = load_key(master, allow_open=allow_open, with_secret=True)
    return sub_keys(key, _names(ids))


def _names(text: str) -> list[str]:
    if text.isdecimal():
        if len(text) > _DIGITS_OF_IDS:
            raise ParameterError(f"--ids needs a number of at most {_DIGITS_OF_IDS} digits")
        if int(text) < 1:
            raise ParameterError("--ids needs at least one sub-key")
        return [str(number) for number in range(1, int(text) + 1)]
    try:
        lines = read_text(Path(text)).splitlines()
    except (OSError, ValueError):
        raise InputError(f"{text}: cannot read names of sub-keys from it") from None
    names = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not names:
        raise InputError(f"{text}: contains no names of sub-keys")
    return names


def _print_table(found: list[tuple[Item, Identification]], search: Identifier) -> None:
    table = Table(box=None, pad_edge=False)
    several = len({item.file for item, _ in found}) > 1
    for name in [*(["file"] if several else []), "sequence", "best key", "key id"]:
        table.add_column(name, overflow="fold")
    table.add_column("corrected p", justify="right")
    table.add_column("runner-up", overflow="fold")
    table.add_column("its p", justify="right")
    table.add_column("verdict")
    for item, one in found:
        best, other = one.best, one.runner_up
        call = f"[green]marked by {cell(best.candidate.name)}[/green]"
        if not one.prediction:
            call = cell(one.note or "no key of these")
        elif one.note:
            call += f", but {cell(one.note)}"
        if item.in_words:
            call += f" ({item.in_words})"
        table.add_row(
            *([cell(item.file)] if several else []),
            cell(one.id),
            cell(best.candidate.file or best.candidate.name),
            best.candidate.key.key_id,
            format_p(best.log_p / LN10),
            cell(other.candidate.file or other.candidate.name) if other else "",
            format_p(other.log_p / LN10) if other else "",
            call,
        )
    results.print(table)
    print_manifests(item for item, _ in found)
    marked = sum(one.prediction for _, one in found)
    results.print(
        f"\n{marked} of {len(found)} sequences carry the mark of one of {len(search.candidates)} "
        f"keys at corrected p <= {search.fpr:g}; p-values are times {len(search.candidates)} "
        "(Bonferroni over keys)",
        highlight=False,
        soft_wrap=True,
    )
    signature = signed_for_all(search.signature, (item for item, _ in found))
    tell(f"signature {signature}")
