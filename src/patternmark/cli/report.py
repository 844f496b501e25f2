"""`patternmark report`: one HTML page on the designs of a file."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from patternmark.api.detecting import judge_items
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
from patternmark.cli.output import Verbose, progress, say, warn
from patternmark.core.keyfile import load_key
from patternmark.detector import Detector
from patternmark.errors import InputError
from patternmark.evidence import DEFAULT_FPR
from patternmark.io.files import write_private
from patternmark.io.items import Item, RecordSource, manifests_in_words, read_items
from patternmark.io.manifest_use import VERIFY, ManifestUse
from patternmark.report.page import ReportEntry, render_report
from patternmark.results import Verdict


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
    judge = Detector(load_key(key, allow_open=allow_open_key, with_secret=True), detector, fpr=fpr)
    manifests = ManifestUse(manifest, [judge.key])
    source = RecordSource(judge.key.profile.alphabet, format, tokenizer, key.parent, manifests)
    with progress("sequences") as bar:
        task = bar.add_task("judging", total=None)
        items = list(read_items(files, source, warn))
        entries = [_entry(*pair, source) for pair in judge_items(judge, items)]
        bar.advance(task, len(entries))
    if not entries:
        raise InputError("no sequence could be judged")
    names = ", ".join(Path(file).name for file in files)
    title = f"{'Texts' if source.of_text else 'Designs'} in {names}"
    page = render_report(judge, entries, title=title, remarks=manifests_in_words(items))
    write_private(output, page, overwrite=True)  # it reveals what the key promotes
    shown = "the partition" if judge.key.profile.scheme.takes_parts else "symbols that keys promote"
    say(f"wrote {output} (it shows {shown}: keep it as secret as the key)")


def _entry(verdict: Verdict, item: Item, source: RecordSource) -> ReportEntry:
    design = item.record.design
    is_design = design is not None and not design.is_native
    return ReportEntry(
        verdict=replace(verdict, note="; ".join(filter(None, [verdict.note, item.in_words]))),
        sequence=item.symbols,
        words=_words(item, source),
        scored=item.scored,
        native=item.is_native,
        score=design.number("score") if design else None,
        recovery=design.number("seq_recovery", "seq_rec") if design else None,
        watermarked=("wm" in design.facts) if design and is_design else None,
    )


def _words(item: Item, source: RecordSource) -> tuple[str, ...] | None:
    """Cut a text into what its tokens stand for."""
    cuts = source.cuts(item.record)
    if cuts is None:
        return None
    text = str(item.record.sequence)
    return tuple(text[start:end] for start, end in pairwise(cuts.tolist()))
