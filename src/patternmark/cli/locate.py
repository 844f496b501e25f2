"""`patternmark locate`: the marked segments of fusions, chains, and DNA in six frames."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from patternmark.cli.items import Item, RecordSource, in_batches, read_items, signed_for_all
from patternmark.cli.options import (
    DETECTION,
    INPUT,
    AllowOpenKey,
    InputFormat,
    JsonLines,
    KeyFile,
    TokenizerFile,
    option,
)
from patternmark.cli.output import Verbose, progress, results, warn
from patternmark.core.alphabet import PROTEIN
from patternmark.core.keyfile import load_key
from patternmark.errors import InputError, ParameterError, SequenceError
from patternmark.evidence import DEFAULT_FPR
from patternmark.fast.compiled import repeated
from patternmark.io.dna import looks_like_dna
from patternmark.io.records import Problem
from patternmark.results import LN10, format_p, p_value_of
from patternmark.search.locate import Located, Locator, num_residues

_BATCH_RECORDS = 64  # read before they are searched: how many there are decides how


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
    search = Locator(load_key(key, allow_open=allow_open_key, with_secret=True), fpr=fpr)
    if dna and search.key.profile.alphabet != PROTEIN:
        raise ParameterError("--dna needs a key for proteins")
    source = RecordSource(search.key.profile.alphabet, format, tokenizer, key.parent)
    found: list[_Found] = []
    with progress("sequences") as bar:
        task = bar.add_task("locating", total=None)
        for batch in in_batches(read_items(files, source), _BATCH_RECORDS):
            with repeated(len(batch)):
                for item in batch:
                    is_dna = _is_dna(item, dna, search)
                    try:
                        located = _locate(search, item, is_dna)
                    except SequenceError as error:
                        warn(Problem(item.file, item.place, f"{error}; not searched"))
                        continue
                    if located.num_tokens_scored == 0:
                        warn(
                            Problem(
                                item.file, item.place, "nothing to score: no symbol carries a key"
                            )
                        )
                    found.append(_Found(item, is_dna, located, _characters(item, located, source)))
                    if as_json:
                        typer.echo(json.dumps(_to_table(found[-1], search)))
                    bar.advance(task)
    if not any(one.located.num_tokens_scored for one in found):
        raise InputError("no sequence could be judged")
    if not as_json:
        _print_table(found, search)


def _is_dna(item: Item, stated: bool | None, search: Locator) -> bool:
    sequence = item.record.sequence
    if search.key.profile.alphabet != PROTEIN or not isinstance(sequence, str):
        return False
    return looks_like_dna(sequence) if stated is None else stated


def _locate(search: Locator, item: Item, is_dna: bool) -> Located:
    if is_dna:
        return search.in_dna(str(item.record.sequence))
    return search.in_protein(item.symbols, item.scored)


@dataclass(frozen=True, eq=False)
class _Found:
    """What was located in a record; of a text, also between which characters."""

    item: Item
    is_dna: bool
    located: Located
    characters: list[tuple[int, int]] | None


def _characters(item: Item, located: Located, source: RecordSource) -> list[tuple[int, int]] | None:
    """Turn the segments of a text from tokens into characters, from 0, half-open."""
    cuts = source.cuts(item.record) if located.segments else None
    if cuts is None:
        return None
    return [(int(cuts[one.start]), int(cuts[one.end])) for one in located.segments]


def _to_table(found: _Found, search: Locator) -> dict[str, Any]:
    located, is_dna = found.located, found.is_dna
    segments = [segment.to_table() for segment in located.segments]
    for segment, characters in zip(segments, found.characters or [], strict=False):
        segment["characters"] = characters
    return {
        "id": found.item.record.id,
        "length": num_residues(found.item.symbols),
        "num_tokens_scored": located.num_tokens_scored,
        "kind": "dna" if is_dna else search.key.profile.alphabet.name,
        "frames": 6 if is_dna else 1,
        "prediction": bool(located.segments),
        "p_value": p_value_of(located.log_p),
        "log10_p": located.log_p / LN10,
        "segments": segments,
        "fpr": search.fpr,
        "key_id": search.key.key_id,
        "signature": found.item.signed(located.signature),
    } | found.item.facts


def _print_table(found: list[_Found], search: Locator) -> None:
    table = Table(box=None, pad_edge=False)
    several = len({one.item.file for one in found}) > 1
    for name in [*(["file"] if several else []), "sequence", "segment", "chain", "frame"]:
        table.add_column(name, overflow="fold")
    for name in ("statistic", "p-value"):
        table.add_column(name, justify="right")
    for one in found:
        names = [escape(one.item.file)] if several else []
        names.append(escape(" ".join(filter(None, [one.item.record.id, _folded(one)]))))
        for number, segment in enumerate(one.located.segments):
            frame = "" if segment.frame is None else f"{segment.frame:+d}"
            numbers = (f"{segment.statistic:g}", format_p(segment.log_p / LN10))
            table.add_row(*names, _place(one, number), str(segment.chain + 1), frame, *numbers)
        if not one.located.segments:
            table.add_row(*names, "no mark found", "", "", "", format_p(one.located.log_p / LN10))
    results.print(table)
    number = sum(len(one.located.segments) for one in found)
    results.print(
        f"\n{number} marked segments of key {search.key.key_id} at p <= {search.fpr:g}, corrected "
        "for the number of searches"
        + (" and for six frames" if any(one.is_dna for one in found) else ""),
        highlight=False,
        soft_wrap=True,
    )
    signature = signed_for_all(search.signature, (one.item for one in found))
    results.print(f"signature {signature}", highlight=False, soft_wrap=True)


def _folded(found: _Found) -> str:
    return f"({found.item.in_words})" if found.item.in_words else ""


def _place(found: _Found, number: int) -> str:
    segment = found.located.segments[number]
    place = f"{segment.start + 1}-{segment.end}{' nt' if found.is_dna else ''}"
    if found.characters is None:
        return place
    start, end = found.characters[number]
    return f"{place} (characters {start + 1}-{end})"
